package simulate

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestQueueGivesEventsInOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var q queue
		var model []event
		pops := rapid.SliceOf(rapid.Bool()).Draw(t, "pop after push")
		for i, pop := range pops {
			e := event{
				at:   float64(rapid.IntRange(0, 5).Draw(t, "at")),
				kind: eventKind(rapid.IntRange(0, 3).Draw(t, "kind")), id: int32(i),
			}
			q.push(e)
			model = append(model, e)
			if !pop {
				continue
			}
			slices.SortFunc(model, order)
			if first, got := q.first(), q.pop(); got != model[0] || first != got {
				t.Fatalf("pop: %v after first %v, want %v", got, first, model[0])
			}
			model = model[1:]
		}
		slices.SortFunc(model, order)
		for _, want := range model {
			if got := q.pop(); got != want {
				t.Fatalf("pop: %v, want %v", got, want)
			}
		}
		if len(q.heap) != 0 {
			t.Fatalf("%d events are left", len(q.heap))
		}
	})
}

func order(a, b event) int {
	if a.before(b) {
		return -1
	}
	return 1
}
