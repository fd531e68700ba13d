package memgraphite_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/haproxy-weighter/haproxy-weighter/test/graphiteproc"
	"github.com/haproxy-weighter/haproxy-weighter/test/memgraphite"
)

// The same datapoints go to a real carbon and into the store, the same
// questions to both, and the answers must be equal.
func TestAnswersAsARealGraphiteDoes(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	real, err := graphiteproc.Start(ctx, graphiteproc.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer real.Stop()
	store := memgraphite.New(nil)
	ours := httptest.NewServer(store.Handler())
	defer ours.Close()

	end := time.Now().Unix() - 5
	var lines strings.Builder
	add := func(path string, value float64, unix int64) {
		store.Add(path, value, unix)
		fmt.Fprintf(&lines, "%s %g %d\n", path, value, unix)
	}
	for second := end - 9; second <= end; second++ {
		add("tcp-service.node-1.datapoints.received", float64(second%100), second)
		add("tcp-service.node-10.datapoints.received", 2.5, second)
		if second%3 != 0 {
			add("tcp-service.node-2.datapoints.received", 1e6, second)
		}
	}
	add("tcp-service.node-3.datapoints.received", 7, end-60)
	add("tcp-service.node-3.datapoints.refused", 0, end)
	if err := real.Send(ctx, lines.String()); err != nil {
		t.Fatal(err)
	}

	window := url.Values{"format": {"json"}, "noCache": {"1"}, "from": {strconv.FormatInt(end-12, 10)}, "until": {strconv.FormatInt(end+2, 10)}}
	waitForPaths(ctx, t, real.URL, window, 5)
	for _, target := range []string{
		"tcp-service.*.datapoints.received",
		"tcp-service.node-?.datapoints.received",
		"tcp-service.node-[12].datapoints.received",
		"tcp-service.node-{1,10,99}.datapoints.re*",
		"tcp-service.{node-1,node-3}*.datapoints.{received,refused}",
		"tcp-service.node-1.datapoints.received",
		"tcp-service.*",
		"no.such",
		"aliasByNode(tcp-service.*.datapoints.received, 1)",
		"aliasByNode(tcp-service.*.datapoints.received,1,-1)",
		"aliasByNode(tcp-service.node-1.datapoints.received,9)",
		"integral(tcp-service.*.datapoints.received)",
		"aliasByNode(integral(tcp-service.*.datapoints.received),1)",
		"scale(tcp-service.node-1.datapoints.received,0.5)",
		"aliasByNode(scale(tcp-service.node-1.datapoints.received,10000000),1)",
		"sumSeries(tcp-service.*.datapoints.received)",
		"sum(tcp-service.node-1.datapoints.received,tcp-service.node-2.datapoints.received)",
		"averageSeries(tcp-service.node-{1,2,3}.datapoints.received)",
		`alias(sumSeries(tcp-service.node-3.datapoints.received),"nothing")`,
		"sumSeries(no.such.*)",
	} {
		form := url.Values{"target": {target}}
		for key, value := range window {
			form[key] = value
		}
		want, got := render(ctx, t, real.URL, form), render(ctx, t, ours.URL, form)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: - is the real Graphite, + is ours:\n%s", target, diff)
		}
	}
}

// waitForPaths waits until carbon has made the files of n series.
func waitForPaths(ctx context.Context, t *testing.T, base string, window url.Values, n int) {
	t.Helper()
	form := url.Values{"target": {"tcp-service.*.datapoints.*"}}
	for key, value := range window {
		form[key] = value
	}
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		list, _ := render(ctx, t, base, form).([]any)
		if len(list) == n {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("the real Graphite shows %d series, want %d", len(list), n)
		}
	}
}

// render returns the decoded answer, numbers as float64.
func render(ctx context.Context, t *testing.T, base string, form url.Values) any {
	t.Helper()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, base+"/render", strings.NewReader(form.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("%s: status %d, %v: %s", form["target"], response.StatusCode, err, body)
	}
	var answer any
	if err := json.Unmarshal(body, &answer); err != nil {
		t.Fatalf("%s: %v: %s", form["target"], err, body)
	}
	for _, one := range answer.([]any) { // tags depend on the version of graphite-web
		delete(one.(map[string]any), "tags")
	}
	return answer
}
