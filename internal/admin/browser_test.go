package admin

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// browser is a headless Chromium that is driven through a pair of pipes: each
// message is JSON, ended by a NUL.
type browser struct {
	t       *testing.T
	cmd     *exec.Cmd
	toIt    *os.File
	session string // of the tab

	mu       sync.Mutex
	next     int
	answers  map[int]chan message
	errors   []string // of scripts, of the policy, of requests
	requests []string // URLs
	events   map[string]chan struct{}
}

// message is one of the DevTools protocol.
type message struct {
	ID        int             `json:"id,omitempty"`
	SessionID string          `json:"sessionId,omitempty"`
	Method    string          `json:"method,omitempty"`
	Params    any             `json:"params,omitempty"`
	Result    json.RawMessage `json:"result,omitempty"`
	Error     json.RawMessage `json:"error,omitempty"`
}

// startBrowser starts Chromium with one empty tab.
func startBrowser(t *testing.T) *browser {
	t.Helper()
	b := &browser{t: t, answers: make(map[int]chan message), events: make(map[string]chan struct{})}
	folder, err := os.MkdirTemp("", "browser")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { remove(t, folder) })
	itReads, toIt, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	fromIt, itWrites, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	b.toIt = toIt
	b.cmd = exec.Command("chromium", "--headless", "--remote-debugging-pipe", "--no-sandbox", "--disable-gpu",
		"--disable-dev-shm-usage", "--no-first-run", "--no-default-browser-check", "--disable-background-networking", "--disable-component-update",
		"--disable-sync", "--hide-scrollbars", "--force-device-scale-factor=1", "--user-data-dir="+folder, "about:blank")
	b.cmd.Env = append(os.Environ(), "HOME="+folder)
	b.cmd.ExtraFiles = []*os.File{itReads, itWrites}
	b.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := b.cmd.Start(); err != nil {
		t.Fatalf("%v: Chromium is missing; test/deps/install browser gets it", err)
	}
	itReads.Close()
	itWrites.Close()
	var wg sync.WaitGroup
	wg.Go(func() { b.read(fromIt) })
	t.Cleanup(func() {
		fmt.Fprint(toIt, `{"id":1000000,"method":"Browser.close"}`+"\x00")
		kill := func() { _ = syscall.Kill(-b.cmd.Process.Pid, syscall.SIGKILL) } // with all its helpers
		late := time.AfterFunc(5*time.Second, kill)
		_ = b.cmd.Wait() // its exit code tells nothing about the test
		late.Stop()
		kill()
		toIt.Close()
		wg.Wait()
		fromIt.Close()
	})
	b.attach()
	return b
}

