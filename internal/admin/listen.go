package admin

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// controlMode lets the socket's owner and group in, and nobody else.
const controlMode = 0o660

// dialLimit bounds the question whether somebody answers on a socket.
const dialLimit = 2 * time.Second

// ErrBusy says that somebody listens at the path of the control socket already.
var ErrBusy = errors.New("another program listens")

// ListenControl opens the control socket. A socket that nobody listens on any
// more is replaced; one that somebody listens on, and a file that is no socket,
// are not. Its folder must exist and must not be open to everybody. Closing the
// listener removes the socket, unless it is another one by then.
func ListenControl(ctx context.Context, path string) (net.Listener, error) {
	folder := filepath.Dir(path)
	if err := checkFolder(folder); err != nil {
		return nil, err
	}
	unlock, err := lockFolder(ctx, folder)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if err := clearWay(ctx, path); err != nil {
		return nil, err
	}
	l, err := bind(ctx, path)
	if err != nil {
		return nil, err
	}
	c := &controlListener{Listener: l, path: path}
	if c.made, err = os.Lstat(path); err == nil {
		err = SetSocketMode(path, controlMode)
	}
	if err != nil {
		l.Close()
		return nil, err
	}
	return c, nil
}

// bind makes the socket. Linux gives the file the mode that the socket has, less
// the umask: nobody else can connect at any time. The umask may have taken the
// group's right to write, which the caller gives back.
func bind(ctx context.Context, path string) (*net.UnixListener, error) {
	config := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		var chmod error
		err := c.Control(func(fd uintptr) { chmod = unix.Fchmod(int(fd), controlMode) })
		return errors.Join(err, chmod)
	}}
	l, err := config.Listen(ctx, "unix", path)
	if err != nil {
		return nil, err
	}
	u := l.(*net.UnixListener)
	u.SetUnlinkOnClose(false)
	return u, nil
}

// SetSocketMode gives the socket at path a mode, and never anything else: where
// others may write to the folder, the path can be a link to another file by
// the time that the mode is set.
func SetSocketMode(path string, mode fs.FileMode) error {
	fault := func(err error) error { return &fs.PathError{Op: "chmod", Path: path, Err: err} }
	fd, err := unix.Open(path, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return fault(err)
	}
	defer unix.Close(fd)
	var is unix.Stat_t
	if err := unix.Fstat(fd, &is); err != nil {
		return fault(err)
	}
	if is.Mode&unix.S_IFMT != unix.S_IFSOCK {
		return fault(errors.New("somebody has put something else in the place of the socket"))
	}
	// A descriptor of O_PATH takes no fchmod; its name in /proc does.
	return os.Chmod(fmt.Sprintf("/proc/self/fd/%d", fd), mode)
}

// checkFolder refuses a folder in which anybody could put a socket of his own.
func checkFolder(folder string) error {
	info, err := os.Stat(folder)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("there is no folder %s: make it (mkdir -m 750 %s; with systemd: RuntimeDirectory=haproxy-weighter), or choose another path", folder, folder)
	case err != nil:
		return err
	case !info.IsDir():
		return fmt.Errorf("%s is not a folder: choose another path", folder)
	case info.Mode().Perm()&0o002 != 0:
		return fmt.Errorf("everybody may write to the folder %s, and so could replace the socket: make it a folder of its own (chmod o-w %s), or choose another path", folder, folder)
	}
	owner, self := info.Sys().(*syscall.Stat_t).Uid, os.Geteuid()
	if owner != 0 && int(owner) != self {
		return fmt.Errorf("the folder %s belongs to uid %d, who could replace the socket: it must belong to root or to the user of haproxy-weighter (chown %d %s)", folder, owner, self, folder)
	}
	return nil
}

// lockFolder keeps two that start at once from taking each other's new socket
// for a stale one. The lock is on the folder, so that no file is left behind.
func lockFolder(ctx context.Context, folder string) (unlock func(), err error) {
	f, err := os.Open(folder)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, dialLimit)
	defer cancel()
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return func() { f.Close() }, nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
			f.Close()
			return nil, fmt.Errorf("the folder %s can't be locked: %w", folder, err)
		}
		select {
		case <-ctx.Done():
			f.Close()
			return nil, fmt.Errorf("another program keeps the folder %s locked", folder)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// clearWay removes a socket that nobody listens on.
func clearWay(ctx context.Context, path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Mode().Type() != fs.ModeSocket:
		return fmt.Errorf("%s is there and is no socket: remove it if nobody needs it, or choose another path", path)
	}
	ctx, cancel := context.WithTimeout(ctx, dialLimit)
	defer cancel()
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "unix", path)
	switch {
	case err == nil:
		conn.Close()
		return fmt.Errorf("%w on %s, probably another haproxy-weighter: end it, or choose another path", ErrBusy, path)
	case errors.Is(err, unix.ECONNREFUSED):
		return os.Remove(path)
	}
	return fmt.Errorf("it can't be told whether another program listens on %s: %w", path, err)
}

// controlListener removes its socket when it is closed.
type controlListener struct {
	net.Listener
	path string
	made os.FileInfo
	once sync.Once
}

// Close implements net.Listener.
func (c *controlListener) Close() error {
	c.once.Do(func() {
		if is, err := os.Lstat(c.path); err == nil && os.SameFile(is, c.made) {
			os.Remove(c.path)
		}
	})
	return c.Listener.Close()
}
