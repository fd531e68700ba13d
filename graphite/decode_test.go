package graphite

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/haproxy-weighter/haproxy-weighter/test/corpus"
)

func TestDecode(t *testing.T) {
	nan := math.NaN()
	const good = `{"target":"g","datapoints":[[1,2]]}`
	goodSeries := Series{Name: "g", Points: []Point{{2, 1}}}
	tests := []struct {
		name, series string
		want         Series
	}{
		{"null stays absent", `{"target":"a","datapoints":[[null,1],[0,2],[-0.0,3]]}`,
			Series{Name: "a", Points: []Point{{1, nan}, {2, 0}, {3, math.Copysign(0, -1)}}}},
		{"infinite", `{"target":"a","datapoints":[[1e9999,1],[-1e9999,2],[Infinity,3],[-Infinity,4],[NaN,5],[6,6]]}`,
			Series{Name: "a", Points: []Point{{1, nan}, {2, nan}, {3, nan}, {4, nan}, {5, nan}, {6, 6}}, OutOfRange: 4}},
		{"numbers", `{"target":"a","datapoints":[[1.7976931348623157e+308,1],[5e-324,2],[18446744073709551616,3],[0.1,4],[123456789012345.6,5],[1E2,6],[1e-9999,7],[12345.6789,8]]}`,
			Series{Name: "a", Points: []Point{{1, math.MaxFloat64}, {2, 5e-324}, {3, 18446744073709551616}, {4, 0.1}, {5, 123456789012345.6}, {6, 100}, {7, 0}, {8, 12345.6789}}}},
		{"309 digits", `{"target":"a","datapoints":[[1` + strings.Repeat("0", 308) + `,1],[1` + strings.Repeat("0", 309) + `,2]]}`,
			Series{Name: "a", Points: []Point{{1, 1e308}, {2, nan}}, OutOfRange: 1}},
		{"value above stamp", `{"target":"a","datapoints":[[1795974169,1795974168]]}`,
			Series{Name: "a", Points: []Point{{1795974168, 1795974169}}}},
		{"stamps as decimals", `{"target":"a","datapoints":[[1,10.0],[2,1.1e1],[3,12.9]]}`,
			Series{Name: "a", Points: []Point{{10, 1}, {11, 2}, {12, 3}}}},
		{"unsorted", `{"target":"a","datapoints":[[3,3],[1,1],[2,2]]}`,
			Series{Name: "a", Points: []Point{{1, 1}, {2, 2}, {3, 3}}}},
		{"names", `{"target":"\u00e9\"\\\ud83d\ude00 é","datapoints":[]}`,
			Series{Name: "é\"\\😀 é", Points: []Point{}}},
		{"the last of two keys counts", `{"target":1,"datapoints":5,"target":"a","datapoints":[[1,2]]}`,
			Series{Name: "a", Points: []Point{{2, 1}}}},
		{"keys may have escapes", `{"\u0074arget":"a","datapoints":[]}`, Series{Name: "a", Points: []Point{}}},
		{"keys are exact", `{"Target":"a","datapoints":[]}`, Series{Points: []Point{}, Fault: "no name"}},
		{"number as name", `{"target":1,"datapoints":[[1,2]]}`,
			Series{Name: "1", Points: []Point{{2, 1}}, Fault: "its name is 1, not a text"}},
		{"null as name", `{"target":null,"datapoints":[]}`, Series{Name: "null", Points: []Point{}, Fault: "not a text"}},
		{"list as name", `{"target":["x",{"y":[]}],"datapoints":[]}`,
			Series{Name: `["x",{"y":[]}]`, Points: []Point{}, Fault: "not a text"}},
		{"no name", `{"datapoints":[]}`, Series{Points: []Point{}, Fault: "no name"}},
		{"empty name", `{"target":"","datapoints":[]}`, Series{Points: []Point{}, Fault: "name is empty"}},
		{"an escape of Go's in a name", `{"target":"a\U0001f600","datapoints":[[1,2]]}`,
			Series{Name: `"a\U0001f600"`, Points: []Point{{2, 1}}, Fault: "escape"}},
		{"an escape of Go's elsewhere", `{"target":"a","tags":{"name":"\x7f"},"datapoints":[]}`,
			Series{Name: "a", Points: []Point{}, Fault: "escape"}},
		{"control character in a name", "{\"target\":\"a\tb\",\"datapoints\":[]}",
			Series{Name: "\"a b\"", Points: []Point{}, Fault: "escape"}},
		{"no datapoints", `{"target":"a"}`, Series{Name: "a", Fault: "no datapoints"}},
		{"datapoints null", `{"target":"a","datapoints":null}`, Series{Name: "a", Fault: "no list"}},
		{"text as value", `{"target":"a","datapoints":[["1",2]]}`, Series{Name: "a", Fault: "not [value, time]"}},
		{"true as value", `{"target":"a","datapoints":[[true,2]]}`, Series{Name: "a", Fault: "not [value, time]"}},
		{"no stamp", `{"target":"a","datapoints":[[1,2],[1]]}`, Series{Name: "a", Fault: "not [value, time]"}},
		{"null as stamp", `{"target":"a","datapoints":[[1,null]]}`, Series{Name: "a", Fault: "not [value, time]"}},
		{"endless stamp", `{"target":"a","datapoints":[[1,1e9999]]}`, Series{Name: "a", Fault: "not [value, time]"}},
		{"stamp out of range", `{"target":"a","datapoints":[[1,1e19]]}`, Series{Name: "a", Fault: "not [value, time]"}},
		{"three numbers", `{"target":"a","datapoints":[[1,2,3]]}`, Series{Name: "a", Fault: "not [value, time]"}},
		{"no pair", `{"target":"a","datapoints":[[],{"x":1},7]}`, Series{Name: "a", Fault: "not [value, time]"}},
		{"a number", `7`, Series{Fault: "no JSON object"}},
		{"null", `null`, Series{Fault: "no JSON object"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			// Sound neighbours on both sides: they must come through whatever happens.
			got, err := decode([]byte("[" + good + "," + test.series + "," + good + "]"))
			if err != nil {
				t.Fatal(err.text)
			}
			if len(got) != 3 {
				t.Fatalf("%d series", len(got))
			}
			if test.want.Fault != "" && strings.Contains(got[1].Fault, test.want.Fault) {
				test.want.Fault = got[1].Fault
			}
			want := []Series{goodSeries, test.want, goodSeries}
			if diff := cmp.Diff(want, got, cmpopts.EquateNaNs()); diff != "" {
				t.Errorf("wanted (-), got (+):\n%s", diff)
			}
		})
	}
}

