package haproxy

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/haproxy-weighter/haproxy-weighter/test/corpus"
)

// seeds adds recorded replies of real HAProxy versions.
func seeds(f *testing.F, name string) {
	f.Helper()
	files, err := filepath.Glob(filepath.Join("testdata", "replies", "*", name+".txt"))
	if err != nil || len(files) == 0 {
		f.Fatalf("no recorded replies %s: %v", name, err)
	}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(b))
	}
}

// checkServers holds for whatever the parser lets through.
func checkServers(t *testing.T, s *State) {
	for _, srv := range s.Servers {
		if srv.Weight < 0 || srv.Weight > maxWeight || srv.InitialWeight < 0 || srv.InitialWeight > maxWeight ||
			srv.Sessions < 0 || srv.TotalSessions < 0 || srv.SinceChange < 0 || srv.Name == "" {
			t.Errorf("server %+v", srv)
		}
	}
	if s.Info.Worker.PID <= 0 || s.Info.Version == "" || s.Info.Stopping {
		t.Errorf("info %+v", s.Info)
	}
}

func FuzzParseState(f *testing.F) {
	corpus.Add(f)
	seeds(f, "state")
	f.Add(infoText + tailText + statText)
	f.Fuzz(func(t *testing.T, reply string) {
		s, _, err := parseState(reply, "rr", false)
		if err == nil {
			checkServers(t, s)
			if !strings.HasSuffix(reply, "\n\n") {
				t.Errorf("taken without its end: %q", reply)
			}
		}
	})
}

func FuzzParseWeights(f *testing.F) {
	corpus.Add(f)
	seeds(f, "weights")
	f.Add(infoText + "\nNo such server.\n\n\n" + tailText)
	f.Add(infoText + "\nTrailing garbage in weight string\n\n" + tailText)
	f.Fuzz(func(t *testing.T, reply string) {
		a, err := parseWeights(reply, "rr", 3, false)
		if err != nil {
			return
		}
		checkServers(t, a.state)
		if len(a.answers) != 3 {
			t.Errorf("%d answers", len(a.answers))
		}
		for _, answer := range a.answers {
			if answer != nil && !is(answer, ErrNoServer, ErrStaticAlgorithm, ErrWeight) {
				t.Errorf("answer %v", answer)
			}
		}
	})
}

func FuzzReadSessions(f *testing.F) {
	corpus.Add(f)
	seeds(f, "sessions")
	f.Fuzz(func(t *testing.T, reply string) {
		s, err := readSessions(strings.NewReader(reply), 5, false)
		if err != nil {
			return
		}
		n := s.Unplaced + s.Unknown
		for _, ages := range s.Ages {
			n += len(ages)
			for _, age := range ages {
				if age < 0 {
					t.Errorf("age %v", age)
				}
			}
		}
		if n > 6 {
			t.Errorf("%d sessions", n)
		}
	})
}

func FuzzParseAge(f *testing.F) {
	corpus.Add(f)
	for _, text := range []string{"0s", "1m5s", "4d3h", "2h", "?", "99999999999d"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		age, err := parseAge(text)
		if err == nil && (age < 0 || age%time.Second != 0) || err != nil && age != 0 {
			t.Errorf("parseAge(%q) = %v, %v", text, age, err)
		}
	})
}

func FuzzParseAddress(f *testing.F) {
	corpus.Add(f)
	for _, text := range []string{"/run/s", "unix:/run/s", "abns@x", "tcp:127.0.0.1:1", "master:/run/m", "tcp:[::1]:1"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		a, err := ParseAddress(text)
		if err != nil {
			return
		}
		if again, err := ParseAddress(a.String()); err != nil || again != a {
			t.Errorf("%q: %v, again %v, %v", text, a, again, err)
		}
	})
}

// TestRecordedReplies parses what the versions of HAProxy have answered to
// the lines of the client; the files were recorded with the scene's configuration.
func TestRecordedReplies(t *testing.T) {
	dirs, err := filepath.Glob("testdata/replies/*")
	if err != nil || len(dirs) < 4 {
		t.Fatalf("recorded versions %v, %v", dirs, err)
	}
	for _, dir := range dirs {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			read := func(name string) string {
				b, err := os.ReadFile(filepath.Join(dir, name+".txt"))
				if err != nil {
					t.Fatal(err)
				}
				return string(b)
			}
			s, _, err := parseState(read("state"), "rr", false)
			if err != nil {
				t.Fatal(err)
			}
			checkServers(t, s)
			if len(s.Servers) != 4 || s.Algorithm != "roundrobin" || !s.Servers[1].Backup || !strings.HasPrefix(s.Info.Version, filepath.Base(dir)) {
				t.Errorf("state %+v", s)
			}
			a, err := parseWeights(read("weights"), "rr", 3, false)
			if err != nil {
				t.Fatal(err)
			}
			if a.answers[0] != nil || !errors.Is(a.answers[1], ErrNoServer) || a.answers[2] != nil {
				t.Errorf("answers %v", a.answers)
			}
			sessions, err := readSessions(strings.NewReader(read("sessions")), 10, false)
			if err != nil {
				t.Fatal(err)
			}
			if len(sessions.Ages["rr"]) != 2 || sessions.Unplaced != 1 {
				t.Errorf("sessions %+v", sessions)
			}
			names, err := parseBackends(read("backends"))
			if err != nil || len(names) != 5 {
				t.Errorf("backends %v, %v", names, err)
			}
		})
	}
}
