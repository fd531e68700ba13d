package query

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/haproxy-weighter/haproxy-weighter/internal/balancer"
)

// picked has every server that can be drawn.
func (d *desk) picked() string {
	d.t.Helper()
	all := map[string]bool{}
	for d.drawn = range 64 {
		all[d.ask(asked("weighter-pick", "backend", "in"))] = true
	}
	return strings.Join(slices.Sorted(maps.Keys(all)), " ")
}

// TestNamedServersAreInRotationEverywhere: any of several HAProxys may be the
// one that asks, and it would use a server in drain that use-server names.
func TestNamedServersAreInRotationEverywhere(t *testing.T) {
	drain := func(r *balancer.Row) { r.AdminState = "drain" }
	zero := func(r *balancer.Row) { r.AppliedWeight = 0 }
	backup := func(r *balancer.Row) { r.Backup = true }
	unread := func(t *balancer.Table) *balancer.Table { t.HoldCode = balancer.HoldUnread; return t }
	first := func() *balancer.Table { return table(row("s1", 10, 1), row("s2", 20, 1), row("s3", 60, 2)) }
	const loads = "fresh=true servers=3 age_ms=10000 load_mean=30 load_max=60 load_total=90"
	for name, c := range map[string]struct {
		tables []*balancer.Table
		picked string
		named  string // best and worst
	}{
		"alone":                                 {[]*balancer.Table{first()}, `server="s1" server="s2" server="s3"`, ` best="s1" worst="s3"`},
		"no objection":                          {[]*balancer.Table{first(), first()}, `server="s1" server="s2" server="s3"`, ` best="s1" worst="s3"`},
		"in drain":                              {[]*balancer.Table{first(), table(with(row("s1", 1, 1), drain), row("s2", 1, 1))}, `server="s2" server="s3"`, ` best="s2" worst="s3"`},
		"at weight 0":                           {[]*balancer.Table{first(), table(with(row("s3", 1, 1), zero))}, `server="s1" server="s2"`, ` best="s1" worst="s2"`},
		"a backup":                              {[]*balancer.Table{first(), table(with(row("s1", 1, 1), backup))}, `server="s2" server="s3"`, ` best="s2" worst="s3"`},
		"of the third HAProxy":                  {[]*balancer.Table{first(), first(), table(with(row("s2", 1, 1), drain))}, `server="s1" server="s3"`, ` best="s1" worst="s3"`},
		"not there":                             {[]*balancer.Table{first(), table(row("s9", 1, 1))}, `server="s1" server="s2" server="s3"`, ` best="s1" worst="s3"`},
		"a HAProxy that is silent does not ask": {[]*balancer.Table{first(), unread(table(with(row("s1", 1, 1), drain)))}, `server="s1" server="s2" server="s3"`, ` best="s1" worst="s3"`},
		"all are silent: any of them may ask yet": {[]*balancer.Table{unread(first()), unread(table(with(row("s1", 1, 1), drain)))}, `server="s2" server="s3"`, ` best="s2" worst="s3"`},
		"none is left": {[]*balancer.Table{first(), table(with(row("s1", 1, 1), drain), with(row("s2", 1, 1), zero), with(row("s3", 1, 1), drain))}, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t, map[string][]*balancer.Table{"in": c.tables})
			if diff := cmp.Diff(c.picked, d.picked()); diff != "" {
				t.Errorf("picks (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(loads+c.named+" imbalance=2000", d.ask(asked("weighter-backend", "backend", "in"))); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// TestNamesFollowEveryTable: a change that only another HAProxy has counts at
// once, and one that changes no name costs nothing.
func TestNamesFollowEveryTable(t *testing.T) {
	one, two := table(row("s1", 10, 1), row("s2", 20, 1)), table(row("s1", 10, 1), row("s2", 20, 1))
	d := newDesk(t, map[string][]*balancer.Table{"in": {one, two}})
	before := d.backends["in"].index.Load()
	d.publish("in", one, table(row("s1", 10, 3), row("s2", 20, 5)))
	if d.backends["in"].index.Load() != before {
		t.Error("the index is made anew for nothing")
	}
	d.publish("in", one, table(with(row("s1", 10, 1), func(r *balancer.Row) { r.AdminState = "drain" }), row("s2", 20, 1)))
	if got := d.picked(); got != `server="s2"` {
		t.Errorf("picked %s", got)
	}
	d.publish("in", one, two)
	if got := d.picked(); got != `server="s1" server="s2"` {
		t.Errorf("picked %s", got)
	}
}
