package main

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/haproxy-weighter/haproxy-weighter/test/haproxyproc"
)

// TestWalk walks for a minute, each day by another seed: the log has it.
func TestWalk(t *testing.T) {
	t.Parallel()
	path, err := haproxyproc.FindBinary("")
	if err != nil {
		t.Fatal(err)
	}
	seed := uint64(time.Now().Unix() / (24 * 60 * 60))
	w, err := walk(t.Context(), haproxyproc.Binary{Path: path}, built, short(raced), time.Minute, seed, func(text string) { t.Log(text) })
	if err != nil {
		t.Error(err)
	}
	t.Logf("seed %d, %d rounds, %+v, %+v", w.seed, w.rounds, w.size, w.most)
	if w.rounds < 2 {
		t.Errorf("%d rounds", w.rounds)
	}
}

// A seed decides the rounds, all of them.
func TestWalkIsReplayed(t *testing.T) {
	draw := func(seed uint64) []string {
		random, kinds := rand.New(rand.NewPCG(seed, 0)), missteps()
		var all []string
		for range 200 {
			r := nextRound(random, kinds)
			all = append(all, r.String()+" for "+r.lasts.String())
			if len(r.loads) != len(firstLoads) {
				t.Fatalf("%d loads", len(r.loads))
			}
		}
		return all
	}
	if diff := cmp.Diff(draw(7), draw(7)); diff != "" {
		t.Errorf("the same seed twice:\n%s", diff)
	}
	if cmp.Equal(draw(7), draw(8)) {
		t.Error("two seeds, one walk")
	}
}
