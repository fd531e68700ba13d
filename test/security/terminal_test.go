package security

import (
	"encoding/json"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/haproxy-weighter/haproxy-weighter/internal/api"
	"github.com/haproxy-weighter/haproxy-weighter/internal/cli"
	"github.com/haproxy-weighter/haproxy-weighter/test/haproxyproc"
)

var silent = log.New(io.Discard, "", 0)

// evil moves a terminal, sets its title, turns the direction, and breaks lines.
const evil = "\x1b[2J\x1b]0;t\x07\u009b2J\u202e\r\nx"

// fillEvil puts evil into every text of v, and one element into every list.
func fillEvil(v reflect.Value, depth int) {
	if depth > 12 {
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(evil)
	case reflect.Pointer:
		if v.Type() == reflect.TypeFor[*time.Time]() {
			v.Set(reflect.ValueOf(new(time.Now())))
			return
		}
		v.Set(reflect.New(v.Type().Elem()))
		fillEvil(v.Elem(), depth+1)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fillEvil(v.Index(0), depth+1)
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fillEvil(key, depth+1)
		fillEvil(value, depth+1)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			v.Set(reflect.ValueOf(time.Now()))
			return
		}
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				fillEvil(v.Field(i), depth+1)
			}
		}
	case reflect.Int, reflect.Int64:
		v.SetInt(7)
	case reflect.Float64:
		v.SetFloat(7)
	}
}

// evilDaemon answers each request with what its type is, full of evil.
func evilDaemon(t *testing.T) (socket string) {
	t.Helper()
	dir, err := haproxyproc.TempDir()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	socket = filepath.Join(dir, "c.sock")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var answer any
		status := http.StatusOK
		switch path := r.URL.Path; {
		case path == "/api/v1/status":
			answer = &api.Status{}
		case strings.HasPrefix(path, "/api/v1/table/"):
			answer = &api.Tables{}
		case strings.HasPrefix(path, "/api/v1/history/"):
			answer = &api.History{}
		case path == "/control/v1/pin":
			answer = &api.Done{}
		default:
			answer, status = &api.Problem{}, http.StatusConflict
		}
		fillEvil(reflect.ValueOf(answer).Elem(), 0)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(answer) // a command that has seen enough may go
	}))
	server.Listener.Close()
	server.Listener, server.Config.ErrorLog = l, silent
	server.Start()
	t.Cleanup(server.Close)
	return socket
}

// TestCommandsMoveNoTerminal: whatever a daemon, a Graphite or an HAProxy has
// for names, reasons and authors, commands print it as text.
func TestCommandsMoveNoTerminal(t *testing.T) {
	socket := evilDaemon(t)
	for _, args := range [][]string{
		{"status"}, {"status", evil}, {"status", "--json"}, {"explain", evil + "/" + evil}, {"explain", evil + "/" + evil, "--json"},
		{"history", evil}, {"history", evil, "--server", evil}, {"history", evil, "--json"}, {"history", evil, "--server", "nobody"},
		{"pin", evil + "/" + evil, "7", "--for", "1m", "--reason", "x"}, {"unpin", evil + "/" + evil}, {"freeze", evil, "--for", "1m", "--reason", "x"},
		{"mode", evil, "observe", "--reason", "x"}, {"status", "nobody"}, {"status", "--control", "/nowhere" + evil}, {"check", "-f", "/nowhere" + evil},
	} {
		if args[0] != "check" && !strings.Contains(strings.Join(args, " "), "--control") {
			args = append(args, "--control", socket)
		}
		var out, errors strings.Builder
		p := &cli.Program{Stdout: &out, Stderr: &errors}
		p.Run(t.Context(), args)
		printed := out.String() + errors.String()
		if printed == "" {
			t.Errorf("%q prints nothing", args)
		}
		if i := strings.IndexFunc(printed, func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }); i >= 0 {
			t.Errorf("%q prints %q", args, printed[max(0, i-100):min(len(printed), i+50)])
		}
	}
}
