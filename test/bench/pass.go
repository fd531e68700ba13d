package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/haproxy-weighter/haproxy-weighter/graphite"
	"github.com/haproxy-weighter/haproxy-weighter/internal/balancer"
	"github.com/haproxy-weighter/haproxy-weighter/internal/config"
	"github.com/haproxy-weighter/haproxy-weighter/internal/haproxy"
	"github.com/haproxy-weighter/haproxy-weighter/weighting"
)

// pass runs the daemon's own loop for every backend until each has written
// its weights once, and prints the cost.
func pass(socket, url, record string) error {
	text := configText(socket, url, backends, "1h")
	c, err := config.Parse("bench.toml", []byte(text), os.LookupEnv)
	if err != nil {
		return err
	}
	client, err := graphite.NewClient(c.Graphite)
	if err != nil {
		return err
	}
	options := haproxy.Options{}
	if record != "" {
		file, err := os.Create(record)
		if err != nil {
			return err
		}
		defer file.Close()
		options.Dial = (&recorder{socket: socket, file: file}).dial
	}
	plane := haproxy.NewClient(c.HAProxy.Sockets[0], options)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	began := time.Now()
	var running errgroup.Group
	var all []*balancer.Balancer
	for _, b := range c.Backends {
		one := balancer.New(balancer.Options{
			Backend: b, Renderer: client,
			Planes: []balancer.Plane{{Socket: socket, DataPlane: plane}},
			Logger: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError})),
		})
		all = append(all, one)
		running.Go(func() error { return one.Run(ctx) })
	}
	err = written(ctx, all)
	took := time.Since(began)
	cancel()
	if err := errors.Join(err, running.Wait()); err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(cost{Seconds: took.Seconds()})
}

// written waits until every backend has written its weights and read them back.
func written(ctx context.Context, all []*balancer.Balancer) error {
	poll := time.NewTicker(time.Millisecond)
	defer poll.Stop()
	for _, b := range all {
		for {
			tables := b.Tables()
			if len(tables) > 0 && tables[0].Fault != "" {
				return fmt.Errorf("%s: %s", tables[0].Backend, tables[0].Fault)
			}
			if len(tables) > 0 && tables[0].Verdict == weighting.Write && tables[0].Changes > 0 {
				break
			}
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-poll.C:
			}
		}
	}
	return nil
}

func configText(socket, url string, backends int, interval string) string {
	text := fmt.Sprintf("[haproxy]\nsockets = [%q]\n[graphite]\nurl = %q\n", socket, url)
	for i := range backends {
		text += fmt.Sprintf("[[backend]]\nname = \"bench%d\"\ntarget = \"bench.%d\"\ninterval = %q\nfunction = \"limited-proportions\"\n", i, i, interval)
	}
	return text
}

// recorder keeps every line that is written to HAProxy.
type recorder struct {
	socket string
	mu     sync.Mutex
	file   *os.File
}

func (r *recorder) dial(ctx context.Context) (net.Conn, error) {
	c, err := (&net.Dialer{}).DialContext(ctx, "unix", r.socket)
	if err != nil {
		return nil, err
	}
	return &recorded{Conn: c, to: r}, nil
}

type recorded struct {
	net.Conn
	to *recorder
}

func (c *recorded) Write(p []byte) (int, error) {
	c.to.mu.Lock()
	_, err := c.to.file.Write(p)
	c.to.mu.Unlock()
	if err != nil {
		return 0, err
	}
	return c.Conn.Write(p)
}
