package docs

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/haproxy-weighter/haproxy-weighter/test/child"
	"github.com/haproxy-weighter/haproxy-weighter/test/graphiteproc"
	"github.com/haproxy-weighter/haproxy-weighter/test/haproxyproc"
)

// patience is how long anything may take before a test fails.
const patience = 60 * time.Second

// scene is what a reader of the documents has: a HAProxy, a Graphite with a series for
// each server, and the program, installed.
type scene struct {
	t       *testing.T
	dir     string // the working directory; below it etc, run and bin
	bin     string
	haproxy *haproxyproc.Process
	binary  string // of HAProxy
	url     string // of Graphite
	page    string // address of the admin listener
}

const sceneHAProxy = `
global
  stats socket %s mode 660 level admin
defaults
  mode tcp
  timeout connect 1s
  timeout client 10s
  timeout server 10s
backend ingest
  balance roundrobin
  server s1 127.0.0.1:9 weight 100
  server s2 127.0.0.1:9 weight 100
  server s3 127.0.0.1:9 weight 100
`

// startGraphite starts a Graphite that ends with the test.
func startGraphite(t *testing.T) *graphiteproc.Process {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	g, err := graphiteproc.Start(ctx, graphiteproc.Options{Retentions: "10s:1h", NoTags: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.Stop)
	return g
}

// feed gives Graphite loads of the last minute.
func feed(t *testing.T, g *graphiteproc.Process) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var lines strings.Builder
	for back := time.Minute; back >= 0; back -= 10 * time.Second {
		for server, load := range map[string]int{"s1": 100, "s2": 300, "s3": 200} {
			fmt.Fprintf(&lines, "tcp-service.%s.datapoints.received %d %d\n", server, load, time.Now().Add(-back).Unix())
		}
	}
	if err := g.Send(ctx, lines.String()); err != nil {
		t.Fatal(err)
	}
	until(t, "the series in Graphite", func() bool {
		return strings.Count(get(ctx, g.URL+"/render?format=json&from=-1min&target=tcp-service.*.datapoints.received"), `"target"`) == 3
	})
}

func get(ctx context.Context, url string) string {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return ""
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Do(request)
	if err != nil {
		return ""
	}
	defer response.Body.Close()
	var v json.RawMessage
	if err := json.NewDecoder(response.Body).Decode(&v); err != nil {
		return ""
	}
	return string(v)
}

func until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(patience); !holds(); <-tick.C {
		if time.Now().After(end) {
			t.Fatalf("not within %s: %s", patience, what)
		}
	}
}

func newScene(t *testing.T, g *graphiteproc.Process) *scene {
	t.Helper()
	dir, err := haproxyproc.TempDir() // short enough for sockets
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	s := &scene{t: t, dir: dir, bin: filepath.Join(dir, "bin"), url: g.URL}
	feed(t, g)
	if s.binary, err = haproxyproc.FindBinary(""); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if s.haproxy, err = haproxyproc.Start(ctx, haproxyproc.Options{Dir: dir, Config: fmt.Sprintf(sceneHAProxy, filepath.Join(dir, "public.sock"))}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.haproxy.Stop)
	ports, err := haproxyproc.FreePorts(1)
	if err != nil {
		t.Fatal(err)
	}
	s.page = fmt.Sprintf("127.0.0.1:%d", ports[0])
	for _, folder := range []string{"bin", "etc", "run", "lib"} {
		if err := os.Mkdir(filepath.Join(dir, folder), 0o750); err != nil {
			t.Fatal(err)
		}
	}
	// What a file that the program itself writes has not: addresses that are free here.
	write(t, s.file("admin.toml"), fmt.Sprintf("\n[admin]\nlisten = %q\ncontrol = %q\n", s.page, s.file("run/control.sock")))
	s.standIns()
	return s
}

func (s *scene) file(name string) string { return filepath.Join(s.dir, name) }

// config is the file of the service.
func (s *scene) config() string { return s.file("etc/weighter.toml") }

// standIns puts programs before those of the system's: the program itself, as if it were
// installed with the scene's paths, and what needs root.
func (s *scene) standIns() {
	s.t.Helper()
	real, err := exec.LookPath("haproxy-weighter")
	if err != nil {
		s.t.Fatal(err)
	}
	root, err := filepath.Abs(repository)
	if err != nil {
		s.t.Fatal(err)
	}
	for name, text := range map[string]string{
		"haproxy-weighter": fmt.Sprintf(`
case "$*" in
init\ *) shift; exec %[1]s init --haproxy-cfg %[2]s "$@" ;;
run\ *) # until it has been seen to work
	cat %[3]s >>weighter.toml
	%[1]s "$@" & pid=$!
	n=0
	until %[1]s explain ingest/s1 -f weighter.toml >/dev/null; do
		n=$((n + 1)); [ $n -lt 600 ] || exit 1; sleep 0.1
	done
	kill -TERM $pid; wait $pid ;;
*\ -f\ *) exec %[1]s "$@" ;;
*) exec %[1]s "$@" -f %[4]s ;;
esac`, real, s.file("haproxy.cfg"), s.file("admin.toml"), s.config()),
		"haproxy": fmt.Sprintf(`exec %s "$@"`, s.binary),
		"make":    fmt.Sprintf(`exec /usr/bin/make -n -C %s "$@"`, root),
		"sudo":    `[ "$1" != -u ] || shift 2; exec "$@"`,
		// install -m 640 -g haproxy-weighter FROM TO; here may be no such group.
		"install": fmt.Sprintf(`[ "$1 $2 $3 $4" = "-m 640 -g haproxy-weighter" ] && cat "$5" %s >"$6"`, s.file("admin.toml")),
		"systemctl": fmt.Sprintf(`
[ "$*" = "restart haproxy-weighter" ] && echo start >%s
n=0
until haproxy-weighter status 2>/dev/null | grep -q '^all is well'; do
	n=$((n + 1)); [ $n -lt 600 ] || exit 1; sleep 0.1
done`, s.file("orders")),
		"podman": fmt.Sprintf(`
case "$1 $2" in
"exec haproxy-weighter") shift 3; exec haproxy-weighter "$@" ;;
"kill --signal") [ "$3 $4" = "HUP haproxy-weighter" ] && kill -HUP "$(cat %s)" ;;
*) exit 1 ;;
esac`, s.file("pid")),
	} {
		program(s.t, filepath.Join(s.bin, name), text)
	}
}

