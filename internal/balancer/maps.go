package balancer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/haproxy-weighter/haproxy-weighter/internal/config"
	"github.com/haproxy-weighter/haproxy-weighter/internal/haproxy"
)

// MapPlane is what is needed of HAProxy to keep map files up to date in its
// memory. *haproxy.Client has it.
type MapPlane interface {
	Map(ctx context.Context, path string) (*haproxy.Map, error)
	EditMap(ctx context.Context, path string, edits []haproxy.MapEdit, perLine int) (*haproxy.MapOutcome, error)
}

// mapKeeper keeps the maps of one backend on one HAProxy. It has a goroutine
// and a connection of its own, so that a pass never waits for a map.
type mapKeeper struct {
	backend *config.Backend
	data    MapPlane
	files   []*keptMap
	tables  chan *Table // holds the newest one
	log     *slog.Logger
	now     func() time.Time
	faults  *faults
	handed  atomic.Bool // a keeper of the next configuration goes on with the maps
}

// keptMap is one map file as the worker that answered last has it.
type keptMap struct {
	path   string
	values func(t *Table, now time.Time) map[string]int64 // by key
	fades  bool                                           // its values are wrong once nobody renews them
	worker haproxy.Worker
	told   haproxy.Worker // whose filling was told
	known  bool           // have is what worker has
	have   map[string]int64
	size   int // entries, those of others included
}

// mapTries is how often a map is read for one table: keys that are there twice
// cost one try, a reload meanwhile another.
const mapTries = 3

// fadeRest is the least time between two looks for loads that have grown too
// old.
const fadeRest = time.Second

// mapLimit bounds the work on one table, mapEndLimit that at the end of run.
const (
	mapLimit    = 30 * time.Second
	mapEndLimit = 2 * time.Second
)

// newMapKeeper returns nil when the backend has no maps.
func newMapKeeper(data MapPlane, o *Options, log *slog.Logger) *mapKeeper {
	m := o.Backend.Maps
	if data == nil || m == (config.Maps{}) {
		return nil
	}
	k := &mapKeeper{
		backend: &o.Backend, data: data, tables: make(chan *Table, 1),
		log: log, now: o.Now, faults: newFaults(log, o.Now).at(o.Backend.Name, ""),
	}
	if m.Load != "" {
		k.files = append(k.files, &keptMap{path: m.Load, values: k.loads, fades: true})
	}
	if m.Weight != "" {
		k.files = append(k.files, &keptMap{path: m.Weight, values: k.weights})
	}
	return k
}

// key is what haproxy.cfg looks up.
func (k *mapKeeper) key(server string) string { return k.backend.Name + "/" + server }

// loads are the rounded loads that are fresh.
func (k *mapKeeper) loads(t *Table, now time.Time) map[string]int64 {
	values := make(map[string]int64, len(t.Rows))
	for i := range t.Rows {
		r := &t.Rows[i]
		if left, ok := k.left(t, r, now); ok && left >= 0 {
			values[k.key(r.Server)] = roundLoad(*r.Load)
		}
	}
	return values
}

// left is how long the load of a row counts yet; ok is false when there is none.
func (k *mapKeeper) left(t *Table, r *Row, now time.Time) (left time.Duration, ok bool) {
	if !r.Measured() {
		return 0, false
	}
	age := time.Duration(*r.AgeSeconds*float64(time.Second)) + now.Sub(t.Time)
	return k.backend.MaxAge - age, true
}

// fading is how long it takes until the next load of a table has to go out of
// a map; ok is false when there is none. Many that follow each other closely
// go together.
func (k *mapKeeper) fading(t *Table) (wait time.Duration, ok bool) {
	if !slices.ContainsFunc(k.files, func(f *keptMap) bool { return f.fades }) {
		return 0, false
	}
	now := k.now()
	for i := range t.Rows {
		if left, measured := k.left(t, &t.Rows[i], now); measured && left >= 0 && (!ok || left < wait) {
			wait, ok = left, true
		}
	}
	return max(wait+time.Millisecond, fadeRest), ok
}