func TestDecodeRefusesWhatIsNoJSON(t *testing.T) {
	for _, body := range []string{
		`[`, `[,]`, `[{}`, `[{]`, `[{"a"}]`, `[{"a":}]`, `[{"a":1,}]`, `[{a:1}]`, `[1,]`, `[1 2]`, `]`, `[] x`, `[nul]`, `[tru]`,
		`[{"target":"a","datapoints":[[1,2],]}]`, `[{"target":"a","datapoints":[[1,2`, `[{"target":"a`, `[{"target":"a\`, `[{"target":"a\"`,
		`[{"target":"a","datapoints":[[01,2]]}]`, `[{"target":"a","datapoints":[[1.,2]]}]`, `[{"target":"a","datapoints":[[.5,2]]}]`,
		`[{"target":"a","datapoints":[[1e,2]]}]`, `[{"target":"a","datapoints":[[+1,2]]}]`, `[{"target":"a","datapoints":[[-,2]]}]`,
		`[{"target":"a","datapoints":[[0x10,2]]}]`, `[{"target":"a","datapoints":[[1,2}]}]`, `[{"target" "a"}]`, `[{"target":'a'}]`,
		strings.Repeat("[", 1_000_000), "[" + strings.Repeat(`{"a":`, 100_000),
	} {
		if json.Valid([]byte(body)) {
			t.Errorf("%.60s is JSON", body)
		}
		series, err := decode([]byte(body))
		if err == nil {
			t.Errorf("%.60s was read as %+v", body, series)
		}
	}
}

// TestDecodeCostsWhatTheBodyHolds: the limit of a body bounds the memory too,
// whatever the body is made of.
func TestDecodeCostsWhatTheBodyHolds(t *testing.T) {
	const size, most = 2 << 20, 16 // times the size of the body
	repeat := func(s string) string { return "[" + strings.Repeat(s+",", size/(len(s)+1)) + s + "]" }
	for _, element := range []string{
		"1", "{}", "[]", `""`, "null", `{"target":1}`, `{"datapoints":[]}`, `{"target":"","datapoints":[]}`,
		`{"target":"a","datapoints":[[1,1]]}`, `{"target":"a","datapoints":[1]}`, `{"target":[[[[]]]],"datapoints":[]}`,
	} {
		body := []byte(repeat(element))
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		series, _ := decode(body)
		faultDuplicates(series)
		runtime.ReadMemStats(&after)
		if made := after.TotalAlloc - before.TotalAlloc; made > most*size {
			t.Errorf("%s: a body of %d bytes took %d, over %d times as much", element, len(body), made, most)
		}
	}
}

// TestDecodeOfTooManySeries: the bound is far above what anybody asks for.
func TestDecodeOfTooManySeries(t *testing.T) {
	const one = `{"target":"a","datapoints":[]}`
	for n, want := range map[int]Kind{mostSeries: "", mostSeries + 1: KindTooLarge} {
		series, err := decode([]byte("[" + strings.Repeat(one+",", n-1) + one + "]"))
		if want == "" && (err != nil || len(series) != n) || want != "" && (err == nil || err.kind != want) {
			t.Errorf("%d series: %d, %+v", n, len(series), err)
		}
	}
}

// TestDecodeKeepsFewOddElements: a body of numbers with one good series among
// them is an answer, and its oddities are told of a few times.
func TestDecodeKeepsFewOddElements(t *testing.T) {
	series, err := decode([]byte("[" + strings.Repeat("1,", 5000) + `{"target":"a","datapoints":[[1,2]]}` + "]"))
	if err != nil {
		t.Fatal(err.text)
	}
	if n := len(series); n != mostMisshapen+1 || series[n-1].Name != "a" || series[n-1].Fault != "" {
		t.Errorf("%d series, the last is %+v", n, series[n-1])
	}
}

// Points of different series must not share room to grow into.
func TestDecodeSeriesAreApart(t *testing.T) {
	series, err := decode([]byte(`[{"target":"a","datapoints":[[1,1]]},{"target":"b","datapoints":[[2,2]]}]`))
	if err != nil {
		t.Fatal(err.text)
	}
	_ = append(series[0].Points, Point{9, 9})
	if series[1].Points[0] != (Point{2, 2}) {
		t.Errorf("b has become %v", series[1].Points)
	}
}

func TestFaultDuplicates(t *testing.T) {
	series := []Series{{Name: "a"}, {Name: "b"}, {Name: "a"}, {Name: "1", Fault: "odd"}, {Name: "1"}, {Name: "", Fault: "empty"}, {Name: "a"}}
	faultDuplicates(series)
	for i, want := range []string{"3 series", "", "3 series", "odd", "2 series", "empty", "3 series"} {
		if got := series[i].Fault; want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("series %d: fault %q, wanted %q", i, got, want)
		}
	}
}

// FuzzDecode holds the decoder against encoding/json: what is JSON and a list
// must be read, point for point alike; what is not must be refused, but for the
// liberties that decode names.
func FuzzDecode(f *testing.F) {
	corpus.Add(f)
	files, err := filepath.Glob("testdata/render/*.json")
	if err != nil || len(files) == 0 {
		f.Fatal("no seeds", err)
	}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	for _, s := range []string{
		`[{"target":"a","datapoints":[[1e9999,1],[-0,2],[1.5e3,3.7],[null,4]]}]`, `[{"target":"\U0001f600","datapoints":[]}]`,
		`[{"target":"a","datapoints":[[NaN,1],[Infinity,2],[-Infinity,3]]}]`, `[{"target":1,"datapoints":{}},7,null,"x",[]]`,
		`[{"target":"a","target":null,"datapoints":[[1]],"datapoints":[[1,2]]}]`, `{"error":"x"}`, `null`, `[[[[`, "[\"\xff\"]",
		`[{"target":"a","datapoints":[[0.1234567890123456789,1],[123456789012345678901234567890,2],[9007199254740993,3]]}]`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		series, derr := decode(body)
		var raw []json.RawMessage
		valid := json.Unmarshal(body, &raw) == nil && raw != nil
		switch {
		case derr != nil && derr.text == "":
			t.Fatal("an error without a text")
		case derr != nil && valid && derr.kind != KindNotSeries:
			t.Fatalf("valid, but refused: %s", derr.text)
		case derr == nil && !valid && !libertyTaken(body, series):
			t.Fatal("not valid, but read")
		case derr != nil || !valid:
			return
		}
		if len(raw) != len(series) {
			t.Fatalf("%d series of %d", len(series), len(raw))
		}
		for i := range series {
			if err := agree(raw[i], series[i]); err != nil {
				t.Errorf("series %d %s: %v", i, raw[i], err)
			}
		}
	})
}

