package main

import (
	"fmt"
	"math"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

// renderServer plays the render API with answers made beforehand, so that
// what is measured is the reader and not the writer.
type renderServer struct {
	listener net.Listener
	server   *http.Server
	done     chan struct{}
}

// body is an answer made beforehand, and made again before it gets old.
type body struct {
	set  int
	mu   sync.Mutex
	made time.Time
	text []byte
}

func (b *body) at(now time.Time) []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	if now.Sub(b.made) > 30*time.Second {
		b.made, b.text = now, []byte(renderBody(b.set, servers, now.Unix()))
	}
	return b.text
}

// serveRender answers any target "bench.N": 100 servers, ten points each. Under
// /0 and /1 the loads differ for every server.
func serveRender() (*renderServer, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	for set := range 2 {
		prepared := &body{set: set}
		mux.HandleFunc(fmt.Sprintf("/%d/render", set), func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.Write(prepared.at(time.Now()))
		})
	}
	s := &renderServer{listener: l, server: &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}, done: make(chan struct{})}
	go func() {
		defer close(s.done)
		s.server.Serve(l)
	}()
	return s, nil
}

func (s *renderServer) url(set int) string {
	return fmt.Sprintf("http://%s/%d", s.listener.Addr(), set)
}

func (s *renderServer) close() {
	s.server.Close()
	<-s.done
}

func renderBody(set, servers int, now int64) string {
	var b strings.Builder
	b.WriteByte('[')
	for i := range servers {
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, `{"target": "node-%d", "tags": {"name": "tcp-service.node-%d.datapoints.received"}, "datapoints": [`, i, i)
		// The second set is the first one read backwards: no server keeps its load.
		rank := i
		if set == 1 {
			rank = servers - 1 - i
		}
		load := 1000 + 500*math.Sin(float64(rank)/float64(servers)*3)*float64(rank)/float64(servers)
		for at := now - 90; at < now; at += 10 {
			fmt.Fprintf(&b, "[%.3f, %d], ", load, at)
		}
		fmt.Fprintf(&b, "[null, %d]]}", now)
	}
	b.WriteByte(']')
	return b.String()
}
