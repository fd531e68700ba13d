// Package scripts runs the program as an operator would: each file in testdata
// is a session, with a Graphite made here and a real HAProxy.
//
// Beside testscript's own commands a script has:
//
//	exits CODE PROGRAM ARGS...  run PROGRAM, which must end with exit code CODE
//	haproxy FILE                start HAProxy with FILE as its haproxy.cfg
//	graphite FILE               start a real Graphite with the series of FILE
//	until CODE PROGRAM ARGS...  run PROGRAM again and again until it ends with exit code CODE
//	expand FILE                 fill in the $VARS in FILE
//	runtime LINE...             send a line to the runtime socket, print the answer
//	await SERVER WEIGHT         wait until HAProxy has that weight in force
//	page URL TEXT               ask until the page is TEXT
//	fields                      print the fields of the JSON on standard input
//	document FILE               read a document of this repository, to try its blocks
//	substitute TEXT OTHER       have TEXT in it stand for OTHER
//	try HEADING                 run the next block, and compare what it prints with the block behind it
//	put LANGUAGE HEADING FILE   write the next block into FILE
//	tried                       fail when a block has not been tried
//
// and these variables: $GRAPHITE, the URL of a Graphite that answers with what
// the file "series" says (see graphite_test.go); $SOCKET, the runtime socket of
// level admin; $DIR, a folder with a path short enough for more sockets; $PORT
// and $PAGES, free ports.
package scripts

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/haproxy-weighter/haproxy-weighter/internal/cli"
	"github.com/haproxy-weighter/haproxy-weighter/test/haproxyproc"
)

// patience is how long anything may take before a script fails.
const patience = 30 * time.Second

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"haproxy-weighter": func() { os.Exit(cli.Main("")) },
		"runtime":          program(runtime),
		"await":            program(await),
		"page":             program(page),
		"fields":           program(func([]string) error { return fields(os.Stdin, os.Stdout) }),
	})
}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup:               setup,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits":    exits,
			"until":    until,
			"expand":   expand,
			"haproxy":  haproxy,
			"graphite": realGraphite,

			"document":   readDocument,
			"substitute": substitute,
			"try":        try,
			"put":        put,
			"tried":      tried,
		},
	})
}

// setup gives each script its Graphite and its folder for sockets.
func setup(env *testscript.Env) error {
	server := newGraphite(env.WorkDir)
	env.Defer(server.Close)
	dir, err := haproxyproc.TempDir()
	if err != nil {
		return err
	}
	env.Defer(func() { os.RemoveAll(dir) })
	env.Setenv("GRAPHITE", server.URL)
	root, err := filepath.Abs("../..")
	if err != nil {
		return err
	}
	env.Values[documentKey{}] = &document{root: root}
	// With the race detector each program would sleep for a second at its end, in
	// case a goroutine had a race to report still.
	env.Setenv("GORACE", "atexit_sleep_ms=0")
	ports, err := haproxyproc.FreePorts(2)
	if err != nil {
		return err
	}
	env.Setenv("PORT", strconv.Itoa(ports[0]))
	env.Setenv("PAGES", strconv.Itoa(ports[1]))
	env.Setenv("DIR", dir)
	env.Setenv("SOCKET", filepath.Join(dir, "admin.sock"))
	return nil
}

// exits runs a program and checks its exit code.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE PROGRAM ARGS...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	if got := exitCode(ts, args[1:]); got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}

func exitCode(ts *testscript.TestScript, args []string) int {
	err := ts.Exec(args[0], args[1:]...)
	var exit *exec.ExitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit):
		return exit.ExitCode()
	}
	ts.Fatalf("%v", err)
	return 0
}

// until runs a program until it has come to end as it should.
func until(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: until CODE PROGRAM ARGS...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	got := 0
	for end := time.Now().Add(patience); time.Now().Before(end); <-tick.C {
		if got = exitCode(ts, args[1:]); got == want {
			return
		}
	}
	ts.Fatalf("exit code %d, want %d", got, want)
}

// expand fills variables in, in place.
func expand(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: expand FILE")
	}
	text := os.Expand(ts.ReadFile(args[0]), ts.Getenv)
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(text), 0o600))
}

// haproxy starts a real HAProxy, which ends with the script.
func haproxy(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: haproxy FILE")
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	p, err := haproxyproc.Start(ctx, haproxyproc.Options{
		Dir:    ts.Getenv("DIR"),
		Config: ts.ReadFile(args[0]),
	})
	ts.Check(err)
	ts.Defer(p.Kill)
	binary, err := haproxyproc.FindBinary("")
	ts.Check(err)
	ts.Setenv("HAPROXY", binary)
	if p.SocketPath != ts.Getenv("SOCKET") {
		ts.Fatalf("HAProxy's socket is at %s", p.SocketPath)
	}
}

// program makes a main function of f.
func program(f func(args []string) error) func() {
	return func() {
		if err := f(os.Args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
}

func runtime(args []string) error {
	answer, err := ask(strings.Join(args, " "))
	fmt.Print(answer)
	return err
}

func ask(line string) (string, error) {
	conn, err := net.DialTimeout("unix", os.Getenv("SOCKET"), patience)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		return "", err
	}
	if _, err := io.WriteString(conn, line+"\n"); err != nil {
		return "", err
	}
	answer, err := io.ReadAll(conn)
	return string(answer), err
}

// await asks again and again: HAProxy has no way to tell of a change.
func await(args []string) error {
	if len(args) != 2 {
		return errors.New("usage: await BACKEND/SERVER WEIGHT")
	}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	answer := ""
	for end := time.Now().Add(patience); time.Now().Before(end); <-tick.C {
		var err error
		if answer, err = ask("get weight " + args[0]); err != nil {
			return err
		}
		if strings.HasPrefix(answer, args[1]+" ") {
			return nil
		}
	}
	return fmt.Errorf("%s: %s, want weight %s", args[0], strings.TrimSpace(answer), args[1])
}

// page asks for a page of HAProxy's until it has come to say what it should.
func page(args []string) error {
	if len(args) != 2 {
		return errors.New("usage: page URL TEXT")
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: patience}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	last := ""
	for end := time.Now().Add(patience); time.Now().Before(end); <-tick.C {
		response, err := client.Get(args[0])
		if err != nil {
			return err
		}
		body, err := io.ReadAll(response.Body)
		response.Body.Close()
		if err != nil {
			return err
		}
		if last = string(body); last == args[1] {
			return nil
		}
	}
	return fmt.Errorf("%s: %q, want %q", args[0], last, args[1])
}

// fields prints each path of a JSON document once with the types it holds,
// so that a script can hold the fields stable whatever the values.
func fields(r io.Reader, w io.Writer) error {
	var document any
	if err := json.NewDecoder(bufio.NewReader(r)).Decode(&document); err != nil {
		return err
	}
	types := map[string]map[string]bool{}
	collect(types, "", document)
	for _, path := range slices.Sorted(maps.Keys(types)) {
		fmt.Fprintln(w, path, strings.Join(slices.Sorted(maps.Keys(types[path])), "|"))
	}
	return nil
}

func collect(types map[string]map[string]bool, path string, v any) {
	kind := ""
	switch v := v.(type) {
	case map[string]any:
		for key, value := range v {
			collect(types, path+"."+key, value)
		}
		return
	case []any:
		for _, value := range v {
			collect(types, path+"[]", value)
		}
		kind = "list"
	case nil:
		kind = "null"
	case bool:
		kind = "bool"
	case float64:
		kind = "number"
	case string:
		kind = "string"
	}
	if types[path] == nil {
		types[path] = map[string]bool{}
	}
	types[path][kind] = true
}