// roundLoad makes a load a whole number that HAProxy can hold.
func roundLoad(load float64) int64 {
	if load >= math.MaxInt64 {
		return math.MaxInt64
	}
	return int64(math.Round(load))
}

// weights are the weights in force.
func (k *mapKeeper) weights(t *Table, _ time.Time) map[string]int64 {
	values := make(map[string]int64, len(t.Rows))
	for i := range t.Rows {
		values[k.key(t.Rows[i].Server)] = int64(t.Rows[i].AppliedWeight)
	}
	return values
}

// run brings each table that comes into the maps until ctx ends, and takes out
// loads that grow too old before the next one.
func (k *mapKeeper) run(ctx context.Context) error {
	var t *Table
	fades := time.NewTimer(0)
	fades.Stop()
	defer fades.Stop()
	for {
		select {
		case <-ctx.Done():
			k.leave(ctx)
			return nil
		case t = <-k.tables:
		case <-fades.C:
		}
		fades.Stop()
		if t.Unread() {
			continue // HAProxy does not answer, which the plane tells
		}
		for _, f := range k.files {
			k.guard(func() { k.bring(ctx, f, t) })
		}
		if wait, ok := k.fading(t); ok {
			fades.Reset(wait)
		}
	}
}

// guard contains a panic: the maps stand still, the weights go on.
func (k *mapKeeper) guard(f func()) {
	defer func() {
		if r := recover(); r != nil {
			_ = tellPanic(k.faults, k.log, r)
			return
		}
		k.faults.end(panicKey)
	}()
	f()
}

// bring makes one map what a table says and tells how that went. When the map
// turns out to be another than the one that was read, it is read again.
func (k *mapKeeper) bring(ctx context.Context, f *keptMap, t *Table) {
	limited, cancel := context.WithTimeout(ctx, mapLimit)
	defer cancel()
	var err error
	for range mapTries {
		if f.worker != t.Worker {
			f.known = false
		}
		if err = k.update(limited, f, f.values(t, k.now())); err == nil {
			break
		}
		f.known = false
		if !errors.Is(err, errMapMoved) && !errors.Is(err, haproxy.ErrStopping) {
			break
		}
	}
	if ctx.Err() == nil {
		k.tell(f, err)
	}
}

// errMapMoved says that the map was not the one that had been read.
var errMapMoved = errors.New("the map has changed meanwhile")

// update sends what is needed to have want in the map, of this backend's keys.
func (k *mapKeeper) update(ctx context.Context, f *keptMap, want map[string]int64) error {
	if !f.known {
		m, err := k.data.Map(ctx, f.path)
		if err != nil {
			return err
		}
		f.worker, f.size, f.known = m.Info.Worker, len(m.Entries), true
		have, spoiled := k.ours(m.Entries)
		if len(spoiled) > 0 {
			return k.clear(ctx, f, spoiled)
		}
		f.have = have
	}
	if edits := editsOf(f.have, want); len(edits) > 0 {
		out, err := k.data.EditMap(ctx, f.path, edits, haproxy.MapEditsPerLine(f.size))
		if err == nil {
			err = k.judge(f, out)
		}
		if err != nil {
			return err
		}
	}
	f.size += len(want) - len(f.have)
	f.have = want
	if len(want) > 0 && f.told != f.worker {
		f.told = f.worker
		k.log.Info("map filled", "map", f.path, "worker", f.worker.PID, "keys", len(want))
	}
	return nil
}

// clear takes spoiled keys out; the map has to be read again afterwards.
func (k *mapKeeper) clear(ctx context.Context, f *keptMap, spoiled []string) error {
	var edits []haproxy.MapEdit
	for _, key := range spoiled {
		edits = append(edits, haproxy.MapEdit{Op: haproxy.MapDelete, Key: key})
	}
	_, err := k.data.EditMap(ctx, f.path, edits, haproxy.MapEditsPerLine(f.size))
	if err != nil {
		return err
	}
	return errMapMoved
}

