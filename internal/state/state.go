// Package state keeps what must outlive a restart of the daemon in one file:
// operators' orders, and what the loop has learnt.
package state

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/haproxy-weighter/haproxy-weighter/internal/balancer"
)

// Content is what the file holds.
type Content struct {
	Version  int                         `json:"version"`
	Saved    time.Time                   `json:"saved"`    // UTC
	Ended    bool                        `json:"ended"`    // by a daemon that ended in good order: nothing came after it
	Controls map[string]balancer.Control `json:"controls"` // by backend
	Learnt   []balancer.Learnt           `json:"learnt"`
}

// version is of the file's form. A file of another version is not read.
const version = 1

// largest is far above 20,000 servers with a pin each.
const largest = 64 << 20

// Load reads the file; one that is not there gives an empty Content. A file
// that can't be used is an error, and it is moved aside, to the same name with
// ".bad" behind it, so that the next Save does not destroy what it held.
func Load(path string) (Content, error) {
	c, err := read(path)
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		return c, nil
	}
	if errors.Is(err, errUnusable) {
		if moved := os.Rename(path, path+".bad"); moved == nil {
			err = fmt.Errorf("%w; it is kept as %s.bad", err, path)
		}
	}
	return Content{}, err
}

// Peek is Load for who only wants to know: the file stays as it is, whatever is
// wrong with it.
func Peek(path string) (Content, error) {
	c, err := read(path)
	if errors.Is(err, fs.ErrNotExist) {
		return Content{}, nil
	}
	return c, err
}

// errUnusable says that there is a file, and that it is no state file of ours.
var errUnusable = errors.New("this state file can't be used")

func unusable(path, format string, args ...any) (Content, error) {
	return Content{}, fmt.Errorf("%s: %w: %s", path, errUnusable, fmt.Sprintf(format, args...))
}

func read(path string) (Content, error) {
	// Without O_NONBLOCK a named pipe in its place would be waited for.
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	switch {
	case errors.Is(err, fs.ErrPermission):
		return unusable(path, "%v", err)
	case err != nil:
		return Content{}, err
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return Content{}, err
	case !info.Mode().IsRegular():
		return Content{}, fmt.Errorf("%s is not a regular file", path)
	case info.Mode().Perm()&0o022 != 0:
		return unusable(path, "it may be written by others than its owner (mode %#o), who could pin weights by it; run chmod 600 on it",
			info.Mode().Perm())
	case !trusted(info.Sys().(*syscall.Stat_t).Uid, os.Geteuid()):
		return unusable(path, "it belongs to uid %d, who could pin weights by it; it must belong to the user of haproxy-weighter (chown %d)",
			info.Sys().(*syscall.Stat_t).Uid, os.Geteuid())
	}
	data, err := io.ReadAll(io.LimitReader(f, largest+1))
	if err != nil {
		return Content{}, err
	}
	return decode(path, data)
}

// trusted tells whether a file of this owner is ours: in a folder where others
// may write, one of theirs could stand in its place.
func trusted(owner uint32, self int) bool { return owner == 0 || int(owner) == self }

// decode reads and checks the bytes of a file.
func decode(path string, data []byte) (Content, error) {
	var c Content
	switch err := json.Unmarshal(data, &c); {
	case len(data) > largest:
		return unusable(path, "it is larger than %d MiB", largest>>20)
	case err != nil:
		return unusable(path, "%v", err)
	case c.Version != version:
		return unusable(path, "it is of version %d, and this program reads version %d", c.Version, version)
	}
	for backend, control := range c.Controls {
		for server, pin := range control.Pins {
			if pin.Weight < 1 || pin.Weight > 256 {
				return unusable(path, "the pin of %q/%q has weight %d; allowed: 1 to 256", backend, server, pin.Weight)
			}
		}
		if m := control.Mode; m != nil && m.Mode != "live" && m.Mode != "observe" {
			return unusable(path, "the mode of %q is %q; allowed: live, observe", backend, m.Mode)
		}
	}
	for i := range c.Learnt {
		l := &c.Learnt[i]
		switch {
		case l.Lifetime < 0:
			return unusable(path, "the lifetime learnt for %q is negative", l.Backend)
		case l.Weights == nil:
			return unusable(path, "the weights learnt for %q are missing", l.Backend)
		}
		for server, w := range l.Weights {
			if w < 0 || w > 256 {
				return unusable(path, "the weight learnt for %q/%q is %d; allowed: 0 to 256", l.Backend, server, w)
			}
		}
	}
	return c, nil
}

// Save replaces the file in one step: whatever happens meanwhile, it is the
// old one or the new one. It is readable for its owner only.
func Save(path string, c Content) (err error) {
	c.Version = version
	data, err := json.MarshalIndent(c, "", " ")
	if err != nil {
		return err
	}
	folder := filepath.Dir(path)
	f, err := os.CreateTemp(folder, "."+filepath.Base(path)+".*") // mode 0600
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			f.Close()
			os.Remove(f.Name())
		}
	}()
	if _, err := f.Write(append(data, '\n')); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	return syncFolder(folder)
}

// syncFolder makes the new name of the file outlast a loss of power.
func syncFolder(folder string) error {
	d, err := os.Open(folder)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
