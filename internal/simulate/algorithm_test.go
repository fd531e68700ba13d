package simulate

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// spread places n connections that stay.
func spread(a algorithm, servers, n int) []int {
	got := make([]int, servers)
	for range n {
		i := a.pick()
		a.took(i)
		got[i]++
	}
	return got
}

// The numbers are those that HAProxy 2.6 gave for the same scene by hand:
// weights 10/20/40/80, 300 connections held, then weights turned round.
func TestSpreadOfHeldConnections(t *testing.T) {
	weights := []int{10, 20, 40, 80}
	for _, test := range []struct {
		name   string
		make   algorithm
		held   []int
		after  []int // of the next 150, with s0 at 80 and s3 at 10
		within int
	}{
		{"roundrobin", newRoundRobin(weights, false), []int{20, 40, 80, 160}, []int{80, 20, 40, 10}, 1},
		{"leastconn", newLeastConn(weights), []int{20, 40, 80, 160}, []int{146, 1, 3, 0}, 1},
		{"random(1)", newRandom(1, weights, seeded(1, useDraws)), []int{20, 40, 80, 160}, []int{80, 20, 40, 10}, 22},
		{"random(2)", newRandom(2, weights, seeded(1, useDraws)), []int{20, 40, 80, 160}, []int{113, 13, 24, 0}, 12},
		{"random(5)", newRandom(5, weights, seeded(1, useDraws)), []int{20, 40, 80, 160}, []int{145, 2, 3, 0}, 9},
	} {
		t.Run(test.name, func(t *testing.T) {
			near := func(phase string, got, want []int) {
				t.Helper()
				for i := range got {
					if math.Abs(float64(got[i]-want[i])) > float64(test.within) {
						t.Errorf("%s: %v, want %v within %d", phase, got, want, test.within)
						return
					}
				}
			}
			near("held", spread(test.make, 4, 300), test.held)
			test.make.setWeight(0, 80)
			test.make.setWeight(3, 10)
			near("after the change", spread(test.make, 4, 150), test.after)
		})
	}
}

func TestLeastConnTies(t *testing.T) {
	l := newLeastConn([]int{100, 100, 100})
	if diff := cmp.Diff([]int{1, 1, 1}, spread(l, 3, 3)); diff != "" {
		t.Fatalf("three connections over three equal servers (-want +got):\n%s", diff)
	}
	l.left(2)
	l.left(0)
	// Idle servers have the same key whatever their weight; the one that
	// became idle first is first.
	if got := l.pick(); got != 2 {
		t.Errorf("after 2 and then 0 became idle: %d, want 2", got)
	}
	l.setWeight(2, 200)
	if got := l.pick(); got != 0 {
		t.Errorf("a change of weight queues server 2 anew behind 0: got %d", got)
	}
}

func TestNoServerUp(t *testing.T) {
	for name, a := range map[string]algorithm{
		"roundrobin": newRoundRobin([]int{1, 1}, false), "leastconn": newLeastConn([]int{1, 1}),
		"random": newRandom(2, []int{1, 1}, seeded(1, useDraws)),
	} {
		a.setUp(0, false)
		if got := spread(a, 2, 10); got[1] != 10 {
			t.Errorf("%s: with server 0 down: %v", name, got)
		}
		a.setUp(1, false)
		if got := a.pick(); got != -1 {
			t.Errorf("%s: with no server up: %d, want -1", name, got)
		}
		a.setUp(0, true)
		if got := a.pick(); got != 0 {
			t.Errorf("%s: with server 0 up again: %d", name, got)
		}
	}
}

func TestLeastLoadTakesTheLeastForItsCapacity(t *testing.T) {
	loads := []float64{3, 1, 2}
	l := leastLoad{relative: func(i int) (float64, bool) { return loads[i], i != 1 }}
	if got := l.pick(3); got != 2 {
		t.Errorf("got server %d, want 2: 1 is down", got)
	}
}