// judge says whether edits have left the map as it was wanted.
func (k *mapKeeper) judge(f *keptMap, out *haproxy.MapOutcome) error {
	if out.Info.Worker != f.worker {
		return errMapMoved
	}
	var gone error
	for _, key := range slices.Sorted(maps.Keys(out.Failed)) {
		err := out.Failed[key]
		if !errors.Is(err, haproxy.ErrNoKey) {
			return err
		}
		gone = fmt.Errorf("%w: %w", errMapMoved, err)
	}
	return gone
}

// ours picks the entries of this backend. Spoiled are keys with a value that is
// not a number, and those that are there more than once, as often as they are:
// HAProxy 2.6 may crash on a set of such a key and takes all of it out at once;
// 3.4 takes out one.
func (k *mapKeeper) ours(entries []haproxy.MapEntry) (have map[string]int64, spoiled []string) {
	have = make(map[string]int64)
	for _, e := range entries {
		if !strings.HasPrefix(e.Key, k.backend.Name+"/") {
			continue
		}
		v, err := strconv.ParseInt(e.Value, 10, 64)
		if _, again := have[e.Key]; again || err != nil {
			spoiled = append(spoiled, e.Key)
		}
		have[e.Key] = v
	}
	return have, spoiled
}

// editsOf turns have into want.
func editsOf(have, want map[string]int64) []haproxy.MapEdit {
	var edits []haproxy.MapEdit
	for _, key := range slices.Sorted(maps.Keys(have)) {
		if _, wanted := want[key]; !wanted {
			edits = append(edits, haproxy.MapEdit{Op: haproxy.MapDelete, Key: key})
		}
	}
	for _, key := range slices.Sorted(maps.Keys(want)) {
		switch old, there := have[key]; {
		case !there:
			edits = append(edits, haproxy.MapEdit{Op: haproxy.MapAdd, Key: key, Value: want[key]})
		case old != want[key]:
			edits = append(edits, haproxy.MapEdit{Op: haproxy.MapSet, Key: key, Value: want[key]})
		}
	}
	return edits
}

// mapFault is the key of the fault that a map can't be kept.
func mapFault(path string) string { return "map " + path }

// inherit takes over what an earlier keeper has told and not ended, of the maps
// that are still kept.
func (k *mapKeeper) inherit(old *mapKeeper) {
	for _, f := range k.files {
		for _, was := range old.files {
			if f.path == was.path {
				f.told = was.told
			}
		}
		if open, ok := old.faults.open[mapFault(f.path)]; ok {
			k.faults.open[mapFault(f.path)] = open
		}
	}
	k.faults.show()
}

func (k *mapKeeper) tell(f *keptMap, err error) {
	words := wording{
		what:      "a map can't be kept up to date",
		over:      "the map is up to date again",
		meanwhile: "what haproxy.cfg reads from " + f.path + " stays as it is; weights go on",
		do:        "see the cause; it is tried again after each pass",
	}
	if errors.Is(err, haproxy.ErrNoMap) {
		words.what, words.over = "HAProxy has not loaded a map of backend.maps", "HAProxy has loaded the map"
		words.meanwhile = "nothing is written to " + f.path + "; weights go on"
		words.do = "read it in haproxy.cfg by exactly this path, as in map_str_int(" + f.path + ",0), create the file (it may be empty), and reload HAProxy; or take it out of backend.maps"
	}
	k.faults.set(mapFault(f.path), err, words)
}

// leave takes out what would be wrong for ever once nobody renews it: a
// haproxy.cfg that turns clients away at a high load must not go on with a
// load from before. Weights stay in force, and so do their keys.
func (k *mapKeeper) leave(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), mapEndLimit)
	defer cancel()
	for _, f := range k.files {
		if !f.fades || len(f.have) == 0 || k.handed.Load() {
			continue
		}
		if err := k.update(ctx, f, nil); err != nil {
			k.log.Warn("loads stay in a map that nobody renews now", "map", f.path, "cause", err.Error(),
				"do", "reload HAProxy, or clear the map, when haproxy.cfg decides by it")
			continue
		}
		k.log.Info("loads taken out of the map, since nobody renews them now", "map", f.path)
	}
}
