package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/haproxy-weighter/haproxy-weighter/test/faults/trace"
	"github.com/haproxy-weighter/haproxy-weighter/test/haproxyproc"
)

func TestUvarint(t *testing.T) {
	for _, v := range []uint64{0, 1, 239, 240, 256, 2287, 2288, 264431, 264432, 1 << 40} {
		b := append(appendUvarint(nil, v), 'x')
		got, rest, err := takeUvarint(b)
		if got != v || string(rest) != "x" || err != nil {
			t.Errorf("%d became % x and then %d, rest %q, %v", v, b, got, rest, err)
		}
	}
	// The examples of doc/SPOE.txt's formula, by hand.
	if got := appendUvarint(nil, 240); !bytes.Equal(got, []byte{0xf0, 0}) {
		t.Errorf("240 is % x", got)
	}
	for _, b := range [][]byte{nil, {0xf0}, {0xf0, 0x80}} {
		if _, _, err := takeUvarint(b); err == nil {
			t.Errorf("% x was read", b)
		}
	}
}

func TestReadAck(t *testing.T) {
	action := func(name string, value ...byte) []byte {
		return append(appendText([]byte{1, 3, 2}, name), value...)
	}
	good := bytes.Join([][]byte{
		action("weight", 3, 0xf0, 1), action("fresh", 0x11), action("server", append([]byte{8, 2}, "s1"...)...),
	}, nil)
	vars, err := readAck(bytes.NewReader(frame(frameAck, 7, good)), 7)
	if diff := cmp.Diff(map[string]string{"weight": "256", "fresh": "true", "server": "s1"}, vars); err != nil || diff != "" {
		t.Errorf("%v; -want +got:\n%s", err, diff)
	}
	for name, b := range map[string][]byte{
		"another stream": frame(frameAck, 8, good),
		"another frame":  frame(frameHello, 7, nil),
		"cut":            frame(frameAck, 7, good[:5]),
		"unknown type":   frame(frameAck, 7, action("x", 9)),
		"unknown action": frame(frameAck, 7, []byte{9, 9, 9}),
		"huge":           {0xff, 0xff, 0xff, 0xff},
		"nothing":        nil,
	} {
		if vars, err := readAck(bytes.NewReader(b), 7); err == nil {
			t.Errorf("%s: read as %v", name, vars)
		}
	}
}

func TestCheckLog(t *testing.T) {
	info := func(msg string) line { return line{Level: "INFO", Msg: msg} }
	warn := func(msg string) line { return line{Level: "WARN", Msg: msg, raw: msg} }
	end := info("stopped: the weights in force stay as they are")
	fault := told{begin: "it broke", end: "it works again"}
	for name, c := range map[string]struct {
		lines  []line
		told   []told
		killed int
		want   int // errors
	}{
		"all as expected":     {[]line{warn("it broke"), info("it works again"), end}, []told{fault}, 0, 0},
		"never told":          {[]line{end}, []told{fault}, 0, 1},
		"may be missing":      {[]line{end}, []told{maybe(fault)}, 0, 0},
		"told twice":          {[]line{warn("it broke"), warn("it broke"), info("it works again"), info("it works again"), end}, []told{fault}, 0, 1},
		"twice is allowed":    {[]line{warn("it broke"), warn("it broke"), info("it works again"), info("it works again"), end}, []told{upTo(2, fault)}, 0, 0},
		"no end":              {[]line{warn("it broke"), end}, []told{fault}, 0, 1},
		"no end, but killed":  {[]line{warn("it broke"), end}, []told{fault}, 1, 0},
		"an end too many":     {[]line{warn("it broke"), info("it works again"), info("it works again"), end}, []told{fault}, 1, 1},
		"two ends of parts":   {[]line{warn("it broke"), info("it works again"), info("it works again"), end}, []told{{begin: "it broke", end: "it works again", parts: true}}, 0, 0},
		"no end of parts":     {[]line{warn("it broke"), end}, []told{{begin: "it broke", end: "it works again", parts: true}}, 0, 1},
		"another warning":     {[]line{warn("something else"), end}, nil, 0, 1},
		"a panic":             {[]line{{Level: "ERROR", Msg: "panic: x", raw: "panic: x"}, end}, nil, 0, 1},
		"no word at the end":  {[]line{info("starting")}, nil, 0, 1},
		"many other warnings": {[]line{warn("1"), warn("2"), warn("3"), warn("4"), warn("5"), warn("6"), warn("7"), end}, nil, 0, 5},
	} {
		if errs := checkLog(c.lines, c.told, c.killed); len(errs) != c.want {
			t.Errorf("%s: %v", name, errs)
		}
	}
}

