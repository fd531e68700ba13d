package graphite_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/haproxy-weighter/haproxy-weighter/graphite"
)

// One render for all servers, then one number for each, or the reason why not.
func Example() {
	// A stand-in for http://graphite.example.com.
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Date", time.Unix(1795974170, 0).UTC().Format(http.TimeFormat))
		fmt.Fprint(w, `[
			{"target": "node-1", "datapoints": [[1020.5, 1795974150], [1001.0, 1795974160], [null, 1795974170]]},
			{"target": "node-2", "datapoints": [[null, 1795974150], [null, 1795974160], [null, 1795974170]]},
			{"target": 3, "datapoints": [[7.0, 1795974160]]}]`)
	}))
	defer server.Close()

	client, err := graphite.NewClient(graphite.Config{URL: server.URL})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	answer, err := client.Render(context.Background(), graphite.Request{
		Targets: []string{"aliasByNode(tcp-service.*.datapoints.received, 1)"},
		Window:  5 * time.Minute,
	})
	if err != nil {
		log.Fatal(err) // says what happened and what to do, without secrets
	}
	for _, series := range answer.Series {
		sample, err := series.Reduce(graphite.Last, answer.Now, 90*time.Second)
		if err != nil {
			fmt.Printf("%s: %v\n", series.Name, err)
			continue
		}
		fmt.Printf("%s: %v, %v old\n", series.Name, sample.Value, sample.Age)
	}
	// Output:
	// node-1: 1001, 10s old
	// node-2: all 3 of its data points are null
	// 3: its name is 3, not a text: check alias() in the target
}

func ExampleTargetWarnings() {
	for _, w := range graphite.TargetWarnings("aliasByNode(keepLastValue(a.*.load), 1") {
		fmt.Println(w)
	}
	// Output:
	// keepLastValue fills gaps with the last value under new stamps: a dead server looks alive. Leave it out; the newest usable point is looked for anyway
	// a ( is not closed: Graphite may answer with an empty list, as if nothing matched
}
