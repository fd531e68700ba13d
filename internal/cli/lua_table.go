package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"time"

	"github.com/haproxy-weighter/haproxy-weighter/internal/api"
	"github.com/haproxy-weighter/haproxy-weighter/internal/balancer"
	"github.com/haproxy-weighter/haproxy-weighter/weighting"
)

// maxTables is the largest recording of tables that is read.
const maxTables = 256 << 20

// readTables reads what plan --json and /api/v1/table give: a list of tables,
// an object with one, or a table alone.
func readTables(file string) ([]api.Table, error) {
	fault := func(err error) error { return usage(fmt.Errorf("%s: %w", file, err), hintRecordTable) }
	in, err := os.Open(file)
	if err != nil {
		return nil, usage(fmt.Errorf("can't read the recorded table: %w", err))
	}
	defer in.Close()
	text, err := io.ReadAll(io.LimitReader(in, maxTables+1))
	if err != nil {
		return nil, usage(fmt.Errorf("can't read the recorded table: %w", err))
	}
	if len(text) > maxTables {
		return nil, fault(fmt.Errorf("is larger than %d MiB", maxTables>>20))
	}
	tables, err := decodeTables(bytes.TrimSpace(text))
	if err != nil {
		return nil, fault(fmt.Errorf("is no recorded table: %w", err))
	}
	if len(tables) == 0 {
		return nil, fault(errors.New("has no table in it"))
	}
	for i := range tables {
		if err := checkTable(&tables[i]); err != nil {
			return nil, fault(err)
		}
	}
	return tables, nil
}

func decodeTables(text []byte) ([]api.Table, error) {
	if bytes.HasPrefix(text, []byte("[")) {
		var list []api.Table
		err := json.Unmarshal(text, &list)
		return list, err
	}
	var several struct {
		Tables *[]api.Table `json:"tables"`
	}
	if err := json.Unmarshal(text, &several); err != nil {
		return nil, err
	}
	if several.Tables != nil {
		return *several.Tables, nil
	}
	one := make([]api.Table, 1)
	err := json.Unmarshal(text, &one[0])
	return one, err
}

func checkTable(t *api.Table) error {
	switch {
	case t.Backend == "":
		return errors.New("has a table without a backend")
	case t.Time.IsZero():
		return fmt.Errorf("the table of backend %s has no time", t.Backend)
	case len(t.Servers) == 0:
		return fmt.Errorf("the table of backend %s has no servers", t.Backend)
	}
	seen := make(map[string]bool, len(t.Servers))
	for i := range t.Servers {
		name := t.Servers[i].Server
		if name == "" || seen[name] {
			return fmt.Errorf("the table of backend %s has a server without a name, or one twice: %q", t.Backend, name)
		}
		seen[name] = true
	}
	return nil
}

// pickTable finds the table to weigh.
func pickTable(tables []api.Table, f *luaFlags) (*api.Table, error) {
	var names []string
	for i := range tables {
		if f.backend == "" || tables[i].Backend == f.backend {
			return &tables[i], nil
		}
		names = append(names, tables[i].Backend)
	}
	if len(tables) == 0 {
		return nil, failed(fmt.Errorf("no HAProxy has told anything about backend %s", f.backend), hintCheckLive)
	}
	return nil, usage(fmt.Errorf("%s has no table of backend %q", f.table, f.backend), api.NearNames(f.backend, slices.Compact(names), "backends"))
}

func secondsOf(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// tableOf is the table that t was made of, as far as answers need it.
func tableOf(t *api.Table) *balancer.Table {
	made := &balancer.Table{
		Backend: t.Backend, Socket: t.Socket, Time: t.Time, Algorithm: t.Algorithm, Mode: t.Mode,
		HoldCode: t.HoldCode, Better: t.Better, Quorum: t.Quorum, Rows: make([]balancer.Row, len(t.Servers)),
	}
	for i := range t.Servers {
		made.Rows[i] = t.Servers[i].Row
	}
	return made
}

// inputOf is the pass that a recorded table stands for, as far as it tells.
func inputOf(t *api.Table) weighting.Input {
	in := weighting.Input{Now: t.Time, Servers: make([]weighting.Server, len(t.Servers))}
	if t.LifetimeFrom != "" {
		in.Lifetime = secondsOf(t.LifetimeSeconds)
	}
	for i := range t.Servers {
		r := &t.Servers[i].Row
		s := weighting.Server{
			Name: r.Server, Load: math.NaN(), Reason: "the table has no load of it", Metrics: r.Metrics,
			Capacity: r.Capacity, Weight: r.AppliedWeight, InitialWeight: r.InitialWeight, Sessions: r.Sessions,
			Rotation: rotationOfRow(r),
		}
		if r.Load != nil && r.AgeSeconds != nil && !r.Earlier {
			s.Load, s.Reason, s.DataAge = *r.Load, "", secondsOf(*r.AgeSeconds)
			s.LoadTime = t.Time.Add(-s.DataAge)
		}
		in.Servers[i] = s
	}
	return in
}

func rotationOfRow(r *balancer.Row) weighting.Rotation {
	switch {
	case r.InRotation():
		return weighting.InRotation
	case r.AdminState == "maint":
		return weighting.Maint
	case r.AdminState == "drain" || r.AppliedWeight == 0:
		return weighting.Drain
	case r.Backup && (r.OpState == "running" || r.OpState == "starting"):
		return weighting.Backup
	}
	return weighting.Down
}
