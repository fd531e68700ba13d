package graphite

import (
	"encoding/json"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// reading is how testdata/expected.json wants a series to be read.
type reading struct {
	Name          *string     `json:"name"` // nil: not a text
	Points        int         `json:"points"`
	Newest        *[2]float64 `json:"newest"`
	UnusableAtEnd int         `json:"unusable_at_end"`
	Infinite      int         `json:"infinite"`
}

type fixture struct {
	Status      int       `json:"status"`
	ContentType string    `json:"content_type"`
	Series      []reading `json:"series"`
}

func fixtures(t testing.TB) map[string]fixture {
	t.Helper()
	raw, err := os.ReadFile("testdata/expected.json")
	if err != nil {
		t.Fatal(err)
	}
	var all map[string]fixture
	if err := json.Unmarshal(raw, &all); err != nil {
		t.Fatal(err)
	}
	if len(all) < 60 {
		t.Fatalf("only %d fixtures", len(all))
	}
	return all
}

func body(t testing.TB, file string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", "render", file))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestRealBodies(t *testing.T) {
	for file, want := range fixtures(t) {
		t.Run(file, func(t *testing.T) {
			t.Parallel()
			s := serve(t, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", want.ContentType)
				if strings.HasSuffix(file, ".gz") {
					w.Header().Set("Content-Encoding", "gzip")
				}
				w.WriteHeader(want.Status)
				_, _ = w.Write(body(t, file))
			})
			answer, err := client(t, s.URL).Render(t.Context(), ask())
			if want.Series == nil {
				if err == nil {
					t.Fatalf("taken for an answer: %+v", answer.Series)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want.Series, readings(answer.Series)); diff != "" {
				t.Errorf("wanted (-), read (+):\n%s", diff)
			}
		})
	}
}

// readings puts what was decoded into the words of expected.json.
func readings(series []Series) []reading {
	all := []reading{}
	for _, s := range series {
		r := reading{Name: &s.Name, Points: len(s.Points), Infinite: s.OutOfRange}
		if strings.Contains(s.Fault, "not a text") {
			r.Name = nil
		}
		for i := len(s.Points) - 1; i >= 0; i-- {
			if p := s.Points[i]; !math.IsNaN(p.Value) {
				r.Newest = &[2]float64{p.Value, float64(p.Unix)}
				break
			}
			r.UnusableAtEnd++
		}
		all = append(all, r)
	}
	return all
}

// Which series of a real body may be used, and why not.
func TestRealBodiesFaults(t *testing.T) {
	tests := []struct{ file, fault string }{
		{"alias-number.json", "its name is 1, not a text"},
		{"alias-list.json", "its name is [], not a text"},
		{"err-node-out-of-range.json", "its name is empty"},
		{"dup-target.json", "2 series of this name"},
		{"few.json", ""},
		{"alias-injected.json", ""},
		{"alias-quotes.json", ""},
		{"name-unicode.json", ""},
	}
	for _, test := range tests {
		t.Run(test.file, func(t *testing.T) {
			s := serve(t, answerJSON(string(body(t, test.file))))
			answer, err := client(t, s.URL).Render(t.Context(), ask())
			if err != nil {
				t.Fatal(err)
			}
			if len(answer.Series) == 0 {
				t.Fatal("no series")
			}
			for _, s := range answer.Series {
				if test.fault == "" && s.Fault != "" || !strings.Contains(s.Fault, test.fault) {
					t.Errorf("series %q has fault %q, wanted %q", s.Name, s.Fault, test.fault)
				}
			}
		})
	}
}

// What each refused body is refused for.
func TestRealBodiesRefused(t *testing.T) {
	tests := []struct {
		file string
		kind Kind
		text string
	}{
		{"err-bad-arg.html", KindStatus, "KeyError: 'Invalid offset: xyz'"},
		{"err-missing-arg.html", KindStatus, "TypeError: scale() missing 1 required positional argument: 'factor'"},
		{"err-wrong-type.html", KindStatus, "ValueError: could not convert string to float: 'x'"},
		{"err-syntax-500.html", KindStatus, "pyparsing.exceptions.ParseException: , found ')'"},
		{"seriesByTag-bad.html", KindStatus, "ValueError: Invalid tagspec nonsense"},
		{"err-from.html", KindStatus, "Invalid parameters (Unknown day reference: garbage)"},
		{"err-too-many-params.html", KindStatus, "DATA_UPLOAD_MAX_NUMBER_FIELDS"},
		{"jsonp.json", KindNotJSON, "jsonp"},
		{"few-raw.txt", KindNotJSON, "text/plain"},
		{"few-pickle.pickle", KindNotJSON, "application/pickle"},
		{"few-dygraph.json", KindNotSeries, "not a list of series"},
		{"few-rickshaw.json", KindNotSeries, "no list of Graphite series"},
		{"inf-rickshaw.json", KindNotSeries, "no list of Graphite series"},
		{"inf-dygraph.json", KindNotJSON, "called JSON but is none"},
	}
	all := fixtures(t)
	for _, test := range tests {
		t.Run(test.file, func(t *testing.T) {
			f := all[test.file]
			s := serve(t, answerWith(f.Status, f.ContentType, string(body(t, test.file))))
			_, err := client(t, s.URL).Render(t.Context(), ask())
			checkError(t, err, test.kind, test.text)
		})
	}
}