func libertyTaken(body []byte, series []Series) bool {
	for _, s := range series {
		if strings.Contains(s.Fault, "escape") || s.Fault == "it is no JSON object" {
			return true
		}
	}
	return strings.Contains(string(body), "NaN") || strings.Contains(string(body), "Infinity")
}

// agree reads one series with encoding/json and compares.
func agree(raw json.RawMessage, s Series) error {
	var fields map[string]json.RawMessage
	if json.Unmarshal(raw, &fields) != nil || fields == nil {
		if s.Fault == "" {
			return fmt.Errorf("no object, but no fault")
		}
		return nil
	}
	var name *string
	if json.Unmarshal(fields["target"], &name) != nil || name == nil || *name == "" {
		if s.Fault == "" {
			return fmt.Errorf("no name, but no fault")
		}
	} else if s.Name != *name {
		return fmt.Errorf("name %q, wanted %q", s.Name, *name)
	}
	want, sound := referencePoints(fields["datapoints"])
	if !sound {
		if s.Fault == "" || s.Points != nil {
			return fmt.Errorf("odd points, but fault %q and points %v", s.Fault, s.Points)
		}
		return nil
	}
	if name != nil && *name != "" && s.Fault != "" {
		return fmt.Errorf("sound, but fault %q", s.Fault)
	}
	if len(want) != len(s.Points) {
		return fmt.Errorf("%d points, wanted %d", len(s.Points), len(want))
	}
	count := func(points []Point) map[string]int {
		m := make(map[string]int)
		for _, p := range points {
			m[fmt.Sprint(p.Unix, " ", math.Float64bits(p.Value))]++
		}
		return m
	}
	if diff := cmp.Diff(count(want), count(s.Points)); diff != "" { // decode sorts
		return fmt.Errorf("points wanted (-), got (+): %s", diff)
	}
	for i := 1; i < len(s.Points); i++ {
		if s.Points[i-1].Unix > s.Points[i].Unix {
			return fmt.Errorf("not sorted")
		}
	}
	return nil
}

