package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestShipped holds that the files are what this program writes.
func TestShipped(t *testing.T) {
	shipped, err := filepath.Glob("../*.json")
	if err != nil || len(shipped) != len(files) {
		t.Errorf("the folder has %v, %v; want %d files", shipped, err, len(files))
	}
	for name, build := range files {
		want, err := encode(build())
		if err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(filepath.Join("..", name))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), string(got)); diff != "" {
			t.Errorf("%s is not what go run ./packaging/grafana/generate packaging/grafana writes:\n%s", name, diff)
		}
	}
}

// TestPanels looks at what a reader of a panel needs, and at the grid.
func TestPanels(t *testing.T) {
	for name, build := range files {
		d := build()
		ids, taken := map[int]bool{}, map[[2]int]string{}
		for _, p := range d.Panels {
			if ids[p.ID] || p.ID == 0 {
				t.Errorf("%s: %s has the id %d, which another has", name, p.Title, p.ID)
			}
			ids[p.ID] = true
			for y := range p.GridPos.H {
				for x := range p.GridPos.W {
					at := [2]int{p.GridPos.X + x, p.GridPos.Y + y}
					if other := taken[at]; other != "" || at[0] >= wide {
						t.Fatalf("%s: %s lies over %q or beyond the edge", name, p.Title, other)
					}
					taken[at] = p.Title
				}
			}
			if p.Type == "row" || p.Type == "text" {
				continue
			}
			p.check(t, name)
		}
	}
}

// check looks at a panel with queries.
func (p *panel) check(t *testing.T, name string) {
	t.Helper()
	if p.Description == "" || p.FieldConfig.Defaults.Unit == "" || len(p.Targets) == 0 {
		t.Errorf("%s: %s lacks a description, a unit or a query", name, p.Title)
	}
	refs := map[string]bool{}
	for _, q := range p.Targets {
		if refs[q.RefID] || q.Datasource.UID != "${datasource}" {
			t.Errorf("%s: %s: query %s is there twice, or asks %s", name, p.Title, q.RefID, q.Datasource.UID)
		}
		refs[q.RefID] = true
		if q.Expr != "" && p.Type == "timeseries" && !strings.Contains(q.LegendFormat, "{{") && len(p.Targets) == 1 {
			t.Errorf("%s: the lines of %s have no names: %q", name, p.Title, q.LegendFormat)
		}
	}
}

// TestNobodysInstance: nothing in a file belongs to one Grafana.
func TestNobodysInstance(t *testing.T) {
	for name, build := range files {
		text, err := encode(build())
		if err != nil {
			t.Fatal(err)
		}
		var d any
		if err := json.Unmarshal(text, &d); err != nil {
			t.Fatal(err)
		}
		seen := 0
		walk(d, func(key string, value any) {
			uid, ok := value.(string)
			if key != "uid" || !ok {
				return
			}
			seen++
			if uid != "${datasource}" && uid != "-- Grafana --" && uid+".json" != name {
				t.Errorf("%s has the uid %q", name, uid)
			}
		})
		if top := d.(map[string]any); seen < 10 || top["id"] != nil || top["schemaVersion"] != float64(schemaVersion) {
			t.Errorf("%s: %d uids, id %v, schema %v", name, seen, top["id"], top["schemaVersion"])
		}
	}
}

// walk calls f for every key and value of an object, at any depth.
func walk(v any, f func(key string, value any)) {
	switch v := v.(type) {
	case map[string]any:
		for key, value := range v {
			f(key, value)
			walk(value, f)
		}
	case []any:
		for _, value := range v {
			walk(value, f)
		}
	}
}
