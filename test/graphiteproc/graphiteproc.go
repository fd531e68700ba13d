// Package graphiteproc starts a real Graphite for a test or a demo: one
// carbon-cache and one graphite-web from Debian's packages, on free loopback
// ports, with all files in one folder.
//
// It does not import testing, so that commands can use it too. The processes
// run in their own groups; they end with [Process.Stop] and, should the caller
// die first, with the caller.
package graphiteproc

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"text/template"
	"time"

	"github.com/haproxy-weighter/haproxy-weighter/test/child"
)

//go:embed conf/*.tmpl
var confFiles embed.FS

// The Debian programs, by full path: a python3 found through PATH may be one
// without Django.
const (
	python      = "/usr/bin/python3"
	carbonCache = "/usr/bin/carbon-cache"
	graphiteWeb = "/usr/lib/python3/dist-packages/graphite/render/views.py"
)

// readyTimeout bounds each wait for Python to come up; 2 s are usual.
const readyTimeout = 90 * time.Second

// errPortTaken tells Start to try again with other ports.
var errPortTaken = errors.New("a port was taken by someone else")

// Options of [Start]. The zero value works.
type Options struct {
	Dir        string // folder for all files; created when missing; "" means a temporary one that Stop removes
	Retentions string // whisper retentions of every metric; "" means "1s:1h"
	NoTags     bool   // carbon registers no tags: with them, thousands of new metrics take minutes
}

// Process is a running Graphite. Its methods are safe for concurrent use.
type Process struct {
	URL        string // of graphite-web, http://127.0.0.1:PORT; "/render" is appended by clients
	CarbonAddr string // plaintext receiver of carbon-cache, 127.0.0.1:PORT, TCP

	dir    string
	remove bool
	query  string // carbon's query port, the last that it opens

	mu     sync.Mutex
	carbon *child.Process
	web    *child.Process
}

// Start starts Graphite and returns when it answers a render and carbon takes
// connections. The context bounds the start, not the life of the processes.
func Start(ctx context.Context, o Options) (*Process, error) {
	if err := installed(); err != nil {
		return nil, err
	}
	var err error
	for range 5 {
		var p *Process
		if p, err = start(ctx, o); err == nil {
			return p, nil
		}
		if !errors.Is(err, errPortTaken) {
			break
		}
	}
	return nil, fmt.Errorf("graphiteproc: %w", err)
}

func installed() error {
	for _, file := range []string{python, carbonCache, graphiteWeb} {
		if _, err := os.Stat(file); err != nil {
			return fmt.Errorf("graphiteproc: %s is missing: apt-get install graphite-carbon graphite-web", file)
		}
	}
	return nil
}

func start(ctx context.Context, o Options) (p *Process, err error) {
	p = &Process{dir: o.Dir}
	if p.dir == "" {
		if p.dir, err = os.MkdirTemp("", "graphiteproc"); err != nil {
			return nil, err
		}
		p.remove = true
	}
	defer func() {
		if err != nil {
			p.Stop()
		}
	}()
	if p.dir, err = filepath.Abs(p.dir); err != nil {
		return nil, err
	}
	ports, err := child.FreePorts(4)
	if err != nil {
		return nil, err
	}
	if err := p.writeConf(o, ports); err != nil {
		return nil, err
	}
	p.URL = fmt.Sprintf("http://127.0.0.1:%d", ports[0])
	p.CarbonAddr = fmt.Sprintf("127.0.0.1:%d", ports[1])
	p.query = fmt.Sprintf("127.0.0.1:%d", ports[3])

	// Both at once: most of the time goes into Python's imports.
	if err := p.launchCarbon(); err != nil {
		return nil, err
	}
	if err := p.launchWeb(); err != nil {
		return nil, err
	}
	if err := p.waitCarbon(ctx); err != nil {
		return nil, err
	}
	return p, p.waitWeb(ctx)
}

