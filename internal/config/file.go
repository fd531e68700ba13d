package config

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
	"time"
)

// A pipe may be named in place of a file, as the shell's <(...) does. Who
// writes to it may come later than we do, or never.
const (
	pipePatience = 10 * time.Second // until the writer has closed it
	pipeLook     = 20 * time.Millisecond
)

var errSilentPipe = fmt.Errorf("is a pipe, and whoever writes to it has not come to an end within %s", pipePatience)

// readLimited reads a whole file of at most limit bytes. It gives up when ctx
// ends, also while it waits for the other end of a pipe.
func readLimited(ctx context.Context, name string, limit int64) ([]byte, error) {
	// Without O_NONBLOCK the opening of a pipe waits for its writer, and nothing
	// could end that. It changes nothing for a file.
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	// Files have no deadlines and need none: these errors are of no interest.
	_ = f.SetReadDeadline(time.Now().Add(pipePatience))
	release := context.AfterFunc(ctx, func() { _ = f.SetReadDeadline(time.Unix(1, 0)) })
	defer release()
	data, err := readToEnd(ctx, f, limit)
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, errSilentPipe
	case err == nil && int64(len(data)) > limit:
		err = fmt.Errorf("is larger than %s", plainSize(limit))
	}
	return data, err
}

// readToEnd reads to the end, or one byte beyond the limit. A pipe that nobody
// has opened for writing yet reads like an empty file, so there it reads again.
func readToEnd(ctx context.Context, f *os.File, limit int64) ([]byte, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	look := time.NewTicker(pipeLook)
	defer look.Stop()
	for {
		data, err := io.ReadAll(io.LimitReader(f, limit+1))
		if err != nil || len(data) > 0 || info.Mode()&fs.ModeNamedPipe == 0 {
			return data, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-look.C:
		}
	}
}
