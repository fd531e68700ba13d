// Command generate writes the Grafana dashboards that ship, from one
// description, so that both look and are worded alike:
//
//	go run ./packaging/grafana/generate packaging/grafana
//
// The JSON files are what ships; a test holds that they are what this program
// writes, and test/metrics that every query in them has an answer.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

// files are the dashboards by the name of their file.
var files = map[string]func() *dashboard{
	"haproxy-weighter-prometheus.json": prometheus,
	"haproxy-weighter-graphite.json":   graphite,
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: generate FOLDER")
		os.Exit(2)
	}
	for name, build := range files {
		text, err := encode(build())
		if err == nil {
			err = os.WriteFile(filepath.Join(os.Args[1], name), text, 0o644)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "generate:", err)
			os.Exit(1)
		}
	}
}

// encode gives the JSON as it is stored: indented, and with < and > as they are.
func encode(d *dashboard) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	err := e.Encode(d)
	return b.Bytes(), err
}
