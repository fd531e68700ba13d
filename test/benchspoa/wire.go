package main

import (
	"encoding/binary"
	"strings"

	"github.com/negasus/haproxy-spoe-go/action"
	"github.com/negasus/haproxy-spoe-go/frame"
	"github.com/negasus/haproxy-spoe-go/message"
	"github.com/negasus/haproxy-spoe-go/payload/kv"
)

const (
	typeHello  = byte(frame.TypeHaproxyHello)
	typeNotify = byte(frame.TypeNotify)
	typeAck    = byte(frame.TypeAgentAck)
)

// must is for encoding constants, which cannot fail.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// frameOf has ids below 240, which are one byte each.
func frameOf(kind, streamID, frameID byte, payload []byte) []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(7+len(payload)))
	b = append(b, kind, 0, 0, 0, 1, streamID, frameID)
	return append(b, payload...)
}

func itemsOf(pairs ...any) []byte {
	list := kv.NewKV()
	for i := 0; i < len(pairs); i += 2 {
		list.Add(pairs[i].(string), pairs[i+1])
	}
	return must(list.Bytes())
}

func haproxyHello() []byte {
	return frameOf(typeHello, 0, 0, itemsOf("supported-versions", "2.0", "max-frame-size", uint32(16380),
		"capabilities", "pipelining,async", "engine-id", "9f7a1b1c-0000-4000-8000-000000000000"))
}

func agentHello() []byte {
	return frameOf(byte(frame.TypeAgentHello), 0, 0, itemsOf("version", "2.0", "max-frame-size", uint32(16380), "capabilities", "pipelining"))
}

// notification is the payload of the NOTIFYs: 2 arguments, or 10 and 1.1 kB.
func notification(large bool) []byte {
	pairs := []any{"backend", asked, "server", "server-500"}
	if large {
		for i, name := range []string{"path", "host", "agent", "referer", "cookie"} {
			pairs = append(pairs, name, strings.Repeat(string(rune('a'+i)), 200))
		}
		pairs = append(pairs, "port", int32(443), "secure", true, "id", int64(1<<40))
	}
	name := "weighter-server"
	b := append([]byte{byte(len(name))}, name...)
	return append(append(b, byte(len(pairs)/2)), itemsOf(pairs...)...)
}

// ackBody is what the handler's answer has to look like, by the library's encoder.
func ackBody() []byte {
	var messages message.Messages
	if err := messages.Decode(notification(false)); err != nil {
		panic(err)
	}
	var actions action.Actions
	if err := answer(newTable(), messages, &actions); err != nil {
		panic(err)
	}
	var b []byte
	for i := range actions {
		b = must(actions[i].Marshal(b))
	}
	return b
}
