package haproxy

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/haproxy-weighter/haproxy-weighter/test/haproxyproc"
	"github.com/haproxy-weighter/haproxy-weighter/test/haproxytest"
)

// refused lists commands and what HAProxy 2.6 to 3.4 answer to them. A reply
// that differs in 2.6 has its own entry.
var refused = []struct {
	name    string
	command string // on the real one, with the scene's configuration; empty: not to be had there
	replies []string
	want    error
}{
	{"no server", "set server rr/nosuch weight 5", []string{"No such server.\n\n"}, ErrNoServer},
	{"no backend", "set server nosuch/s1 weight 5", []string{"No such backend.\n\n"}, ErrNoBackend},
	{"no backend in a dump", "show servers state nosuch", []string{"Can't find backend.\n\n"}, ErrNoBackend},
	{"no proxy in statistics", "show stat nosuch 6 -1", []string{"No such proxy.\n\n"}, ErrNoBackend},
	{"no server named", "set server rr weight 5", []string{"Require 'backend/server'.\n\n"}, ErrUsage},
	{"no weight", "set server rr/s1 weight", []string{"Require <weight> or <weight%>.\n\n"}, ErrUsage},
	{"weight above", "set server rr/s1 weight 257", []string{"Absolute weight can only be between 0 and 256 inclusive.\n\n"}, ErrWeight},
	{"weight below", "set server rr/s1 weight -1", []string{"Absolute weight can only be between 0 and 256 inclusive.\n\n"}, ErrWeight},
	{"weight far above", "set server rr/s1 weight 4294967297", []string{"Absolute weight can only be between 0 and 256 inclusive.\n\n"}, ErrWeight},
	{"no number", "set server rr/s1 weight abc", []string{"Empty weight string empty or preceded by garbage\n\n", "Empty weight string empty or preceded by garbage\n"}, ErrWeight},
	{"garbage after the number", "set server rr/s1 weight 5x", []string{"Trailing garbage in weight string\n\n", "Trailing garbage in weight string\n"}, ErrWeight},
	{"static algorithm", "set server fixed/s1 weight 5", []string{"Backend is using a static LB algorithm and only accepts weights '0%' and '100%'.\n\n"}, ErrStaticAlgorithm},
	{"backend switched off", "set server off/s1 weight 5", []string{"Proxy is disabled.\n\n"}, ErrDisabled},
	{"level", "", []string{"Permission denied\n\n"}, ErrPermission},
	{"usage", "set server rr/s1 bogus 3", nil, ErrUsage},
	{"unknown command", "boing", nil, ErrUnknownCommand},
	{"line too long", "", []string{"The command line is too big for the buffer size. Please change tune.bufsize in the configuration to use a larger command.\n"}, ErrLineTooLong},
	{"no worker", "", []string{"Can't find the target PID matching the prefix '@1'\n"}, ErrNoWorker},
}

func TestEveryReplyIsTyped(t *testing.T) {
	for _, tt := range refused {
		for _, reply := range tt.replies {
			for _, prefix := range []string{"", "[3]: "} {
				text := prefix + strings.TrimRight(reply, "\n")
				var r *ReplyError
				if err := classify(text); !errors.Is(err, tt.want) || !errors.As(err, &r) || r.Reply != text {
					t.Errorf("%s: classify(%q) = %v", tt.name, text, err)
				}
			}
		}
	}
	for _, text := range []string{"", "50", "Done.", "100 (initial 100)", "permission denied"} {
		if err := classify(text); err != nil {
			t.Errorf("classify(%q) = %v", text, err)
		}
	}
}