// remove deletes a folder that the last helpers of a browser may still write to.
func remove(t *testing.T, folder string) {
	deadline := time.Now().Add(patience)
	for err := os.RemoveAll(folder); err != nil; err = os.RemoveAll(folder) {
		if time.Now().After(deadline) {
			t.Error(err)
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// attach opens the tab's session and has it tell what goes wrong.
func (b *browser) attach() {
	b.t.Helper()
	var targets struct {
		TargetInfos []struct{ TargetID, Type string }
	}
	for deadline := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		b.call("Target.getTargets", nil, &targets)
		if len(targets.TargetInfos) > 0 || time.Now().After(deadline) {
			break
		}
	}
	for _, target := range targets.TargetInfos {
		if target.Type != "page" {
			continue
		}
		var attached struct{ SessionID string }
		b.call("Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &attached)
		b.session = attached.SessionID
		for _, domain := range []string{"Page", "Runtime", "Log", "Network"} {
			b.call(domain+".enable", nil, nil)
		}
		return
	}
	b.t.Fatalf("Chromium has no tab: %+v", targets)
}

// read takes what Chromium says until it ends.
func (b *browser) read(from *os.File) {
	r := bufio.NewReaderSize(from, 1<<20)
	for {
		line, err := r.ReadBytes(0)
		if err != nil {
			b.mu.Lock()
			for id, answer := range b.answers {
				close(answer)
				delete(b.answers, id)
			}
			b.mu.Unlock()
			return
		}
		var m struct {
			message
			Params json.RawMessage `json:"params"`
		}
		if json.Unmarshal(line[:len(line)-1], &m) != nil {
			continue
		}
		b.mu.Lock()
		if answer, ok := b.answers[m.ID]; ok && m.ID != 0 {
			answer <- m.message
			delete(b.answers, m.ID)
		}
		b.note(m.Method, m.Params)
		b.mu.Unlock()
	}
}

// note keeps what a test wants to know of an event; b.mu is held.
func (b *browser) note(method string, params json.RawMessage) {
	switch method {
	case "Runtime.exceptionThrown", "Log.entryAdded":
		b.errors = append(b.errors, method+" "+string(params))
	case "Runtime.consoleAPICalled":
		if strings.Contains(string(params), `"type":"error"`) {
			b.errors = append(b.errors, string(params))
		}
	case "Network.requestWillBeSent":
		var p struct{ Request struct{ URL string } }
		if json.Unmarshal(params, &p) == nil {
			b.requests = append(b.requests, p.Request.URL)
		}
	case "Page.loadEventFired":
		if c := b.events[method]; c != nil {
			close(c)
			delete(b.events, method)
		}
	}
}

// call sends a command and waits for its result.
func (b *browser) call(method string, params, result any) {
	b.t.Helper()
	answer := make(chan message, 1)
	b.mu.Lock()
	b.next++
	id := b.next
	b.answers[id] = answer
	b.mu.Unlock()
	if params == nil {
		params = map[string]any{}
	}
	data, err := json.Marshal(message{ID: id, SessionID: b.session, Method: method, Params: params})
	if err != nil {
		b.t.Fatal(err)
	}
	if _, err := b.toIt.Write(append(data, 0)); err != nil {
		b.t.Fatal(err)
	}
	limit := time.NewTimer(patience)
	defer limit.Stop()
	select {
	case m, ok := <-answer:
		if !ok || m.Error != nil {
			b.t.Fatalf("%s: Chromium says %s (%t)", method, m.Error, ok)
		}
		if result != nil {
			if err := json.Unmarshal(m.Result, result); err != nil {
				b.t.Fatal(err)
			}
		}
	case <-limit.C:
		b.t.Fatalf("%s: no answer from Chromium", method)
	}
}

// open loads a page and waits until it is there.
func (b *browser) open(url string) {
	b.t.Helper()
	loaded := make(chan struct{})
	b.mu.Lock()
	b.events["Page.loadEventFired"] = loaded
	b.mu.Unlock()
	b.call("Page.navigate", map[string]any{"url": url}, nil)
	limit := time.NewTimer(patience)
	defer limit.Stop()
	select {
	case <-loaded:
	case <-limit.C:
		b.t.Fatalf("%s never loaded", url)
	}
}

// eval gives the value of an expression in the page.
func eval[T any](b *browser, expression string) T {
	b.t.Helper()
	var answer struct {
		Result           struct{ Value T }
		ExceptionDetails json.RawMessage
	}
	b.call("Runtime.evaluate", map[string]any{"expression": expression, "returnByValue": true, "awaitPromise": true}, &answer)
	if answer.ExceptionDetails != nil {
		b.t.Fatalf("%s: %s", expression, answer.ExceptionDetails)
	}
	return answer.Result.Value
}

// until waits for an expression to become true.
func (b *browser) until(expression string) {
	b.t.Helper()
	for deadline := time.Now().Add(patience); !eval[bool](b, expression); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			b.t.Fatalf("never true in the page: %s; errors %q; page:\n%s", expression, b.errors, eval[string](b, "document.body.innerText"))
		}
	}
}

// look sets the size of the window and the colour scheme.
func (b *browser) look(width, height int, scheme string) {
	b.t.Helper()
	b.call("Emulation.setDeviceMetricsOverride", map[string]any{"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}, nil)
	b.call("Emulation.setEmulatedMedia", map[string]any{"features": []map[string]string{{"name": "prefers-color-scheme", "value": scheme}}}, nil)
}

// shoot writes a picture of the whole page to the folder that
// ADMIN_SCREENSHOTS names, for whoever wants to look at it.
func (b *browser) shoot(name string) {
	b.t.Helper()
	folder := os.Getenv("ADMIN_SCREENSHOTS")
	if folder == "" {
		return
	}
	size := eval[[]float64](b, "[document.documentElement.clientWidth, document.documentElement.scrollHeight]")
	clip := map[string]any{"x": 0, "y": 0, "width": size[0], "height": size[1], "scale": 1}
	var shot struct{ Data string }
	b.call("Page.captureScreenshot", map[string]any{"format": "png", "captureBeyondViewport": true, "clip": clip}, &shot)
	picture, err := base64.StdEncoding.DecodeString(shot.Data)
	if err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(fmt.Sprintf("%s/%s.png", folder, name), picture, 0o644); err != nil {
		b.t.Fatal(err)
	}
}

// clean fails the test when the page has made an error, broken its policy or
// asked anybody but the server at address.
func (b *browser) clean(address string) {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.errors) > 0 {
		b.t.Errorf("the browser tells of errors:\n%s", strings.Join(b.errors, "\n"))
	}
	for _, url := range b.requests {
		if !strings.HasPrefix(url, "http://"+address+"/") && url != "about:blank" && url != "data:," {
			b.t.Errorf("the page has asked %s", url)
		}
	}
}
