package main

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"sync"
	"time"
)

// load is what a generator has measured.
type load struct {
	Messages int64
	Seconds  float64
	P50      float64 // microseconds from the write of a frame to its ACK
	P99      float64
	P999     float64
}

// generateMain is the generator's process: NETWORK ADDRESS LARGE CONNS WINDOW TIME.
// It prints a load as JSON; an ACK that is not right ends it.
func generateMain(args []string) error {
	conns, window := must(strconv.Atoi(args[3])), must(strconv.Atoi(args[4]))
	length := must(time.ParseDuration(args[5]))
	payload, body := notification(args[2] == "true"), ackBody()
	var all sync.WaitGroup
	players := make([]*player, conns)
	errs := make([]error, conns)
	begin := time.Now()
	for i := range conns {
		nc, err := net.Dial(args[0], args[1])
		if err != nil {
			return err
		}
		defer nc.Close()
		players[i] = newPlayer(nc, window, payload, body)
	}
	for i, p := range players {
		all.Go(func() { errs[i] = p.play(begin.Add(length)) })
	}
	all.Wait()
	var h histogram
	var l load
	for i, p := range players {
		if errs[i] != nil {
			return fmt.Errorf("connection %d: %w", i, errs[i])
		}
		l.Messages += p.messages
		h.add(&p.latencies)
	}
	l.Seconds = time.Since(begin).Seconds()
	l.P50, l.P99, l.P999 = h.quantile(0.5), h.quantile(0.99), h.quantile(0.999)
	return json.NewEncoder(os.Stdout).Encode(l)
}

// player keeps window frames in flight on one connection.
type player struct {
	nc        net.Conn
	frames    [][]byte // by stream-id - 1
	sent      []time.Time
	pending   []bool
	body      []byte
	messages  int64
	latencies histogram
	in, out   []byte
	end       int
}

func newPlayer(nc net.Conn, window int, payload, body []byte) *player {
	p := &player{nc: nc, body: body, sent: make([]time.Time, window), pending: make([]bool, window), in: make([]byte, 64<<10)}
	for id := range window {
		p.frames = append(p.frames, frameOf(typeNotify, byte(id+1), byte(id+101), payload))
	}
	return p
}

// patience is how long an agent may take for an ACK at most.
const patience = 20 * time.Second

func (p *player) play(until time.Time) error {
	if err := p.nc.SetDeadline(until.Add(patience)); err != nil {
		return err
	}
	if _, err := p.nc.Write(haproxyHello()); err != nil {
		return err
	}
	head := make([]byte, 4)
	if _, err := io.ReadFull(p.nc, head); err != nil {
		return err
	}
	if _, err := io.ReadFull(p.nc, make([]byte, binary.BigEndian.Uint32(head))); err != nil {
		return err
	}
	for id := range p.frames {
		p.queue(id, time.Now())
	}
	for inFlight := len(p.frames); inFlight > 0; {
		if _, err := p.nc.Write(p.out); err != nil {
			return err
		}
		p.out = p.out[:0]
		n, err := p.nc.Read(p.in[p.end:])
		if err != nil {
			return err
		}
		p.end += n
		now := time.Now()
		done, err := p.takeAcks(now)
		if err != nil {
			return err
		}
		for _, id := range done {
			if now.Before(until) {
				p.queue(id, now)
			} else {
				inFlight--
			}
		}
	}
	return nil
}

func (p *player) queue(id int, now time.Time) {
	p.out = append(p.out, p.frames[id]...)
	p.sent[id], p.pending[id] = now, true
}

// takeAcks checks each whole frame in the buffer, byte for byte. ACKs
// may come in any order.
func (p *player) takeAcks(now time.Time) (done []int, _ error) {
	start := 0
	for size := len(p.body) + 11; p.end-start >= size; start += size {
		f := p.in[start : start+size]
		id := int(f[9]) - 1
		if id < 0 || id >= len(p.pending) || !p.pending[id] {
			return nil, fmt.Errorf("an ACK that nobody waits for: % x", f)
		}
		if binary.BigEndian.Uint32(f) != uint32(size-4) || !bytes.Equal(f[4:9], []byte{typeAck, 0, 0, 0, 1}) ||
			f[10] != byte(id+101) || !bytes.Equal(f[11:], p.body) {
			return nil, fmt.Errorf("a wrong ACK: % x", f)
		}
		p.pending[id] = false
		p.messages++
		p.latencies.note(now.Sub(p.sent[id]))
		done = append(done, id)
	}
	p.end = copy(p.in, p.in[start:p.end])
	return done, nil
}

// histogram counts times by microseconds, up to a tenth of a second.
type histogram [100_000]uint32

func (h *histogram) note(d time.Duration) { h[min(int(d.Microseconds()), len(h)-1)]++ }

func (h *histogram) add(other *histogram) {
	for i, n := range other {
		h[i] += n
	}
}

func (h *histogram) quantile(q float64) float64 {
	total := 0
	for _, n := range h {
		total += int(n)
	}
	rest := q * float64(total)
	for i, n := range h {
		if rest -= float64(n); rest <= 0 {
			return float64(i)
		}
	}
	return float64(len(h))
}