// TestEveryReplyIsReal holds the table against the HAProxy that is installed.
func TestEveryReplyIsReal(t *testing.T) {
	haproxytest.ForEachVersion(t, func(t *testing.T, b haproxyproc.Binary) {
		p := startHAProxy(t, haproxyproc.Options{Binary: b.Path, Config: sceneConfig(t, b)})
		for _, tt := range refused {
			if tt.command == "" {
				continue
			}
			reply := command(t, p, tt.command)
			known := tt.replies == nil
			for _, r := range tt.replies {
				known = known || r == reply
			}
			if !known {
				t.Errorf("%s: %q answers %q, not one of %q", tt.name, tt.command, reply, tt.replies)
			}
			if err := classify(strings.TrimRight(reply, "\n")); !errors.Is(err, tt.want) {
				t.Errorf("%s: classify(%q) = %v, want %v", tt.name, reply, err, tt.want)
			}
		}
	})
}

const (
	infoText = "Name: HAProxy\nVersion: 2.6.12\nPid: 17\nUptime_sec: 5\nCurrConns: 3\nnode: lb1\nStopping: 0\nStart_time_sec: 1795981600\n\n"
	headText = "1\n# be_id be_name srv_id srv_name srv_addr srv_op_state srv_admin_state srv_uweight srv_iweight srv_time_since_last_change srvrecord\n"
	tailText = headText + "3 rr 1 s1 127.0.0.1 2 0 5 100 4 -\n3 rr 2 s2 127.0.0.1 2 0 6 100 4 _ingest._tcp.example.com\n\n"
	statText = "# pxname,svname,scur,stot,bck,type,sid,throttle,agent_status,algo,\n" +
		"rr,s1,1,10,0,2,1,,,,\nrr,s2,2,20,1,2,2,40,L7OK,,\nrr,BACKEND,3,30,0,1,0,,,random,\n\n"
)

