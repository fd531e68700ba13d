package config

import "github.com/haproxy-weighter/haproxy-weighter/internal/haproxy"

// Maps is the key "maps" of a backend: map files of haproxy.cfg that are kept
// up to date in HAProxy's memory, by the paths that haproxy.cfg has. An empty
// one is not kept.
type Maps struct {
	Load   string // backend/server -> load
	Weight string // backend/server -> weight in force
}

func (t *table) maps(key string) Maps {
	const allowed = `{ load = "/path", weight = "/path" }, or one of the two`
	if !t.given(key) {
		t.take(key)
		return Maps{}
	}
	s := t.sub(key)
	m := Maps{Load: s.mapPath("load"), Weight: s.mapPath("weight")}
	switch {
	case !s.broken && len(s.values) == 0:
		t.wrong(key, "is a table without a path; allowed: %s", allowed)
	case m.Load != "" && m.Load == m.Weight:
		t.wrong(key, "has the same path for load and weight, %q; allowed: a file for each, since both have the same keys", s.values["load"])
	}
	return m
}

// mapPath reads the path of a map, which goes into commands to HAProxy.
func (t *table) mapPath(key string) string {
	const allowed = `the absolute path that haproxy.cfg has, of letters, digits and _ . / : @ % + , = ~ -`
	v, ok := t.text(key, allowed)
	if !ok {
		return ""
	}
	if haproxy.CheckMapPath(v.value) != nil {
		t.wrong(key, "%q can't be used; allowed: %s", v.written, allowed)
		return ""
	}
	return v.value
}
