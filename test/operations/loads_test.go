package operations

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/haproxy-weighter/haproxy-weighter/test/faults/front"
)

// graphiteFaults has Graphite gone, and answering what is no answer.
func graphiteFaults(t *testing.T) {
	s := newScene(t, haproxyConfig("ingest", "roundrobin", ""))
	s.configure(settings{})
	s.start(nil)
	s.settle()
	s.graphite.Refuse()
	s.begins("no loads from Graphite")
	s.causes("check that it runs and that url is right")
	if err := s.graphite.Accept(); err != nil {
		t.Fatal(err)
	}
	for cause, raw := range map[string]http.HandlerFunc{
		"no whole answer within …":                front.Hang,
		"it answered …":                           front.Status(http.StatusServiceUnavailable, "text/plain", "no"),
		"which is not followed":                   front.Status(http.StatusFound, "text/plain", "", "Location", "http://example.com/login"),
		"instead of JSON":                         front.Status(http.StatusOK, "text/html", "<html>log in</html>"),
		"the answer is longer than …":             front.Huge(1 << 20),
		"Graphite answered with no series at all": front.Status(http.StatusOK, "application/json", "[]"),
	} {
		s.graphite.Answer(front.Answer{Raw: raw})
		s.causes(cause)
	}
	s.graphite.Answer(front.Answer{Raw: front.Status(http.StatusTooManyRequests, "text/plain", "slowly", "Retry-After", "2")})
	s.causes("asks to be left alone for …")
	s.graphite.Answer(front.Answer{})
	s.ends("no loads from Graphite")
	s.fault("clocks differ",
		func() { s.graphite.Answer(front.Answer{Clock: 10 * time.Second}) },
		func() { s.graphite.Answer(front.Answer{}) })
	s.stop()
}

// loadFaults has answers in which loads are missing, old or implausible.
func loadFaults(t *testing.T) {
	s := newScene(t, haproxyConfig("ingest", "roundrobin", ""))
	s.configure(settings{})
	s.start(nil)
	s.settle()
	good := func() { s.graphite.Answer(front.Answer{}) }
	const unusable, held = "servers without usable load", "weights are held"
	s.fault(unusable, func() {
		s.graphite.Answer(front.Answer{Without: []string{"s3"}})
		s.causes("the answer has no series for this server")
	}, good)
	s.fault(unusable, func() {
		s.graphite.Answer(front.Answer{Values: map[string]string{"s4": "null"}})
		s.causes("of its data points are null")
	}, good)
	s.fault(unusable, func() {
		s.graphite.Answer(front.Answer{Raw: front.Status(http.StatusOK, "application/json", twice(time.Now()))})
		s.causes("two series are for this server")
	}, good)
	s.graphite.Answer(front.Answer{Age: 50 * time.Second})
	s.causes("its newest usable data point is …")
	s.begins(held)
	s.causes("no server has had data for …")
	good()
	s.ends(held, unusable)
	for _, c := range []struct {
		cause      string
		begin, end func()
	}{
		{"servers in rotation have data; quorum is …", func() { s.graphite.Answer(front.Answer{Without: []string{"s2", "s3", "s4"}}) }, good},
		{"every server reports zero, which tells nothing about their loads", func() { s.graphite.Answer(front.Answer{All: "0"}) }, good},
		{"is under 1 % of the usual …", func() { s.graphite.Answer(front.Answer{All: "0.1"}) }, good},
		{"no server of the backend is up, ready and above weight 0", func() { s.each("set server ingest/{} state maint") }, func() { s.each("set server ingest/{} state ready") }},
	} {
		s.fault(held, func() { c.begin(); s.causes(c.cause) }, c.end)
	}
	s.configure(settings{maxAge: "4s"})
	s.hangUp()
	s.fault("Graphite's answer is an old one", func() { s.graphite.Answer(front.Answer{Repeat: true}) }, good)
	s.script("weigh.lua", "function weigh() error('no') end")
	s.fault(held, func() {
		s.configure(settings{backend: "function = \"lua\"\nscript = \"{dir}/weigh.lua\""})
		s.hangUp()
		s.causes("the script gives no shares")
	}, func() { s.configure(settings{}); s.hangUp() })
	s.stop()
}

// gainFaults has a function that is too strong for data of some age. How long
// connections live is known once there are some.
func gainFaults(t *testing.T) {
	server, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	s := newScene(t, strings.ReplaceAll(haproxyConfig("ingest", "roundrobin", "frontend ft\n\tbind unix@{dir}/ft.sock\n\tdefault_backend ingest"),
		"127.0.0.1:1 ", server.Addr().String()+" "))
	for range 4 {
		conn, err := net.Dial("unix", s.file("ft.sock"))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
	}
	s.configure(settings{backend: "function = \"limited-proportions\"\naggressiveness = 20.0"})
	s.start(nil)
	s.fault("weights react more strongly than the age of the data allows",
		func() { s.graphite.Answer(front.Answer{Age: 20 * time.Second}) },
		func() { s.graphite.Answer(front.Answer{}) })
	s.stop()
}

// twice is an answer that has two series for one server.
func twice(now time.Time) string {
	var all []string
	for _, name := range []string{"s1", "s2", "s2", "s3", "s4"} {
		all = append(all, fmt.Sprintf(`{"target":%q,"tags":{},"datapoints":[[100,%d],[100,%d]]}`, name, now.Unix()-2, now.Unix()-1))
	}
	return "[" + strings.Join(all, ",") + "]"
}

// each sends a line for each server.
func (s *scene) each(line string) {
	s.t.Helper()
	for _, name := range []string{"s1", "s2", "s3", "s4"} {
		if answer := s.runtime(strings.ReplaceAll(line, "{}", name)); answer != "" {
			s.t.Fatalf("%s: %s", line, answer)
		}
	}
}

// script writes a script in Lua.
func (s *scene) script(name, text string) {
	s.t.Helper()
	if err := os.WriteFile(s.file(name), []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
}