// shell runs a block in the scene, where some addresses and paths are other ones.
func (s *scene) shell(b *block) string {
	s.t.Helper()
	text := strings.NewReplacer(
		"http://graphite.example.com", s.url,
		"http://127.0.0.1:9101", "http://"+s.page,
		"/run/haproxy-weighter/control.sock", s.file("run/control.sock"),
		"/etc/haproxy-weighter/", s.file("etc")+"/",
		"/tmp/", s.dir+"/",
	).Replace(b.text)
	return shell(s.t, text, s.dir, s.bin)
}

// service is the daemon, waiting for the order of the stand-in of systemctl.
func (s *scene) service() {
	s.t.Helper()
	if out, err := exec.CommandContext(s.t.Context(), "mkfifo", s.file("orders")).CombinedOutput(); err != nil {
		s.t.Fatal(err, string(out))
	}
	p, err := child.Start(child.Command{
		Program: "/bin/sh", Log: s.file("daemon.log"), Dir: s.dir,
		Args: []string{"-c", "read order <orders; echo $$ >pid; exec haproxy-weighter run -f etc/weighter.toml"},
	})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(p.Kill)
}

// serve has the daemon running on a configuration that the program has written itself.
func (s *scene) serve() {
	s.t.Helper()
	s.service()
	shell(s.t, "haproxy-weighter init --graphite "+s.url+" -o first.toml && install -m 640 -g haproxy-weighter first.toml "+s.config()+" && systemctl restart haproxy-weighter", s.dir, s.bin)
}

func (s *scene) log() string {
	text, err := os.ReadFile(s.file("daemon.log"))
	if err != nil {
		s.t.Fatal(err)
	}
	return string(text)
}

// inScene runs a block of commands in a scene of its own, and looks at what comes of it.
func inScene(t *testing.T, b *block, g *graphiteproc.Process) {
	s := newScene(t, g)
	want := func(out string, words ...string) {
		t.Helper()
		for _, w := range words {
			if !strings.Contains(out, w) {
				t.Errorf("no %q in what it prints:\n%s", w, out)
			}
		}
	}
	switch key := b.in.name + " " + strings.Join(strings.Fields(b.first())[:2], " "); key {
	case "README.md make build":
		want(s.shell(b), "go build", "wrote weighter.toml", "would set new weights", "the weights in force stay as they are")
		if w, err := s.haproxy.Command(t.Context(), "get weight ingest/s1"); err != nil || !strings.HasPrefix(w, "100 ") {
			t.Errorf("weight %q after observing, %v", w, err)
		}
	case "docs/install.md haproxy-weighter init":
		s.service()
		want(s.shell(b), "ok", "admin: weights may be set", "all is well")
	case "docs/json.md curl -s":
		s.serve()
		for line := range strings.Lines(strings.ReplaceAll(b.text, "\\\n", " ")) {
			out := s.shell(&block{text: line})
			var answer map[string]any
			if err := json.Unmarshal([]byte(out), &answer); err != nil || answer["error"] != nil {
				t.Errorf("%s answers %s: %v", line, out, err)
			}
		}
	case "docs/lua.md haproxy-weighter plan":
		s.serve()
		for _, section := range parse(t, "docs/lua.md").sections {
			for _, script := range section.blocks {
				if name, _, _ := strings.Cut(strings.TrimPrefix(script.first(), "-- "), ":"); script.language == "lua" {
					write(t, s.file(name), script.text)
				}
			}
		}
		want(s.shell(b), "s1", "s3", "wait", "percent")
	case "docs/spoe.md haproxy-weighter haproxy-conf":
		write(t, s.config(), "[haproxy]\nsockets = [\"/run/haproxy/admin.sock\"]\n[graphite]\nurl = \"http://127.0.0.1:9\"\n[spoa]\nlisten = [\"127.0.0.1:9002\"]\n[[backend]]\nname = \"ingest\"\ntarget = \"x\"\n")
		want(s.shell(b), "tcp-pick", "sni-group")
		if _, err := os.Stat(s.file("conf/weighter.spoe")); err != nil {
			t.Error(err)
		}
	case "packaging/container/README.md podman exec":
		s.serve()
		want(s.shell(b), "all is well", "admin: weights may be set")
		until(t, "the reload", func() bool { return strings.Contains(s.log(), "configuration reloaded") })
	default:
		t.Fatalf("this test does not know what is to come of %s", key)
	}
}
