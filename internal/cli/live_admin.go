package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/haproxy-weighter/haproxy-weighter/internal/api"
	"github.com/haproxy-weighter/haproxy-weighter/internal/config"
)

// admin looks at admin.listen. Its default alone keeps no daemon from starting.
func (s *survey) admin(ctx context.Context) {
	l := s.config.Admin.Listen
	if l == (config.Listener{}) {
		return
	}
	p := place{
		check: "admin", at: l, taken: fail, ours: servesPage,
		isFree: wordsPageFree, isOurs: wordsPageOurs, isOther: wordsPageOther,
		doOther: doPage, doFailed: doPage, doFolder: doPageFolder,
	}
	if l.String() == config.DefaultAdmin {
		p.taken = warn
		p.doOther, p.doFailed = doPageDefault, doPageDefault
	}
	s.listen(ctx, p)
}

// mostStatus is how much of an answer tells whose it is, in bytes.
const mostStatus = 1 << 10

// servesPage tells whether our own HTTP listener answers.
func servesPage(ctx context.Context, conn net.Conn) bool {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://localhost/api/v1/status", nil)
	if err != nil {
		return false
	}
	request.Close = true
	if err := request.Write(conn); err != nil {
		return false
	}
	response, err := http.ReadResponse(bufio.NewReader(io.LimitReader(conn, 64<<10)), request)
	if err != nil {
		return false
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK || response.Header.Get("Content-Type") != "application/json" {
		return false
	}
	// The whole of it may be large: its first fields are enough.
	d := json.NewDecoder(io.LimitReader(response.Body, mostStatus))
	for _, want := range []json.Token{json.Delim('{'), "version", nil, "pid"} {
		token, err := d.Token()
		if err != nil || want != nil && token != want {
			return false
		}
	}
	return true
}

// control looks at admin.control. The rules of its folder are those by which the
// daemon takes it.
func (s *survey) control(ctx context.Context) {
	path := s.config.Admin.Control
	if path == "" {
		return
	}
	bad, without := fail, ""
	if path == config.DefaultControl {
		bad, without = warn, wordsNoControl
	}
	if found, do := judgeFolder(filepath.Dir(path)); found != "" {
		s.add("control", path, bad, found, do+without)
		return
	}
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		s.add("control", path, ok, "free: the daemon can listen here", "")
		return
	case err != nil:
		s.add("control", path, bad, err.Error(), doControl+without)
		return
	case info.Mode().Type() != fs.ModeSocket:
		s.add("control", path, bad, "a file that is no socket is there", doControlFile+without)
		return
	}
	client := &api.Client{Socket: path, Timeout: probeLimit}
	status, err := client.Status(ctx)
	switch {
	case err == nil:
		s.add("control", path, ok, fmt.Sprintf("haproxy-weighter runs already: process %d", status.PID), "")
	case errors.Is(err, syscall.ECONNREFUSED):
		s.add("control", path, ok, "left by a daemon that has ended: the next one replaces it", "")
	case errors.Is(err, fs.ErrPermission):
		s.add("control", path, warn, "a daemon may be listening, and this user may not ask it", doAsDaemon)
	default:
		s.add("control", path, bad, bareUnreachable(err), doControl+without)
	}
}

// bareUnreachable leaves out the path, which stands beside it in the table.
func bareUnreachable(err error) string {
	if u := (*api.UnreachableError)(nil); errors.As(err, &u) {
		err = u.Err
	}
	return err.Error()
}

// judgeFolder says what is wrong with the folder of the control socket; nothing
// when it is as it should be.
func judgeFolder(folder string) (found, do string) {
	info, err := os.Stat(folder)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "there is no folder for it", doControlFolder(folder)
	case err != nil:
		return err.Error(), doControl
	case !info.IsDir():
		return folder + " is not a folder", doControl
	case info.Mode().Perm()&0o002 != 0:
		return "everybody may write to its folder, and so could replace the socket", fmt.Sprintf("run chmod o-w %s, or choose another path for admin.control", shellQuote(folder))
	}
	owner, self := int(info.Sys().(*syscall.Stat_t).Uid), os.Geteuid()
	switch {
	case owner != 0 && owner != self && self != 0:
		return fmt.Sprintf("its folder belongs to another user, uid %d, who could replace the socket", owner), doAsDaemon
	case !writable(folder):
		return "this user may not write to its folder", doAsDaemon
	}
	return "", ""
}

// writable tells whether this process may make files in a folder.
func writable(folder string) bool {
	return unix.Faccessat(unix.AT_FDCWD, folder, unix.W_OK|unix.X_OK, unix.AT_EACCESS) == nil
}

// stateFile looks at state.file, and leaves it as it is.
func (s *survey) stateFile() {
	path := s.config.State.File
	if path == "" {
		return
	}
	folder := filepath.Dir(path)
	info, err := os.Stat(folder)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		s.add("state", path, fail, "there is no folder for it", doStateFolder)
		return
	case err != nil:
		s.add("state", path, fail, err.Error(), doStateFolder)
		return
	case !info.IsDir():
		s.add("state", path, fail, folder+" is not a folder", doStateFolder)
		return
	case !writable(folder):
		s.add("state", path, fail, "this user may not write to its folder", doAsDaemon)
		return
	}
	r, found, do := judgeState(path)
	s.add("state", path, r, found, do)
}

// oneLineOf is the text of an error without the name of a file before it.
func oneLineOf(err error, file string) string {
	if p := (*fs.PathError)(nil); errors.As(err, &p) {
		return p.Err.Error()
	}
	return strings.TrimPrefix(strings.TrimPrefix(err.Error(), file), ": ")
}
