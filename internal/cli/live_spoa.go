package cli

import (
	"context"
	"encoding/binary"
	"io"
	"net"

	"github.com/haproxy-weighter/haproxy-weighter/internal/config"
)

// agent looks at an address of spoa.listen.
func (s *survey) agent(ctx context.Context, l config.Listener) {
	s.listen(ctx, place{
		check: "spoa", at: l, taken: fail, ours: speaksSPOP,
		isFree: wordsListenFree, isOurs: wordsListenAgent, isOther: wordsListenOther,
		doOther: doListen, doFailed: doListenFailed, doFolder: doListenFolder,
	})
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
