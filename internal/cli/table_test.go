package cli

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/haproxy-weighter/haproxy-weighter/internal/api"
)

func TestTable(t *testing.T) {
	build := func() *table {
		out := newTable("server", ">load", "state")
		out.add(cell{text: "s1"}, cell{text: "9"}, cell{"up", green})
		out.add(cell{text: "süd-10"}, cell{text: "1234"}, cell{text: ""})
		return out
	}
	for _, c := range []struct {
		name    string
		colours bool
		want    string
	}{
		{"plain", false, "" +
			"server  load  state\n" +
			"s1         9  up\n" +
			"süd-10  1234\n"},
		{"coloured", true, "" +
			"\x1b[1mserver\x1b[0m  \x1b[1mload\x1b[0m  \x1b[1mstate\x1b[0m\n" +
			"s1         9  \x1b[32mup\x1b[0m\n" +
			"süd-10  1234\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out strings.Builder
			if err := build().write(&out, c.colours); err != nil {
				t.Fatal(err)
			}
			// Trailing blanks of a coloured last column are cut all the same.
			if d := cmp.Diff(c.want, out.String()); d != "" {
				t.Errorf("table (-want +got):\n%s", d)
			}
		})
	}
}

// TestTableInParts: a table wider than the terminal is printed in parts, each
// with the names of the rows.
func TestTableInParts(t *testing.T) {
	build := func(keys int) *table {
		out := newTable("backend", "socket", ">age", "what is wrong", "orders")
		out.keys = keys
		out.add(cell{text: "in"}, cell{text: "a"}, cell{text: "9"}, cell{text: "nothing"}, cell{text: "-"})
		out.add(cell{text: "in"}, cell{text: "b"}, cell{text: "10"}, cell{text: "held"}, cell{"1 pin", bold})
		return out
	}
	const whole = "" +
		"backend  socket  age  what is wrong  orders\n" +
		"in       a         9  nothing        -\n" +
		"in       b        10  held           1 pin\n"
	for _, c := range []struct {
		name       string
		keys, most int
		want       []string
	}{
		{"it fits", 2, 43, []string{whole}},
		{"no terminal", 2, 0, []string{whole}},
		{"of one piece", 0, 20, []string{whole}},
		{"two parts", 2, 42, []string{
			"backend  socket  age  what is wrong\nin       a         9  nothing\nin       b        10  held\n",
			"backend  socket  orders\nin       a       -\nin       b       1 pin\n",
		}},
		{"narrower than a column", 2, 10, []string{
			"backend  socket  age\nin       a         9\nin       b        10\n",
			"backend  socket  what is wrong\nin       a       nothing\nin       b       held\n",
			"backend  socket  orders\nin       a       -\nin       b       1 pin\n",
		}},
	} {
		var got []string
		for _, part := range build(c.keys).parts(c.most) {
			var out strings.Builder
			if err := part.write(&out, false); err != nil {
				t.Fatal(err)
			}
			got = append(got, out.String())
		}
		if d := cmp.Diff(c.want, got); d != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, d)
		}
	}
}

func TestNumbers(t *testing.T) {
	half := 0.5
	for _, c := range []struct{ got, want string }{
		{number(0), "0"},
		{number(17.5), "17.5"},
		{number(3.14159), "3.142"},
		{number(123456.7), "123457"},
		{number(0.00012345), "0.0001234"},
		{number(123456789012345), "123456789012345"},
		{number(1.7976931348623157e308), "1.798e+308"},
		{number(5e-324), "4.941e-324"},
		{seconds(0.04), "0s"},
		{seconds(1.26), "1.3s"},
		{seconds(90.4), "1m30s"},
		{seconds(-61), "-1m1s"},
		{percent(0.125), "12.5%"},
		{maybe(nil, number), "-"},
		{maybe(&half, percent), "50.0%"},
	} {
		if c.got != c.want {
			t.Errorf("got %q, want %q", c.got, c.want)
		}
	}
}

// TestTableOfHostileNames: a series may be called anything.
func TestTableOfHostileNames(t *testing.T) {
	out := newTable("series", "server")
	out.add(cell{text: "s1\x1b[31mEVIL\n\t\r"}, cell{text: "a"})
	out.add(cell{text: "süd\u202e\u009b\u0085\x00"}, cell{text: "b"})
	var got strings.Builder
	if err := out.write(&got, false); err != nil {
		t.Fatal(err)
	}
	want := "" +
		"series                     server\n" +
		"s1\\x1b[31mEVIL\\n\\t\\r       a\n" +
		"süd\\u202e\\u009b\\u0085\\x00  b\n"
	if d := cmp.Diff(want, got.String()); d != "" {
		t.Errorf("table (-want +got):\n%s", d)
	}
}

// TestJSONOfHostileNames: --json is printed on terminals too, and is still the
// same JSON.
func TestJSONOfHostileNames(t *testing.T) {
	const name = "süd\x1b[31m\u009b31m\u0085\u202e\x7f\x00\n\U000e0001\U0001f600"
	var out strings.Builder
	p := &Program{Stdout: &out}
	if err := p.writeJSON([]string{name}); err != nil {
		t.Fatal(err)
	}
	want := "[\n  \"süd\\u001b[31m\\u009b31m\\u0085\\u202e\\u007f\\u0000\\n\\udb40\\udc01😀\"\n]\n"
	if d := cmp.Diff(want, out.String()); d != "" {
		t.Errorf("JSON (-want +got):\n%s", d)
	}
	var back []string
	if err := json.Unmarshal([]byte(out.String()), &back); err != nil || back[0] != name {
		t.Errorf("it is read back as %q, %v", back, err)
	}
}

// TestMessagesOfHostileNames: errors and hints quote what a daemon answers.
func TestMessagesOfHostileNames(t *testing.T) {
	socket := fakeDaemon(t, answers{"GET /api/v1/status": api.Problem{Error: "no\x1b[2J\u009b2J", Do: "do\x1b[2J\u009b2J\nx"}})
	_, _, stderr := command(t, "status", "--control", socket)
	want := "haproxy-weighter: no\\x1b[2J\\u009b2J\nhaproxy-weighter: hint: do\\x1b[2J\\u009b2J\\nx\n"
	if d := cmp.Diff(want, stderr); d != "" {
		t.Errorf("stderr (-want +got):\n%s", d)
	}
}
