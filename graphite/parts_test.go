package graphite

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// parts is a server that gives one series a target and records the forms.
type parts struct {
	forms []url.Values
	fail  int // the part, from 1, that is answered 400
}

func (p *parts) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if err := r.ParseForm(); err != nil {
		http.Error(w, err.Error(), 400)
		return
	}
	p.forms = append(p.forms, r.Form)
	if len(p.forms) == p.fail {
		http.Error(w, "no", 400)
		return
	}
	var b strings.Builder
	for i, target := range r.Form["target"] {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"target": %q, "datapoints": [[1, 2]]}`, target)
	}
	answerJSON("["+b.String()+"]")(w, r)
}

func TestRenderSplitsLongRequests(t *testing.T) {
	targets := func(n, length int) []string {
		out := make([]string, n)
		for i := range out {
			out[i] = fmt.Sprintf("t%d.%s", i, strings.Repeat("x", length))
		}
		return out
	}
	tests := []struct {
		name, method, query string
		targets             []string
		until               time.Duration
		parts               []int // targets in each
	}{
		{"fits", "POST", "", targets(997, 1), 0, []int{997}},
		{"one too many", "POST", "", targets(998, 1), 0, []int{997, 1}},
		{"until counts", "POST", "", targets(997, 1), time.Minute, []int{996, 1}},
		{"the url's parameters count", "POST", "?a=1&b=2&b=3", targets(997, 1), 0, []int{994, 3}},
		{"three", "POST", "", targets(2500, 1), 0, []int{997, 997, 506}},
		{"long form", "POST", "", targets(30, 100_000), 0, []int{19, 11}},
		{"long address", "GET", "", targets(30, 1000), 0, []int{7, 7, 7, 7, 2}},
		{"one long target", "GET", "", targets(2, 10_000), 0, []int{1, 1}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			p := &parts{}
			s := serve(t, p.ServeHTTP)
			c := client(t, s.URL+test.query, func(c *Config) { c.Method = test.method })
			answer, err := c.Render(t.Context(), Request{Targets: test.targets, Window: time.Minute, Until: test.until})
			if err != nil {
				t.Fatal(err)
			}
			var got []int
			for _, form := range p.forms {
				got = append(got, len(form["target"]))
				fields := 0
				for _, values := range form {
					fields += len(values)
				}
				if fields > 1000 {
					t.Errorf("%d fields in one request", fields)
				}
			}
			if diff := cmp.Diff(test.parts, got); diff != "" {
				t.Errorf("parts wanted (-), got (+):\n%s", diff)
			}
			for i, s := range answer.Series {
				if s.Name != test.targets[i] || s.Fault != "" {
					t.Fatalf("series %d is %.20q %s", i, s.Name, s.Fault)
				}
			}
			if len(answer.Series) != len(test.targets) {
				t.Errorf("%d series of %d", len(answer.Series), len(test.targets))
			}
		})
	}
}

func TestRenderPartsAreAllOrNothing(t *testing.T) {
	targets := make([]string, 1500)
	for i := range targets {
		targets[i] = fmt.Sprint("t", i)
	}
	p := &parts{fail: 2}
	s := serve(t, p.ServeHTTP)
	answer, err := client(t, s.URL).Render(t.Context(), Request{Targets: targets, Window: time.Minute})
	if answer != nil {
		t.Error("a part is given for the whole")
	}
	checkError(t, err, KindStatus, "part 2 of 2")

	targets[1400] = targets[0] // duplicates are found across parts
	p = &parts{}
	s = serve(t, p.ServeHTTP)
	answer, err = client(t, s.URL).Render(t.Context(), Request{Targets: targets, Window: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	for i, s := range answer.Series {
		if want := i == 0 || i == 1400; (s.Fault != "") != want {
			t.Errorf("series %d %q has fault %q", i, s.Name, s.Fault)
		}
	}
}
