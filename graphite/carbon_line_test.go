package graphite

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/haproxy-weighter/haproxy-weighter/test/corpus"
)

func TestCarbonAddresses(t *testing.T) {
	for written, want := range map[string]CarbonAddress{
		"carbon.example.com:2003":       {HostPort: "carbon.example.com:2003"},
		"tcp://10.1.2.3:2003":           {HostPort: "10.1.2.3:2003"},
		"tls://[2001:db8::1]:20030":     {HostPort: "[2001:db8::1]:20030", TLS: true},
		"tls://my_carbon-1.example.:99": {HostPort: "my_carbon-1.example.:99", TLS: true},
	} {
		got, err := ParseCarbonAddress(written)
		if err != nil || got != want {
			t.Errorf("%s: %+v, %v", written, got, err)
			continue
		}
		if again, err := ParseCarbonAddress(got.String()); err != nil || again != got {
			t.Errorf("%s is printed as %s, which is %+v, %v", written, got, again, err)
		}
	}
	for _, written := range []string{"", "carbon", ":2003", "carbon:", "carbon:0", "carbon:65536", "carbon:line", "udp://carbon:2003",
		"tls://carbon", "::1:2003", "car bon:2003", "carbon/x:2003", "tcp:carbon:2003"} {
		if got, err := ParseCarbonAddress(written); err == nil || strings.Contains(err.Error(), "carbon:") {
			t.Errorf("%q: %+v, %v", written, got, err)
		}
	}
	for written, want := range map[string]bool{"localhost:1": true, "127.8.9.1:1": true, "[::1]:1": true, "10.1.2.3:1": false, "carbon:1": false} {
		if a, err := ParseCarbonAddress(written); err != nil || a.Loopback() != want {
			t.Errorf("%s: loopback %v, %v", written, a.Loopback(), err)
		}
	}
}

var stamp = time.Unix(1795974518, 700e6)

func TestMetricLines(t *testing.T) {
	for _, c := range []struct {
		value float64
		want  string
	}{
		{0, "0"}, {128, "128"}, {1e6, "1000000"}, {0.25, "0.25"}, {-3.5, "-3.5"}, {1.0 / 3, "0.3333333333333333"},
		{1e15, "1e+15"}, {math.MaxFloat64, "1.7976931348623157e+308"}, {1e-9, "1e-09"}, {math.Copysign(0, -1), "-0"},
	} {
		m := Metric{Name: "a.b-c_D9", Value: c.value, Time: stamp}
		if err := m.check(); err != nil {
			t.Errorf("%v: %v", c.value, err)
		}
		if got, want := string(m.appendLine(nil)), "a.b-c_D9 "+c.want+" 1795974518\n"; got != want {
			t.Errorf("%v: got %q, want %q", c.value, got, want)
		}
	}
}

// TestMetricsThatCannotBeLines: each of these lines would be lost, close the
// connection, or poison sums.
func TestMetricsThatCannotBeLines(t *testing.T) {
	good := Metric{Name: "a.b", Value: 1, Time: stamp}
	with := func(f func(*Metric)) Metric { m := good; f(&m); return m }
	bad := []Metric{
		with(func(m *Metric) { m.Value = math.NaN() }),
		with(func(m *Metric) { m.Value = math.Inf(1) }),
		with(func(m *Metric) { m.Value = math.Inf(-1) }),
		with(func(m *Metric) { m.Time = time.Time{} }),
		with(func(m *Metric) { m.Time = time.Unix(0, 0) }),
		with(func(m *Metric) { m.Time = time.Unix(math.MaxUint32+1, 0) }),
		with(func(m *Metric) { m.Name = strings.Repeat("a", maxComponent+1) }),
		with(func(m *Metric) { m.Name = strings.Repeat("ab.", maxName/3) + "abc" }),
	}
	for _, name := range []string{"", ".", "a..b", ".a", "a.", "a b", "a\tb", "a\nb", "a;t=v", "a/b", "a*", "a{b}", "ä", "a\xff", "a\x00"} {
		bad = append(bad, with(func(m *Metric) { m.Name = name }))
	}
	s := sender(t, func(*SenderConfig) {})
	for _, m := range bad {
		if err := s.Send([]Metric{m, good}); err == nil || len(m.Name) > 1 && strings.Contains(err.Error(), m.Name) {
			t.Errorf("%q %v %v: error %v", m.Name, m.Value, m.Time, err)
		}
	}
	want := SenderStats{Address: "carbon:2003", Refused: uint64(len(bad)), Queued: len(bad)}
	if diff := cmp.Diff(want, s.Stats()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestComponents(t *testing.T) {
	for text, want := range map[string]string{
		"web-1": "web-1", "web.1": "web_1", "web_1": "web_1", "web:1": "web_1", "": "_", "é": "_", "a b/c": "a_b_c",
		strings.Repeat("x", 200): strings.Repeat("x", 200),
		strings.Repeat("x", 201): strings.Repeat("x", 191) + "-ce0b7927",
	} {
		if got := CarbonComponent(text); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
	if a, b := CarbonHashed("web_1", "web.1"), CarbonHashed("web_1", "web:1"); a == b || len(a) != len("web_1")+hashLength {
		t.Errorf("%s, %s", a, b)
	}
}

// FuzzCarbonComponent: whatever text it is, the component can be sent.
func FuzzCarbonComponent(f *testing.F) {
	corpus.Add(f)
	f.Add("web.1")
	f.Add("\xff\x00 ;a=b\n")
	f.Add(strings.Repeat("ü", 300))
	f.Fuzz(func(t *testing.T, text string) {
		for _, c := range []string{CarbonComponent(text), CarbonHashed(CarbonComponent(text), text)} {
			if err := CheckCarbonName("a." + c); err != nil || strings.Contains(c, ".") {
				t.Errorf("%q: %q: %v", text, c, err)
			}
		}
	})
}
