package graphiteproc_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/haproxy-weighter/haproxy-weighter/test/graphiteproc"
)

func TestStartFeedStop(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	p, err := graphiteproc.Start(ctx, graphiteproc.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Stop()

	feed := func(value int) {
		t.Helper()
		line := fmt.Sprintf("a.b %d %d\na;k=v %d %[2]d\n", value, time.Now().Unix(), value)
		if err := p.Send(ctx, line); err != nil {
			t.Fatal(err)
		}
	}
	feed(41)
	waitBody(t, ctx, p, "a.b", "[41.0,")
	waitBody(t, ctx, p, "seriesByTag('k=v')", `"target": "a;k=v"`)

	p.KillWeb()
	if _, err := get(ctx, p, "a.b"); err == nil {
		t.Fatal("a killed graphite-web answered")
	}
	if err := p.StartWeb(ctx); err != nil {
		t.Fatal(err)
	}
	feed(42)
	waitBody(t, ctx, p, "a.b", "[42.0,")

	if err := p.PauseWeb(); err != nil {
		t.Fatal(err)
	}
	short, cancelShort := context.WithTimeout(ctx, 200*time.Millisecond)
	if body, err := get(short, p, "a.b"); err == nil {
		t.Fatalf("a paused graphite-web answered %s", body)
	}
	cancelShort()
	if err := p.ResumeWeb(); err != nil {
		t.Fatal(err)
	}
	waitBody(t, ctx, p, "a.b", "[42.0,")

	if err := p.PauseCarbon(); err != nil {
		t.Fatal(err)
	}
	if err := p.ResumeCarbon(); err != nil {
		t.Fatal(err)
	}
	p.KillCarbon()
	if err := p.Send(ctx, "a.b 1 1\n"); err == nil {
		t.Fatal("a killed carbon took data")
	}
	if err := p.PauseCarbon(); err == nil {
		t.Fatal("a killed carbon could be paused")
	}
	if err := p.StartCarbon(ctx); err != nil {
		t.Fatal(err)
	}
	feed(43)
	waitBody(t, ctx, p, "a.b", "[43.0,")

	p.Stop()
	if err := p.Send(ctx, "a.b 1 1\n"); err == nil {
		t.Fatal("carbon is there after Stop")
	}
	if _, err := get(ctx, p, "a.b"); err == nil {
		t.Fatal("graphite-web is there after Stop")
	}
	if !strings.Contains(p.Log(), "carbon") {
		t.Error("the log is empty")
	}
	p.Stop()
}

func get(ctx context.Context, p *graphiteproc.Process, target string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.URL+"/render", nil)
	if err != nil {
		return "", err
	}
	q := req.URL.Query()
	q.Set("target", target)
	q.Set("format", "json")
	q.Set("noCache", "1")
	q.Set("from", "-60s")
	req.URL.RawQuery = q.Encode()
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && !json.Valid(body) {
		err = fmt.Errorf("not JSON: %s", body)
	}
	return string(body), err
}

func waitBody(t *testing.T, ctx context.Context, p *graphiteproc.Process, target, want string) {
	t.Helper()
	for {
		body, err := get(ctx, p, target)
		if err == nil && strings.Contains(body, want) {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("%s never contained %s: %s, %v\n%s", target, want, body, err, p.Log())
		case <-time.After(50 * time.Millisecond):
		}
	}
}