func referencePoints(raw json.RawMessage) ([]Point, bool) {
	var pairs [][]json.RawMessage
	if json.Unmarshal(raw, &pairs) != nil || pairs == nil {
		return nil, false
	}
	var points []Point
	for _, pair := range pairs {
		if len(pair) != 2 {
			return nil, false
		}
		var value, stamp any
		for i, into := range []*any{&value, &stamp} {
			d := json.NewDecoder(strings.NewReader(string(pair[i])))
			d.UseNumber()
			if d.Decode(into) != nil {
				return nil, false
			}
		}
		p := Point{Value: math.NaN()}
		if value != nil {
			number, ok := value.(json.Number)
			if !ok {
				return nil, false
			}
			if v, err := strconv.ParseFloat(number.String(), 64); err == nil {
				p.Value = v
			}
		}
		number, ok := stamp.(json.Number)
		if !ok {
			return nil, false
		}
		at, err := strconv.ParseFloat(number.String(), 64)
		if err != nil || math.Abs(at) > 1<<53 {
			return nil, false
		}
		p.Unix = int64(math.Floor(at))
		points = append(points, p)
	}
	return points, true
}

// tenThousand is an answer of 10,000 series with 10 points each.
func tenThousand() []byte {
	var b strings.Builder
	b.WriteByte('[')
	for i := range 10_000 {
		if i > 0 {
			b.WriteString(", ")
		}
		name := fmt.Sprintf("tcp-service.node-%d.datapoints.received", i)
		fmt.Fprintf(&b, `{"target": %q, "tags": {"name": %q}, "datapoints": [`, name, name)
		for j := range 9 {
			fmt.Fprintf(&b, "[%d.25, %d], ", 1000+i+j, 1795974160+j)
		}
		b.WriteString("[null, 1795974169]]}")
	}
	b.WriteByte(']')
	return []byte(b.String())
}

func BenchmarkDecode(b *testing.B) {
	body := tenThousand()
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		series, err := decode(body)
		if err != nil || len(series) != 10_000 {
			b.Fatal(len(series), err)
		}
		faultDuplicates(series)
	}
}

// For comparison: the shortest way with encoding/json that keeps null apart.
func BenchmarkEncodingJSON(b *testing.B) {
	body := tenThousand()
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		var all []struct {
			Target     json.RawMessage
			Datapoints [][2]*json.Number
		}
		if err := json.Unmarshal(body, &all); err != nil || len(all) != 10_000 {
			b.Fatal(len(all), err)
		}
	}
}
