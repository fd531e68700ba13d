package memgraphite

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// start is the second that the series of fill are about.
const start = 1_795_974_000

// fill adds five seconds of three servers: one sound, one with a gap, one
// that stopped before the window.
func fill(add func(path string, value float64, unix int64)) {
	for second := range int64(5) {
		add("tcp-service.node-10.datapoints.received", float64(1000+second), start+second)
		if second != 2 {
			add("tcp-service.node-2.datapoints.received", 0.5, start+second)
		}
	}
	add("tcp-service.node-3.datapoints.received", 7, start-100)
	add("other.thing", 1, start)
}

// ask sends one request and returns status and body.
func ask(t *testing.T, s *Store, method string, form url.Values) (int, string) {
	t.Helper()
	r := httptest.NewRequest(method, "/render?"+form.Encode(), nil)
	if method == http.MethodPost {
		r = httptest.NewRequest(method, "/render", strings.NewReader(form.Encode()))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

func store() *Store {
	s := New(func() time.Time { return time.Unix(start+5, 500) })
	fill(s.Add)
	return s
}

// series is one decoded series.
type series struct {
	Target     string
	Datapoints [][2]*json.Number
}

func itoa(n int64) string { return strconv.FormatInt(n, 10) }

func num(s string) *json.Number { n := json.Number(s); return &n }

func TestRender(t *testing.T) {
	at := func(values ...string) [][2]*json.Number {
		var points [][2]*json.Number
		for i, v := range values {
			p := [2]*json.Number{nil, num(itoa(start + int64(i)))}
			if v != "" {
				p[0] = num(v)
			}
			points = append(points, p)
		}
		return points
	}
	tests := map[string]struct {
		target []string
		want   []series
	}{
		"sorted as text, nulls for gaps and for the second in progress": {
			[]string{"tcp-service.*.datapoints.received"},
			[]series{
				{"tcp-service.node-10.datapoints.received", at("1000", "1001", "1002", "1003", "1004", "")},
				{"tcp-service.node-2.datapoints.received", at("0.5", "0.5", "", "0.5", "0.5", "")},
				{"tcp-service.node-3.datapoints.received", at("", "", "", "", "", "")},
			},
		},
		"integral of one server by alias": {
			[]string{"aliasByNode(integral(tcp-service.node-2.datapoints.received), 1)"},
			[]series{{"node-2", at("0.5", "1", "", "1.5", "2", "")}},
		},
		"targets one after the other": {
			[]string{`alias(other.thing,"b")`, "", `alias(other.thing,'a')`},
			[]series{{"b", at("1", "", "", "", "", "")}, {"a", at("1", "", "", "", "", "")}},
		},
		"no match":                  {[]string{"no.such.*", "sumSeries(no.such.*)"}, []series{}},
		"a star stays between dots": {[]string{"tcp-service.*"}, []series{}},
	}
	for name, test := range tests {
		for _, method := range []string{http.MethodGet, http.MethodPost} {
			t.Run(method+" "+name, func(t *testing.T) {
				status, body := ask(t, store(), method, url.Values{
					"target": test.target, "format": {"json"}, "from": {"-6s"}, "noCache": {"1"}})
				var got []series
				if err := json.Unmarshal([]byte(body), &got); err != nil || status != 200 {
					t.Fatalf("status %d, %v: %s", status, err, body)
				}
				if diff := cmp.Diff(test.want, got); diff != "" {
					t.Error(diff)
				}
			})
		}
	}
}

func TestRenderRefusesWhatItDoesNotKnow(t *testing.T) {
	tests := map[string]struct {
		form url.Values
		want string
	}{
		"function":           {url.Values{"target": {"movingAverage(a.b,5)"}}, `does not know the function "movingAverage"`},
		"format":             {url.Values{"format": {"png"}}, `format "png": only json is known`},
		"from":               {url.Values{"from": {"-5m"}}, `time "-5m" is not readable`},
		"from and until":     {url.Values{"from": {"now"}}, "same time"},
		"bracket":            {url.Values{"target": {"sumSeries(a.b"}}, "character 14: a comma or a closing bracket is missing"},
		"rest":               {url.Values{"target": {"a.b)"}}, `character 4: unexpected ")"`},
		"quote":              {url.Values{"target": {`alias(a.b,"x)`}}, "text without a closing"},
		"empty argument":     {url.Values{"target": {"sumSeries()"}}, "is missing"},
		"number as target":   {url.Values{"target": {"5"}}, "5 is not a target"},
		"alias without name": {url.Values{"target": {"alias(a.b,c)"}}, "alias needs a name in quotes"},
		"node not whole":     {url.Values{"target": {"aliasByNode(other.thing,0.5)"}}, "node 0.5 is not a whole number"},
		"no node":            {url.Values{"target": {"aliasByNode(a.b)"}}, "needs the numbers of nodes"},
		"no factor":          {url.Values{"target": {"scale(a.b)"}}, "scale needs a factor"},
		"no series":          {url.Values{"target": {"sumSeries(1)"}}, "sumSeries needs series"},
		"pattern":            {url.Values{"target": {"a.{b"}}, "pattern"},
		"pattern, bracket":   {url.Values{"target": {"a.[b"}}, "[ without ]"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if !test.form.Has("format") {
				test.form.Set("format", "json")
			}
			status, body := ask(t, store(), http.MethodPost, test.form)
			if status != http.StatusBadRequest || !strings.Contains(body, test.want) {
				t.Errorf("status %d, %q; want 400 with %q", status, body, test.want)
			}
		})
	}
	if status, _ := ask(t, store(), http.MethodPut, url.Values{"format": {"json"}}); status != http.StatusBadRequest {
		t.Errorf("PUT gave %d", status)
	}
}

func TestRenderStampsTheAnswer(t *testing.T) {
	w := httptest.NewRecorder()
	store().Handler().ServeHTTP(w, httptest.NewRequest("GET", "/render/?format=json&target=a", nil))
	if got, want := w.Header().Get("Date"), time.Unix(start+5, 0).UTC().Format(http.TimeFormat); got != want {
		t.Errorf("Date %q, want %q", got, want)
	}
	if body, _ := io.ReadAll(w.Body); string(body) != "[]" || w.Header().Get("Content-Type") != "application/json" {
		t.Errorf("body %q, content type %q", body, w.Header().Get("Content-Type"))
	}
}

func TestAddForgetsAfterTheRetention(t *testing.T) {
	now := time.Unix(start, 0)
	s := New(func() time.Time { return now })
	s.Add("a", 1, start)
	s.Add("a", 2, start) // the last one wins
	for _, step := range []struct {
		later int64
		want  string
	}{{0, "2"}, {retention - 1, "2"}, {retention, ""}} {
		now = time.Unix(start+step.later, 0)
		_, body := ask(t, s, "GET", url.Values{"target": {"a"}, "format": {"json"}, "from": {itoa(start - 1)}, "until": {itoa(start)}})
		if got := strings.Contains(body, "[2,"); got != (step.want != "") {
			t.Errorf("%d s later: %s", step.later, body)
		}
	}
}
