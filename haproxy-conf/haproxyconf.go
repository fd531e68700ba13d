// Package haproxyconf has the files of HAProxy's that use what haproxy-weighter
// tells: pairs of a haproxy.cfg and a file for its SPOE filter, to copy from.
//
// Each folder here holds one example as it is with [Generic]: a
// configuration that HAProxy 2.6 and later load as it stands. Render gives the
// same with the names and addresses of a user.
package haproxyconf

import (
	"embed"
	"fmt"
	"path"
	"strings"
	"text/template"
)

//go:embed template
var templates embed.FS

// Example is one way to use haproxy-weighter from haproxy.cfg.
type Example struct {
	Name    string // also the folder's
	Summary string // one line, for operators
	// Backends is how many backends of weighter.toml the example is about: 1, or 2.
	// One that is about 1 may still have a second, which needs no weights.
	Backends int
	// SPOE tells whether HAProxy asks the agent, so that weighter.toml needs
	// spoa.listen. Without, it needs backend.maps.
	SPOE bool
}

// Examples lists all of them, the one most wanted first.
func Examples() []Example {
	return []Example{
		{"tcp-pick", "long-lived TCP connections, each to a server that haproxy-weighter draws", 1, true},
		{"http-server", "HTTP: sticky clients leave a server that is hot; loads in headers", 1, true},
		{"choose", "two backends: the second takes new connections while the first is loaded", 2, true},
		{"shed", "new connections go elsewhere, or are closed, while every server is loaded", 1, true},
		{"sni-group", "TLS passed through: backend by the name in the handshake, server drawn", 2, true},
		{"map", "HTTP as http-server, with loads read from a map: no round trip", 1, false},
	}
}

// Find returns the example of that name; false when there is none.
func Find(name string) (Example, bool) {
	for _, e := range Examples() {
		if e.Name == name {
			return e, true
		}
	}
	return Example{}, false
}

// Server is a line "server" of a backend.
type Server struct {
	Name    string
	Address string // host:port
}

// Values is what differs between users. Every field must be set; begin with Generic.
type Values struct {
	Backend string // whose servers get weights: a backend.name of weighter.toml
	Spare   string // the second one, for examples with two in haproxy.cfg
	// Servers and SpareServers of the two backends; one or more.
	Servers, SpareServers []Server
	// Bind is where the frontend listens, as on a line "bind".
	Bind string
	// Agent is where HAProxy finds the SPOE agent, as on a line "server":
	// host:port, or unix@/path.
	Agent string
	// StatsSocket is the runtime socket, as on a line "stats socket". Empty leaves
	// the line out.
	StatsSocket string
	// Log is where HAProxy logs to, as on a line "log".
	Log string
	// Dir is the folder that the files will be in.
	Dir string
	// LoadMap and WeightMap are the paths of the maps from BACKEND/SERVER, as in
	// backend.maps of weighter.toml.
	LoadMap, WeightMap string
	// Limit is the load a server from which on one of the examples acts, in the
	// target's unit. HardLimit is the one for closing connections.
	Limit, HardLimit int64
	// Hot is a server's load over the mean, in thousandths, from which on its
	// sticky clients are let go.
	Hot int64
}

// Generic is what the folders were rendered with: ready to load, and to edit.
func Generic() Values {
	return Values{
		Backend:      "ingest",
		Spare:        "spare",
		Servers:      []Server{{"s1", "192.0.2.11:8000"}, {"s2", "192.0.2.12:8000"}, {"s3", "192.0.2.13:8000"}},
		SpareServers: []Server{{"x1", "192.0.2.21:8000"}, {"x2", "192.0.2.22:8000"}},
		Bind:         ":8000",
		Agent:        "127.0.0.1:9002",
		StatsSocket:  "/run/haproxy/admin.sock",
		Log:          "/dev/log",
		Dir:          "/etc/haproxy",
		LoadMap:      "/etc/haproxy/weighter-load.map",
		WeightMap:    "/etc/haproxy/weighter-weight.map",
		Limit:        5000,
		HardLimit:    10000,
		Hot:          1500,
	}
}

// The names of the files.
const (
	configFile = "haproxy.cfg"
	spoeFile   = "weighter.spoe"
)

// SPOEFile is the path of the SPOE filter's file.
func (v Values) SPOEFile() string { return path.Join(v.Dir, spoeFile) }

// AgentIsUnix tells whether the agent has a unix socket.
func (v Values) AgentIsUnix() bool { return strings.HasPrefix(v.Agent, "unix@") }

// File is a rendered file.
type File struct {
	Name string // without a folder
	Text string // ends with a newline
}

// Render gives the files of an example, haproxy.cfg first. Values are not checked:
// that is for HAProxy. The error is for an example that there is not.
func Render(name string, v Values) ([]File, error) {
	e, ok := Find(name)
	if !ok {
		return nil, fmt.Errorf("there is no example %q", name)
	}
	t, err := template.ParseFS(templates, "template/*.tmpl")
	if err != nil {
		return nil, err
	}
	files := []File{{Name: configFile, Text: name + ".cfg.tmpl"}}
	if e.SPOE {
		files = append(files, File{spoeFile, name + ".spoe.tmpl"})
	} else {
		files = append(files, File{path.Base(v.LoadMap), "load.map.tmpl"}, File{path.Base(v.WeightMap), "weight.map.tmpl"})
	}
	for i := range files {
		var text strings.Builder
		if err := t.ExecuteTemplate(&text, files[i].Text, v); err != nil {
			return nil, err
		}
		files[i].Text = text.String()
	}
	return files, nil
}
