package scripts

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// newGraphite serves /render with what the file "series" in dir says at the
// time of the request. Each line of it is a series:
//
//	NAME VALUE [AGE]
//
// with its newest data point AGE seconds (1 unless given) ago and a value
// every 10 s before that; VALUE may be null. Two lines are not series:
//
//	status CODE     answer with this HTTP status and a page of HTML, at other paths
//	                too when it is the first line
//	clock SECONDS   be that far ahead of the real time
//
// Without the file nothing matches: [].
func newGraphite(dir string) *httptest.Server {
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, err := os.ReadFile(filepath.Join(dir, "series"))
		if r.URL.Path != "/render" && !strings.HasPrefix(string(text), "status ") {
			http.NotFound(w, r)
			return
		}
		if err != nil && !os.IsNotExist(err) {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		answer(w, string(text))
	}))
}

func answer(w http.ResponseWriter, text string) {
	now := time.Now()
	var series []string
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		switch {
		case len(words) == 0:
		case words[0] == "status":
			w.Header().Set("Content-Type", "text/html")
			w.WriteHeader(number(words[1]))
			fmt.Fprint(w, "<html>no</html>")
			return
		case words[0] == "clock":
			now = now.Add(time.Duration(number(words[1])) * time.Second)
		default:
			age := 1
			if len(words) > 2 {
				age = number(words[2])
			}
			series = append(series, pointsOf(words[0], words[1], now.Unix()-int64(age)))
		}
	}
	w.Header().Set("Date", now.UTC().Format(http.TimeFormat))
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, "[%s]", strings.Join(series, ", "))
}

// pointsOf is a series of half a minute.
func pointsOf(name, value string, newest int64) string {
	var points []string
	for back := int64(30); back >= 0; back -= 10 {
		points = append(points, fmt.Sprintf("[%s, %d]", value, newest-back))
	}
	return fmt.Sprintf(`{"target": %q, "tags": {"name": %q}, "datapoints": [%s]}`, name, name, strings.Join(points, ", "))
}

// number reads a number of a script, which is part of this test.
func number(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		panic("file series: " + err.Error())
	}
	return n
}
