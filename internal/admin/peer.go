package admin

import (
	"context"
	"fmt"
	"net"
	"os/user"
	"strconv"

	"golang.org/x/sys/unix"
)

type peerKey struct{}

// withPeer notes who is at the other end of a unix socket.
func withPeer(ctx context.Context, conn net.Conn) context.Context {
	unixConn, ok := conn.(*net.UnixConn)
	if !ok {
		return ctx
	}
	if uid, err := peerOf(unixConn); err == nil {
		return context.WithValue(ctx, peerKey{}, uid)
	}
	return ctx
}

func peerOf(conn *net.UnixConn) (uid uint32, err error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return 0, err
	}
	var cred *unix.Ucred
	var asked error
	err = raw.Control(func(fd uintptr) {
		cred, asked = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	})
	switch {
	case err != nil:
		return 0, err
	case asked != nil:
		return 0, asked
	}
	return cred.Uid, nil
}

// author names the user at the other end of the request's connection.
func author(ctx context.Context) (string, error) {
	uid, ok := ctx.Value(peerKey{}).(uint32)
	if !ok {
		return "", fmt.Errorf("the user at the other end of the control socket is not known")
	}
	id := strconv.FormatUint(uint64(uid), 10)
	if u, err := user.LookupId(id); err == nil && u.Username != "" {
		return u.Username, nil
	}
	return "uid " + id, nil
}
