package state

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// Claim makes the file at path that of this process until it ends or release is
// called. It is an error when another process has it: of two that write one
// file, each would lose the orders that the other was given. What a killed
// process has left of a Save is removed. Where no file can be made at all there
// is nothing to claim; then Save tells why.
func Claim(path string) (release func(), err error) {
	folder, prefix := filepath.Dir(path), "."+filepath.Base(path)+"."
	lock := filepath.Join(folder, prefix+"lock")
	f, err := os.OpenFile(lock, os.O_RDONLY|os.O_CREATE|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0o600)
	if err != nil {
		return func() {}, nil
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); errors.Is(err, unix.EWOULDBLOCK) {
		f.Close()
		return nil, fmt.Errorf("%s is in use by another haproxy-weighter, which holds %s locked: end it, or give each its own state.file", path, lock)
	}
	removeLeft(folder, prefix)
	return func() { f.Close() }, nil
}

// removeLeft removes the files that Save had not yet renamed: those with nothing
// but digits behind the prefix.
func removeLeft(folder, prefix string) {
	files, err := os.ReadDir(folder)
	if err != nil {
		return
	}
	for _, f := range files {
		number, ok := strings.CutPrefix(f.Name(), prefix)
		if ok && number != "" && strings.Trim(number, "0123456789") == "" {
			os.Remove(filepath.Join(folder, f.Name()))
		}
	}
}
