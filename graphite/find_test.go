package graphite

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestFind(t *testing.T) {
	for _, tt := range []struct {
		name, body string
		want       []Found
	}{
		{"graphite-web", `[{"allowChildren": 1, "expandable": 1, "leaf": 0, "text": "node-1", "id": "a.*.node-1"},
			{"allowChildren": 0, "expandable": 0, "leaf": 1, "text": "load", "id": "a.*.load", "context": {}}]`,
			[]Found{{"node-1", false}, {"load", true}}},
		{"booleans", `[{"leaf": true, "text": "x", "id": "x"}, {"leaf": false, "text": "y", "id": "y"}]`, []Found{{"x", true}, {"y", false}}},
		{"decoded in text only", `[{"leaf": 1, "text": "a b", "id": "p.a+b"}]`, []Found{{"a+b", true}}},
		{"no id", `[{"leaf": 1, "text": "a"}]`, []Found{{"a", true}}},
		{"no name, and all", `[{"leaf": 1}, {"text": "*", "id": "a.*", "leaf": 0}]`, []Found{}},
		{"hostile", `[{"leaf": 1, "text": "x", "id": "p.\"]\n[[\u0000x"}]`, []Found{{"\"]\n[[\x00x", true}}},
		{"nothing", `[]`, []Found{}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			asked := make(chan *http.Request, 1)
			s := serve(t, func(w http.ResponseWriter, r *http.Request) {
				_ = r.ParseForm()
				asked <- r
				answerWith(200, "application/json", tt.body)(w, r)
			})
			got, err := client(t, s.URL+"/some%2Fkey/graphite?tenant=7").Find(t.Context(), "a.*&x=y.*")
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(tt.want, got); d != "" {
				t.Errorf("wanted (-), got (+):\n%s", d)
			}
			r := <-asked
			want := url.Values{"query": {"a.*&x=y.*"}, "format": {"treejson"}, "tenant": {"7"}}
			if d := cmp.Diff(want, r.Form); d != "" || r.URL.EscapedPath() != "/some%2Fkey/graphite/metrics/find" {
				t.Errorf("asked at %s for\n%s", r.URL.EscapedPath(), d)
			}
		})
	}
}

func TestFindAddress(t *testing.T) {
	for base, want := range map[string]string{
		"http://g":                "http://g/metrics/find",
		"http://g/":               "http://g/metrics/find",
		"http://g:8080/graphite":  "http://g:8080/graphite/metrics/find",
		"http://g/a%2Fb/c/?t=a&u": "http://g/a%2Fb/c/metrics/find?t=a&u",
	} {
		e := client(t, base).endpoint.beside("metrics", "find")
		if got := e.url.String(); got != want {
			t.Errorf("%s: %s, wanted %s", base, got, want)
		}
	}
}

func TestFindFails(t *testing.T) {
	for _, tt := range []struct {
		name  string
		serve http.HandlerFunc
		kind  Kind
		says  string
	}{
		{"HTML", answerWith(200, "text/html", "<html>log in</html>"), KindNotJSON, "login page"},
		{"401", answerWith(401, "text/plain", "no"), KindStatus, "check username and password_file"},
		{"404", answerWith(404, "text/html", "<h1>Not Found</h1>"), KindStatus, "404"},
		{"a series", answerWith(200, "application/json", `{"metrics": []}`), KindNotSeries, "not a list"},
		{"null", answerWith(200, "application/json", `null`), KindNotSeries, "not a list"},
		{"names", answerWith(200, "application/json", `["a"]`), KindNotSeries, "not a list"},
		{"half", answerWith(200, "application/json", `[{"text": "a"`), KindNotJSON, "no whole JSON"},
		{"empty", answerWith(200, "application/json", ``), KindEmpty, "empty body"},
		{"redirect", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/login", http.StatusFound) }, KindRedirect, "not followed"},
		{"large", answerWith(200, "application/json", `["`+strings.Repeat("a", 5000)+`"]`), KindTooLarge, "longer than"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := serve(t, tt.serve)
			got, err := client(t, s.URL, func(c *Config) { c.MaxBody = 4000 }).Find(t.Context(), "*")
			checkError(t, err, tt.kind, tt.says, "graphite at "+s.URL)
			if got != nil {
				t.Errorf("and found %v", got)
			}
		})
	}
	t.Run("carbonapi's nothing", func(t *testing.T) {
		s := serve(t, answerWith(404, "application/json", `[]`))
		if got, err := client(t, s.URL).Find(t.Context(), "*"); err != nil || len(got) != 0 {
			t.Errorf("%v, %v", got, err)
		}
	})
	t.Run("patterns", func(t *testing.T) {
		s := serve(t, answerWith(200, "application/json", `[]`))
		for _, pattern := range []string{"", strings.Repeat("x", maxFindPattern+1), "a\xff"} {
			_, err := client(t, s.URL).Find(t.Context(), pattern)
			checkError(t, err, KindRequest, "pattern")
		}
	})
	t.Run("hangs", func(t *testing.T) {
		s := serve(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
		_, err := client(t, s.URL, func(c *Config) { c.Method, c.Timeout = http.MethodGet, 50*time.Millisecond }).Find(t.Context(), "*")
		checkError(t, err, KindTimeout, "within 50ms")
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err = client(t, s.URL).Find(ctx, "*")
		checkError(t, err, KindCanceled)
	})
}