func (p *Process) writeConf(o Options, ports []int) error {
	values := map[string]any{
		"Dir": p.dir, "Retentions": o.Retentions, "NoTags": o.NoTags,
		"WebPort": ports[0], "LinePort": ports[1], "PicklePort": ports[2], "QueryPort": ports[3],
	}
	if o.Retentions == "" {
		values["Retentions"] = "1s:1h"
	}
	for _, sub := range []string{"log", "whisper"} {
		if err := os.MkdirAll(filepath.Join(p.dir, sub), 0o755); err != nil {
			return err
		}
	}
	all, err := template.ParseFS(confFiles, "conf/*.tmpl")
	if err != nil {
		return err
	}
	for _, t := range all.Templates() {
		var b strings.Builder
		if err := t.Execute(&b, values); err != nil {
			return err
		}
		name := filepath.Join(p.dir, strings.TrimSuffix(t.Name(), ".tmpl"))
		if err := os.WriteFile(name, []byte(b.String()), 0o644); err != nil {
			return err
		}
	}
	return nil
}

func (p *Process) launchCarbon() error {
	// A pid file of a killed carbon whose number is in use again blocks the start.
	if err := os.RemoveAll(filepath.Join(p.dir, "carbon-cache-a.pid")); err != nil {
		return err
	}
	c, err := p.launch("carbon-cache", "carbon", carbonCache, "--config="+filepath.Join(p.dir, "carbon.conf"), "--nodaemon", "start")
	p.setCarbon(c)
	return err
}

func (p *Process) launchWeb() error {
	c, err := p.launch("graphite-web", "web", "-W", "ignore", filepath.Join(p.dir, "web.py"))
	p.setWeb(c)
	return err
}

func (p *Process) launch(name, log string, arguments ...string) (*child.Process, error) {
	return child.Start(child.Command{
		Name: name, Program: python, Args: arguments, Dir: p.dir, Env: p.env(), Log: p.logFile(log),
	})
}

func (p *Process) env() []string {
	return append(os.Environ(), "TZ=UTC", "PYTHONPATH="+p.dir, "PYTHONUNBUFFERED=1", "PYTHONDONTWRITEBYTECODE=1")
}

func (p *Process) logFile(name string) string { return filepath.Join(p.dir, "log", name+".out") }

func (p *Process) waitCarbon(ctx context.Context) error {
	return p.waitFor(ctx, p.getCarbon(), func(ctx context.Context) error {
		for _, addr := range []string{p.CarbonAddr, p.query} {
			var d net.Dialer
			conn, err := d.DialContext(ctx, "tcp4", addr)
			if err != nil {
				return err
			}
			conn.Close()
		}
		return nil
	})
}

func (p *Process) waitWeb(ctx context.Context) error {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	return p.waitFor(ctx, p.getWeb(), func(ctx context.Context) error {
		url := p.URL + "/render?format=json&noCache=1&from=-10s&target=graphiteproc.ready"
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		resp, err := client.Do(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(io.LimitReader(resp.Body, 4096))
		if err == nil && (resp.StatusCode != http.StatusOK || string(body) != "[]") {
			err = fmt.Errorf("a render answered %s: %.200s", resp.Status, body)
		}
		return err
	})
}

// waitFor polls ready until it says nil, the child ends or time is up.
func (p *Process) waitFor(ctx context.Context, c *child.Process, ready func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		attempt, cancelAttempt := context.WithTimeout(ctx, 10*time.Second)
		err := ready(attempt)
		cancelAttempt()
		if c.Exited() {
			return p.endedEarly(c)
		}
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s is not ready: %w (last: %v)\n%s", c.Name, ctx.Err(), err, p.Log())
		case <-c.Done():
			return p.endedEarly(c)
		case <-tick.C:
		}
	}
}

func (p *Process) endedEarly(c *child.Process) error {
	log := p.Log()
	if strings.Contains(log, "CannotListenError") || strings.Contains(log, "Address already in use") {
		return fmt.Errorf("%s: %w\n%s", c.Name, errPortTaken, log)
	}
	return fmt.Errorf("%s ended while starting:\n%s", c.Name, log)
}

