package cli

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/haproxy-weighter/haproxy-weighter/internal/config"
)

// probeLimit bounds the look at one listener.
const probeLimit = 2 * time.Second

// listener looks at an address of spoa.listen: free, ours already, or taken.
func (s *survey) listener(ctx context.Context, l config.Listener) {
	ctx, cancel := context.WithTimeout(ctx, probeLimit)
	defer cancel()
	subject := l.String()
	var d net.Dialer
	conn, err := d.DialContext(ctx, l.Network, l.Address)
	switch {
	case err == nil:
		defer conn.Close()
		if speaksSPOP(ctx, conn) {
			s.add("spoa", subject, ok, wordsListenAgent, "")
		} else {
			s.add("spoa", subject, fail, wordsListenOther, doListen)
		}
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, os.ErrNotExist):
		s.vacant(ctx, l)
	default:
		s.add("spoa", subject, fail, err.Error(), doListenFailed)
	}
}

// vacant tells whether one could listen where nobody does.
func (s *survey) vacant(ctx context.Context, l config.Listener) {
	subject := l.String()
	if l.Network == "unix" { // to listen would leave a file
		if info, err := os.Stat(filepath.Dir(l.Address)); err != nil || !info.IsDir() {
			s.add("spoa", subject, fail, "there is no folder for it", doListenFolder)
			return
		}
		s.add("spoa", subject, ok, wordsListenFree, "")
		return
	}
	var lc net.ListenConfig
	opened, err := lc.Listen(ctx, l.Network, l.Address)
	if err != nil {
		s.add("spoa", subject, fail, err.Error(), doListenFailed)
		return
	}
	opened.Close()
	s.add("spoa", subject, ok, wordsListenFree, "")
}

// Types of SPOP frames that an agent sends.
const (
	agentHello      = 101
	agentDisconnect = 102
)

// healthCheck is the HELLO of "option spop-check" in SPOP 2.0: FIN, stream 0,
// frame 0, and the items of its payload.
const healthCheck = "\x01\x00\x00\x00\x01\x00\x00" +
	"\x12supported-versions\x08\x032.0" +
	"\x0emax-frame-size\x03\xf0\x01" + // 256
	"\x0ccapabilities\x08\x00" +
	"\x0bhealthcheck\x11"

// speaksSPOP asks as HAProxy's health check does. An agent that refuses is one
// all the same.
func speaksSPOP(ctx context.Context, conn net.Conn) bool {
	if end, ok := ctx.Deadline(); ok {
		_ = conn.SetDeadline(end)
	}
	frame := binary.BigEndian.AppendUint32(nil, uint32(len(healthCheck)))
	if _, err := conn.Write(append(frame, healthCheck...)); err != nil {
		return false
	}
	var answer [5]byte
	if _, err := io.ReadFull(conn, answer[:]); err != nil {
		return false
	}
	size := binary.BigEndian.Uint32(answer[:])
	return size < 1<<16 && (answer[4] == agentHello || answer[4] == agentDisconnect)
}