// TestCountingAnswers: n answers, then the dump, or no result at all.
func TestCountingAnswers(t *testing.T) {
	const static = "Backend is using a static LB algorithm and only accepts weights '0%' and '100%'.\n\n"
	for _, tt := range []struct {
		name    string
		answers string
		n       int
		want    []error // nil: the batch fails
		err     error
	}{
		{"all fine", "\n\n\n", 3, []error{nil, nil, nil}, nil},
		{"none", "", 0, []error{}, nil},
		{"single refusals", "\nNo such server.\n\n" + static, 3, []error{nil, ErrNoServer, ErrStaticAlgorithm}, nil},
		{"with severity", "[3]: No such server.\n\n\n", 2, []error{ErrNoServer, nil}, nil},
		{"garbage framed", "\nTrailing garbage in weight string\n\n\n", 3, []error{nil, ErrWeight, nil}, nil},
		{"garbage of 2.6, unframed", "\nTrailing garbage in weight string\n\n", 3, []error{nil, ErrWeight, nil}, nil},
		{"garbage of 2.6, twice", "Trailing garbage in weight string\nEmpty weight string empty or preceded by garbage\n\n", 3, []error{ErrWeight, ErrWeight, nil}, nil},
		{"garbage of 2.6, at the end", "\nEmpty weight string empty or preceded by garbage\n", 2, []error{nil, ErrWeight}, nil},
		{"one too few", "\n\n", 3, nil, ErrMismatch},
		{"one too many", "\n\n\n\n", 3, nil, ErrMismatch},
		{"an answer that we do not know", "\nDone.\n\n\n", 3, nil, ErrMismatch},
		{"no level", "Permission denied\n\nPermission denied\n\n", 2, nil, ErrPermission},
		{"old worker", "\nProxy is disabled.\n\n", 2, nil, ErrDisabled},
		{"no backend", "No such backend.\n\nNo such backend.\n\n", 2, nil, ErrNoBackend},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a, err := parseWeights(infoText+tt.answers+tailText, "rr", tt.n, false)
			if tt.want == nil {
				if !errors.Is(err, tt.err) {
					t.Errorf("error %v, want %v", err, tt.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if len(a.answers) != len(tt.want) {
				t.Fatalf("%d answers", len(a.answers))
			}
			for i, want := range tt.want {
				if !errors.Is(a.answers[i], want) {
					t.Errorf("answer %d is %v, want %v", i, a.answers[i], want)
				}
			}
			if len(a.state.Servers) != 2 || a.info.Worker.PID != 17 {
				t.Errorf("%+v", a)
			}
		})
	}
}

// TestHalfAnswers cuts good replies at every byte: never a result.
func TestHalfAnswers(t *testing.T) {
	sess := "0x55c32b6c0d80: proto=tcpv4 src=127.0.0.1:53772 fe=f be=rr srv=s1 ts=00 age=2s calls=3\n\n"
	for name, tt := range map[string]struct {
		reply string
		parse func(string) error
	}{
		"state":    {infoText + tailText + statText, func(r string) error { _, _, err := parseState(r, "rr", false); return err }},
		"master":   {infoText + tailText + statText + infoText, func(r string) error { _, _, err := parseState(r, "rr", true); return err }},
		"weights":  {infoText + "\nNo such server.\n\n\n" + tailText, func(r string) error { _, err := parseWeights(r, "rr", 3, false); return err }},
		"sessions": {infoText + sess, func(r string) error { _, err := readSessions(strings.NewReader(r), 10, false); return err }},
		"backends": {"# name\nrr\n\n", func(r string) error { _, err := parseBackends(r); return err }},
		"probe":    {"No such backend.\n\n", parseProbe},
	} {
		if err := tt.parse(tt.reply); err != nil {
			t.Errorf("%s: whole reply: %v", name, err)
		}
		if err := tt.parse(tt.reply + "\n"); err != nil {
			t.Errorf("%s: one more empty line: %v", name, err)
		}
		if err := tt.parse(tt.reply + "boing\n"); err == nil {
			t.Errorf("%s: more text at the end gave no error", name)
		}
		for i := range len(tt.reply) {
			if err := tt.parse(tt.reply[:i]); err == nil {
				t.Errorf("%s: no error for the first %d bytes of %d", name, i, len(tt.reply))
			}
		}
	}
}

// TestGarbledState: a number that is none, a missing or short column is an
// error, and a new column is not.
func TestGarbledState(t *testing.T) {
	whole := infoText + tailText + statText
	for _, tt := range []struct {
		old, new string
		want     error
	}{
		{"", "", nil},
		{"srvrecord\n", "srvrecord brand_new\n", ErrMismatch}, // rows lack it
		{" 5 100 4", " x 100 4", ErrMismatch},
		{" 5 100 4", " -5 100 4", ErrMismatch},
		{" 5 100 4", " 257 100 4", ErrMismatch},
		{" 5 100 4", " 5 1e2 4", ErrMismatch},
		{" 5 100 4", " 5  4", ErrMismatch},
		{"127.0.0.1 2 0 5", "127.0.0.1 ? 0 5", ErrMismatch},
		{"srv_uweight", "srv_weight", ErrMismatch},
		{"3 rr 1 s1", "3 other 1 s1", ErrMismatch},
		{"3 rr 1 s1", "3 rr 1 s\x1b[31m1", ErrMismatch},
		{"3 rr 1 s1", "3 rr 1 s1;disable", ErrMismatch},
		{"3 rr 1 s1", "3 rr 1 \xff", ErrMismatch},
		{"3 rr 1 s1", "3 rr 1 " + strings.Repeat("s", maxName+1), ErrMismatch},
		{"1\n# be_id", "2\n# be_id", ErrMismatch},
		{"rr,s1,1,10", "rr,s1,,10", ErrMismatch},
		{"rr,s1,1,10", "rr,s1,1,10000000000000000000000", ErrMismatch},
		{"rr,s1,1,10", "rr,s9,1,10", errChanging},
		{"rr,s1,1,10,0,2,1,,,,\n", "", errChanging},
		{"rr,s1,1,10,0,2,1,,,,\n", "rr,s1,1,10,0\n", ErrMismatch},
		{"rr,s1,1,10,0,2,1,,,,\n", "rr,\"s1,1,10,0,2,1,,,,\n", ErrMismatch},
		{"rr,s1,1,10,0,2,1", "rr,s1,1,10,0,2,x", ErrMismatch},
		{",40,L7OK", ",4o,L7OK", ErrMismatch},
		{"scur", "cur", ErrMismatch},
		{"# pxname", "# psname", ErrMismatch},
		{"rr,BACKEND,3,30,0,1,0,,,random,\n", "", errNoRows},
		{"rr,BACKEND,3,30,0,1,0,,,random,\n", "rr,BACKEND,3,30,0,1,0,,,random,\nother,s1,x,x,x,2,1,,,,\nrr,FRONTEND,9,9,9,0,9,9,9,9,\n", nil},
		{"Pid: 17", "Pid: ", ErrMismatch},
		{"Pid: 17\n", "", ErrMismatch},
		{"Pid: 17", "Pid: 0", ErrMismatch},
		{"Stopping: 0", "Stopping: no", ErrMismatch},
		{"Stopping: 0", "Stopping: 1", ErrStopping},
		{"Start_time_sec: 1795981600\n", "", ErrMismatch},
		{"Version: 2.6.12\n", "", ErrMismatch},
		{infoText, "", ErrMismatch},
		{infoText, "Permission denied\n\n", ErrPermission},
		{statText, "No such proxy.\n\n", ErrNoBackend},
		{tailText, "Can't find backend.\n\n", ErrNoBackend},
		{tailText, "\n" + tailText, nil},
	} {
		reply := strings.Replace(whole, tt.old, tt.new, 1)
		if tt.old != "" && reply == whole {
			t.Fatalf("%q is not in the reply", tt.old)
		}
		_, _, err := parseState(reply, "rr", false)
		if !errors.Is(err, tt.want) {
			t.Errorf("%q for %q: %v, want %v", tt.new, tt.old, err, tt.want)
		}
	}
}

// TestAlgorithmWithoutName: HAProxy says "unknown" of random, and in mode log of others.
func TestAlgorithmWithoutName(t *testing.T) {
	for _, tt := range []struct{ algo, mode, want string }{
		{"unknown", "tcp", "random"}, {"unknown", "http", "random"}, {"unknown", "syslog", "unknown"}, {"unknown", "", "unknown"},
		{"roundrobin", "tcp", "roundrobin"}, {"", "tcp", ""},
	} {
		stat := strings.NewReplacer("algo,", "algo,mode,", "L7OK,,\n", "L7OK,,,\n", "1,,,,\n", "1,,,,,\n", "random,\n", tt.algo+","+tt.mode+",\n").Replace(statText)
		s, _, err := parseState(infoText+tailText+stat, "rr", false)
		if err != nil {
			t.Fatal(err)
		}
		if s.Algorithm != tt.want {
			t.Errorf("algo %q in mode %q: %q, want %q", tt.algo, tt.mode, s.Algorithm, tt.want)
		}
	}
}

func TestParsedState(t *testing.T) {
	wide := strings.NewReplacer("srvrecord\n", "srvrecord brand_new\n", "4 -\n", "4 - 9\n", "example.com\n", "example.com 9\n").Replace(tailText)
	for _, tail := range []string{tailText, wide} {
		s, id, err := parseState(infoText+tail+statText, "rr", false)
		if err != nil {
			t.Fatal(err)
		}
		got := fmt.Sprintf("%d %s %+v", id, s.Algorithm, s.Servers)
		want := "3 random [{Name:s1 ID:1 Op:running Admin:ready Weight:5 InitialWeight:100 SinceChange:4s Sessions:1 TotalSessions:10 Backup:false Throttled:false Agent: SRV:}" +
			" {Name:s2 ID:2 Op:running Admin:ready Weight:6 InitialWeight:100 SinceChange:4s Sessions:2 TotalSessions:20 Backup:true Throttled:true Agent:L7OK SRV:_ingest._tcp.example.com}]"
		if got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}
