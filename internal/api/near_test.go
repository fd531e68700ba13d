package api

import "testing"

func TestNearNames(t *testing.T) {
	many := []string{"web-1", "web-2", "web-3", "api-1", "api-2", "api-3", "db-1", "db-2", "db-3", "db-4", "db-5"}
	for _, c := range []struct {
		given, kind string
		names       []string
		want        string
	}{
		{"x", "backends", nil, "there are no backends"},
		{"x", "backends", []string{"a", "b"}, "there are the backends a, b"},
		{"s7", "servers", []string{"s1", "s2"}, "there are the servers s1, s2"},
		{"ingst", "backends", []string{"query", "ingest"}, "did you mean ingest? There are the backends query, ingest"},
		{"QUERY", "backends", []string{"query", "ingest"}, "did you mean query? There are the backends query, ingest"},
		{"WEB1", "servers", many, "did you mean one of web-1, web-2, web-3, db-1, api-1? There are 11 servers"},
	} {
		if got := NearNames(c.given, c.names, c.kind); got != c.want {
			t.Errorf("%s: %q, want %q", c.given, got, c.want)
		}
	}
}
