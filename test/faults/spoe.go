package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/haproxy-weighter/haproxy-weighter/test/faults/trace"
)

// The frames of SPOP (doc/SPOE.txt of HAProxy), as much of them as is spoken here.
const (
	frameHello  = 1
	frameNotify = 3
	frameAck    = 103
)

// appendUvarint appends a number as SPOP has it.
func appendUvarint(b []byte, v uint64) []byte {
	if v < 240 {
		return append(b, byte(v))
	}
	b = append(b, byte(v)|240)
	for v = (v - 240) >> 4; v >= 128; v = (v - 128) >> 7 {
		b = append(b, byte(v)|128)
	}
	return append(b, byte(v))
}

func takeUvarint(b []byte) (v uint64, rest []byte, err error) {
	if len(b) == 0 {
		return 0, nil, io.ErrUnexpectedEOF
	}
	v, b = uint64(b[0]), b[1:]
	if v < 240 {
		return v, b, nil
	}
	for shift := 4; len(b) > 0 && shift < 60; shift += 7 {
		c := b[0]
		v, b = v+uint64(c)<<shift, b[1:]
		if c < 128 {
			return v, b, nil
		}
	}
	return 0, nil, io.ErrUnexpectedEOF
}

func appendText(b []byte, s string) []byte { return append(appendUvarint(b, uint64(len(s))), s...) }

// appendArg appends a named string.
func appendArg(b []byte, name, value string) []byte {
	return appendText(append(appendText(b, name), 8), value)
}

// frame makes one with the length before it.
func frame(kind byte, stream uint64, payload []byte) []byte {
	b := append(make([]byte, 4), kind, 0, 0, 0, 1)
	b = append(appendUvarint(appendUvarint(b, stream), min(stream, 1)), payload...)
	binary.BigEndian.PutUint32(b, uint32(len(b)-4))
	return b
}

func helloFrame() []byte {
	b := appendArg(nil, "supported-versions", "2.0")
	b = appendUvarint(append(appendText(b, "max-frame-size"), 3), 16380)
	return frame(frameHello, 0, appendArg(b, "capabilities", "pipelining"))
}

// question asks one of the daemon's messages.
func question(stream uint64, message string, args ...string) []byte {
	b := append(appendText(nil, message), byte(len(args)/2))
	for i := 0; i < len(args); i += 2 {
		b = appendArg(b, args[i], args[i+1])
	}
	return frame(frameNotify, stream, b)
}

// takeValue reads a typed value of the kinds that the daemon sends, as text.
func takeValue(b []byte) (string, []byte, error) {
	if len(b) == 0 {
		return "", nil, io.ErrUnexpectedEOF
	}
	kind := b[0]
	b = b[1:]
	switch kind & 15 {
	case 1:
		return strconv.FormatBool(kind&0x10 != 0), b, nil
	case 2, 3, 4, 5:
		v, rest, err := takeUvarint(b)
		return strconv.FormatInt(int64(v), 10), rest, err
	case 8:
		n, rest, err := takeUvarint(b)
		if err != nil || n > uint64(len(rest)) {
			return "", nil, io.ErrUnexpectedEOF
		}
		return string(rest[:n]), rest[n:], nil
	}
	return "", nil, fmt.Errorf("a value of type %d", kind)
}

// readAck reads one frame, which must be the ACK of a stream, and its variables.
func readAck(r io.Reader, stream uint64) (map[string]string, error) {
	kind, payload, err := readFrame(r)
	if err != nil {
		return nil, err
	}
	got, payload, err := takeUvarint(payload)
	if err == nil {
		_, payload, err = takeUvarint(payload)
	}
	if err != nil || kind != frameAck || got != stream {
		return nil, fmt.Errorf("frame %d of stream %d instead of the ACK of %d (%v)", kind, got, stream, err)
	}
	vars := make(map[string]string)
	for len(payload) > 0 {
		if len(payload) < 3 || payload[0] != 1 || payload[1] != 3 {
			return nil, fmt.Errorf("an ACK with the action % x", payload[:min(3, len(payload))])
		}
		n, rest, err := takeUvarint(payload[3:])
		if err != nil || n > uint64(len(rest)) {
			return nil, io.ErrUnexpectedEOF
		}
		name := string(rest[:n])
		if vars[name], payload, err = takeValue(rest[n:]); err != nil {
			return nil, err
		}
	}
	return vars, nil
}