func TestLogLines(t *testing.T) {
	file := filepath.Join(t.TempDir(), "log")
	if err := os.WriteFile(file, []byte("{\"level\":\"INFO\",\"msg\":\"a\"}\nWARNING: DATA RACE\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	lines, err := logLines(file)
	if err != nil || len(lines) != 2 || lines[0].warned() || lines[0].Msg != "a" || !lines[1].warned() || lines[1].Msg != "WARNING: DATA RACE" {
		t.Errorf("%+v, %v", lines, err)
	}
}

func TestSlope(t *testing.T) {
	var samples []trace.Usage
	start := time.Now()
	for i := range 120 {
		noise := int64(i%2) * 1000
		samples = append(samples, trace.Usage{At: start.Add(time.Duration(i) * time.Minute), Resident: 10_000 + int64(i)*100 + noise})
	}
	got := slope(samples, func(u trace.Usage) float64 { return float64(u.Resident) })
	if got.perHour < 5900 || got.perHour > 6100 || got.mean < 16_000 || got.mean > 17_000 {
		t.Errorf("%+v, want 6000 an hour", got)
	}
	for _, few := range [][]trace.Usage{nil, samples[:1]} {
		if got := slope(few, func(trace.Usage) float64 { return 1 }); got.perHour != 0 {
			t.Errorf("%d samples: %+v", len(few), got)
		}
	}
	leaking := soaked{took: 2 * time.Hour, resident: trend{mean: 50 << 20, perHour: 40 << 20}, goroutines: trend{mean: 30, perHour: 6}}
	if err := leaking.growth(); err == nil || !strings.Contains(err.Error(), "memory") || !strings.Contains(err.Error(), "goroutines") {
		t.Errorf("a leak: %v", err)
	}
	flat := soaked{took: 2 * time.Hour, resident: trend{mean: 50 << 20, perHour: 1 << 20}, goroutines: trend{mean: 30, perHour: 0.5}}
	if err := flat.growth(); err != nil {
		t.Errorf("no leak: %v", err)
	}
}

func TestMarkdown(t *testing.T) {
	old, recent := haproxyproc.Binary{Version: "2.6.12"}, haproxyproc.Binary{Version: "3.4.7"}
	rows := []row{
		{part: "Graphite", fault: "answers 500", holds: "weights stay", told: []told{noLoads}},
		{part: "HAProxy", fault: "is reloaded", holds: "they are put back", told: []told{maybe(noSocket)}},
	}
	m := &matrix{rows: rows, binaries: []haproxyproc.Binary{old, recent}, took: time.Minute, cells: []cell{
		{row: &rows[0], binary: old, outcome: outcome{recovered: 740 * time.Millisecond}},
		{row: &rows[0], binary: recent, outcome: outcome{recovered: 770 * time.Millisecond}},
		{row: &rows[1], binary: old, outcome: outcome{recovered: time.Second}},
		{row: &rows[1], binary: recent, outcome: outcome{err: os.ErrInvalid}},
	}}
	want := `| at fault | fault | what must hold, beside what always must | log | 2.6.12 | 3.4.7 |
|---|---|---|---|---|---|
| Graphite | answers 500 | weights stay | no loads from Graphite | ok, 0.7 s | ok, 0.8 s |
| HAProxy | is reloaded | they are put back |  | ok, 1.0 s | **FAILED** |

2 faults, 4 runs, 1 failed, in 1m0s. A time is from the end of the fault until the right weights were in force, at an interval of 1s.
`
	if diff := cmp.Diff(want, m.markdown()); diff != "" || m.failed() != 1 {
		t.Errorf("%d failed; -want +got:\n%s", m.failed(), diff)
	}
	file := filepath.Join(t.TempDir(), "doc.md")
	text := "a\n<!-- make faults writes the matrix from here -->\nold\n<!-- to here -->\nb\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := replace(file, "matrix", "new\n"); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(file); err != nil || string(got) != strings.Replace(text, "old", "new", 1) {
		t.Errorf("%s, %v", got, err)
	}
	if err := replace(file, "soak", "new\n"); err == nil {
		t.Error("a document without the marks was written")
	}
}

// The names of rows are how they are chosen, and in the table each has its words.
func TestRowsAreNamed(t *testing.T) {
	all, err := rows()
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, r := range all {
		if seen[r.name] || r.name == "" || r.part == "" || r.fault == "" || r.holds == "" || r.begin == nil {
			t.Errorf("row %q: %q, %q, %q", r.name, r.part, r.fault, r.holds)
		}
		if strings.Contains(r.fault+r.holds, "|") {
			t.Errorf("row %q breaks the table", r.name)
		}
		seen[r.name] = true
	}
}

// TestCommandRefuses has the words for a mistaken command line.
func TestCommandRefuses(t *testing.T) {
	for _, args := range [][]string{{"--walk", "-1s"}, {"--parallel", "0"}, {"x"}, {"--servers", "1"}, {"--nonsense"}} {
		if err := command(t.Context(), args); err == nil {
			t.Errorf("%v was taken", args)
		}
	}
}

// TestSoak is a soak of a few seconds: it finds nothing, and measures.
func TestSoak(t *testing.T) {
	t.Parallel()
	path, err := haproxyproc.FindBinary("")
	if err != nil {
		t.Fatal(err)
	}
	o := options{soak: 12 * time.Second, servers: 100, messages: 500}
	result, err := soak(t.Context(), haproxyproc.Binary{Path: path}, built, &o)
	if err != nil {
		t.Fatal(err)
	}
	t.Log(result)
	if result.messages == 0 || result.reloads < 2 || result.resident.mean < 1<<20 || result.goroutines.mean < 5 || result.opened.mean < 5 {
		t.Errorf("%+v", *result)
	}
}
