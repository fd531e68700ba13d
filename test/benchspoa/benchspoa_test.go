package main

import (
	"bytes"
	"slices"
	"testing"
	"time"

	"github.com/negasus/haproxy-spoe-go/varint"
)

func TestSummarise(t *testing.T) {
	for _, c := range []struct {
		values []float64
		want   ratio
	}{
		{[]float64{3}, ratio{3, 3, 3}},
		{[]float64{5, 1, 3}, ratio{2, 3, 4}},
		{[]float64{4, 3, 2, 1, 0}, ratio{1, 2, 3}},
	} {
		if got := summarise(c.values); got != c.want {
			t.Errorf("%v: got %v, want %v", c.values, got, c.want)
		}
	}
}

func TestQuantile(t *testing.T) {
	var h histogram
	for us := range 1000 {
		h.note(time.Duration(us+1) * time.Microsecond)
	}
	h.note(time.Hour)
	if a, b := h.quantile(0.5), h.quantile(0.99); a != 501 || b != 991 {
		t.Errorf("got %v and %v", a, b)
	}
	if got := h.quantile(1); got != float64(len(h)-1) {
		t.Errorf("the longest is %v", got)
	}
}

// TestAcks: the right ones pass in any order, and every other byte is found.
func TestAcks(t *testing.T) {
	body := ackBody()
	ack := func(id byte) []byte { return frameOf(typeAck, id, id+100, body) }
	take := func(input []byte) ([]int, error) {
		p := newPlayer(nil, 3, notification(false), body)
		for id := range 3 {
			p.queue(id, time.Now())
		}
		p.end = copy(p.in, input)
		return p.takeAcks(time.Now())
	}
	done, err := take(slices.Concat(ack(3), ack(1), ack(2)[:5]))
	if err != nil || !slices.Equal(done, []int{2, 0}) {
		t.Errorf("got %v, %v", done, err)
	}
	if _, err := take(slices.Concat(ack(1), ack(1))); err == nil {
		t.Error("the same ACK twice passed")
	}
	for i := range ack(1) {
		broken := ack(1)
		broken[i] ^= 0x40
		if _, err := take(broken); err == nil {
			t.Errorf("an ACK with a wrong byte %d passed", i)
		}
	}
}

// TestEchoFrame: the yardstick answers what the generator takes, whatever the ids.
func TestEchoFrame(t *testing.T) {
	body := ackBody()
	if got, want := echoFrame(nil, frameOf(typeNotify, 7, 107, notification(true)), body), frameOf(typeAck, 7, 107, body); !bytes.Equal(got, want) {
		t.Errorf("got % x, want % x", got, want)
	}
	for _, id := range []uint64{0, 239, 240, 2287, 2288, 1 << 20, 1 << 40} {
		ids := make([]byte, 24)
		n := varint.PutUvarint(ids, id)
		n += varint.PutUvarint(ids[n:], id+1)
		if got := idsOf(append(slices.Clone(ids[:n]), 5, 5, 5)); !bytes.Equal(got, ids[:n]) {
			t.Errorf("ids of %d: % x, want % x", id, got, ids[:n])
		}
	}
}