// readFrame returns the kind of a frame and what comes behind its flags.
func readFrame(r io.Reader) (kind byte, rest []byte, err error) {
	head := make([]byte, 4)
	if _, err := io.ReadFull(r, head); err != nil {
		return 0, nil, err
	}
	n := binary.BigEndian.Uint32(head)
	if n < 7 || n > 1<<20 {
		return 0, nil, fmt.Errorf("a frame of %d bytes", n)
	}
	body := make([]byte, n)
	if _, err := io.ReadFull(r, body); err != nil {
		return 0, nil, err
	}
	return body[0], body[5:], nil
}

// dialAgent opens a connection to an agent and says hello.
func dialAgent(ctx context.Context, address string) (net.Conn, error) {
	d := net.Dialer{Timeout: answerLimit}
	conn, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	err = conn.SetDeadline(time.Now().Add(answerLimit))
	if err == nil {
		_, err = conn.Write(helloFrame())
	}
	if err == nil {
		_, _, err = readFrame(conn)
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	return conn, nil
}

// answerLimit is how long one answer is waited for.
const answerLimit = time.Second

// prober asks the daemon's agent all the time, as HAProxy would, and notes
// when there is no answer.
type prober struct {
	address string
	every   time.Duration
	trace   *trace.Trace
	out     map[string]bool // servers that must never be picked

	mu      sync.Mutex
	answers int
	worst   time.Duration
	wrong   []string // answers that should never be given; at most a few
}

// run asks until ctx ends.
func (p *prober) run(ctx context.Context) {
	var good time.Time // of the last answer; zero: none yet
	var cause error
	note := func() {
		now := time.Now()
		if !good.IsZero() {
			p.trace.Silent(trace.Outage{From: good, To: now, Cause: fmt.Sprint(cause)})
		}
		good = now
	}
	for ctx.Err() == nil {
		cause = p.session(ctx, note)
		pause(ctx, p.every)
	}
	if !good.IsZero() {
		p.trace.Silent(trace.Outage{From: good, To: time.Now(), Cause: fmt.Sprint(cause)})
	}
}

// pause waits, and no longer than ctx lives.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// session asks on one connection until it breaks; good is called for each answer.
func (p *prober) session(ctx context.Context, good func()) error {
	conn, err := dialAgent(ctx, p.address)
	if err != nil {
		return err
	}
	defer conn.Close()
	for stream := uint64(1); ; stream++ {
		begin := time.Now()
		if err := conn.SetDeadline(begin.Add(answerLimit)); err != nil {
			return err
		}
		message, args := "weighter-server", []string{"backend", backend, "server", "s1"}
		if stream%2 == 0 {
			message, args = "weighter-pick", args[:2]
		}
		if _, err := conn.Write(question(stream, message, args...)); err != nil {
			return err
		}
		vars, err := readAck(conn, stream)
		if err != nil {
			return err
		}
		good()
		p.note(time.Since(begin), vars)
		pause(ctx, p.every)
		if ctx.Err() != nil {
			return errors.New("the prober has been ended")
		}
	}
}

func (p *prober) note(took time.Duration, vars map[string]string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.answers++
	p.worst = max(p.worst, took)
	wrong := p.out[vars["server"]]
	if text, ok := vars["weight"]; ok {
		w, err := strconv.Atoi(text)
		wrong = wrong || err != nil || w < 0 || w > 256
	}
	if wrong && len(p.wrong) < 5 {
		p.wrong = append(p.wrong, fmt.Sprint(vars))
	}
}

// result tells what was seen so far.
func (p *prober) result() (answers int, worst time.Duration, wrong []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.answers, p.worst, p.wrong
}