// Stop ends both processes and waits for them. A second call does nothing.
func (p *Process) Stop() {
	p.getWeb().Kill()
	p.getCarbon().Kill()
	if p.remove {
		// Left-over files in a temporary folder harm nobody.
		_ = os.RemoveAll(p.dir)
	}
}

// PauseCarbon stops carbon-cache in its tracks (SIGSTOP): it takes connections
// and answers nothing. graphite-web then needs up to 6 s for an answer.
func (p *Process) PauseCarbon() error { return p.getCarbon().Signal(syscall.SIGSTOP) }

// ResumeCarbon ends PauseCarbon.
func (p *Process) ResumeCarbon() error { return p.getCarbon().Signal(syscall.SIGCONT) }

// PauseWeb stops graphite-web in its tracks (SIGSTOP): connections are taken
// by the kernel, no answer comes.
func (p *Process) PauseWeb() error { return p.getWeb().Signal(syscall.SIGSTOP) }

// ResumeWeb ends PauseWeb.
func (p *Process) ResumeWeb() error { return p.getWeb().Signal(syscall.SIGCONT) }

// KillWeb ends graphite-web; its port then refuses connections.
func (p *Process) KillWeb() { p.getWeb().Kill() }

// StartWeb starts graphite-web again on the same port, after KillWeb, and
// returns when it answers.
func (p *Process) StartWeb(ctx context.Context) error {
	if !p.getWeb().Exited() {
		return errors.New("graphiteproc: graphite-web is running already")
	}
	if err := p.launchWeb(); err != nil {
		return fmt.Errorf("graphiteproc: %w", err)
	}
	return p.waitWeb(ctx)
}

// KillCarbon ends carbon-cache: what it had not written yet is lost, and
// graphite-web goes on to serve what is on disk.
func (p *Process) KillCarbon() { p.getCarbon().Kill() }

// StartCarbon starts carbon-cache again on the same ports, after KillCarbon.
func (p *Process) StartCarbon(ctx context.Context) error {
	if !p.getCarbon().Exited() {
		return errors.New("graphiteproc: carbon-cache is running already")
	}
	if err := p.launchCarbon(); err != nil {
		return fmt.Errorf("graphiteproc: %w", err)
	}
	return p.waitCarbon(ctx)
}

// Send hands plaintext lines ("name value epoch\n") to carbon and returns when
// carbon has read them all. A new metric shows in renders about a second later:
// poll for it.
func (p *Process) Send(ctx context.Context, lines string) error {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp4", p.CarbonAddr)
	if err != nil {
		return fmt.Errorf("graphiteproc: %w", err)
	}
	defer conn.Close()
	deadline := time.Now().Add(30 * time.Second)
	if d, ok := ctx.Deadline(); ok && d.Before(deadline) {
		deadline = d
	}
	if err := conn.SetDeadline(deadline); err != nil {
		return err
	}
	if _, err := io.WriteString(conn, lines); err != nil {
		return fmt.Errorf("graphiteproc: %w", err)
	}
	if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
		return fmt.Errorf("graphiteproc: %w", err)
	}
	if _, err := io.Copy(io.Discard, conn); err != nil {
		return fmt.Errorf("graphiteproc: carbon did not confirm: %w", err)
	}
	return nil
}

// Log returns what the processes have printed and logged so far.
func (p *Process) Log() string {
	files, _ := filepath.Glob(filepath.Join(p.dir, "log", "*")) // the pattern is sound
	var b strings.Builder
	for _, file := range files {
		body, err := os.ReadFile(file)
		if err != nil || len(body) == 0 {
			continue
		}
		fmt.Fprintf(&b, "--- %s\n%s\n", filepath.Base(file), body)
	}
	return b.String()
}

func (p *Process) getCarbon() *child.Process { p.mu.Lock(); defer p.mu.Unlock(); return p.carbon }
func (p *Process) getWeb() *child.Process    { p.mu.Lock(); defer p.mu.Unlock(); return p.web }
func (p *Process) setCarbon(c *child.Process) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.carbon = c
}
func (p *Process) setWeb(c *child.Process) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.web = c
}
