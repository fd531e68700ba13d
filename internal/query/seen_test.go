package query

import (
	"strconv"
	"testing"
	"time"

	"github.com/haproxy-weighter/haproxy-weighter/internal/balancer"
)

// TestNoServerIsNamedUnseen: once HAProxy has not been read for a while nobody
// knows which servers are in drain, and none is named, until it is read again.
// A look that changes nothing is enough, without a new table.
func TestNoServerIsNamedUnseen(t *testing.T) {
	seen := balancer.NewSighting(time.Second)
	seen.Note(begin)
	tbl := table(row("s1", 10, 1), row("s2", 20, 1), row("s3", 60, 2))
	tbl.Sighting = seen
	d := newDesk(t, map[string][]*balancer.Table{"in": {tbl}})
	const all, loads = `server="s1" server="s2" server="s3"`, "load_mean=30 load_max=60 load_total=90"
	for _, c := range []struct {
		name          string
		at            time.Duration // since the first sighting
		look          bool          // at that time
		picked, named string
	}{
		{"seen", 0, false, all, ` best="s1" worst="s3"`},
		{"10 s later", 10 * time.Second, false, all, ` best="s1" worst="s3"`},
		{"11 s later", 11 * time.Second, false, "", ""},
		{"much later", 40 * time.Second, false, "", ""},
		{"looked at again", 41 * time.Second, true, all, ` best="s1" worst="s3"`},
	} {
		d.now = begin.Add(c.at)
		if c.look {
			seen.Note(d.now)
		}
		if got := d.picked(); got != c.picked {
			t.Errorf("%s: picked %q, want %q", c.name, got, c.picked)
		}
		want := "fresh=true servers=3 age_ms=" + strconv.FormatInt((10*time.Second+c.at).Milliseconds(), 10) + " " + loads + c.named + " imbalance=2000"
		if got := d.ask(asked("weighter-backend", "backend", "in")); got != want {
			t.Errorf("%s:\n got %s\nwant %s", c.name, got, want)
		}
		view := tables{d.Handler, d.now}.Get("in").(backendView)
		for field, server := range map[string]string{"best": "s1", "worst": "s3"} {
			want := any(server)
			if c.named == "" {
				want = nil
			}
			if got := view.Get(field); got != want {
				t.Errorf("%s: a script's %s is %v, want %v", c.name, field, got, want)
			}
		}
	}
	// What names no server goes on.
	d.now = begin.Add(52 * time.Second)
	if got, want := d.ask(asked("weighter-choose", "backends", "in")), `backend="in"`; got != want {
		t.Errorf("a choice: %s, want %s", got, want)
	}
}
