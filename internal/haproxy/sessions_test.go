package haproxy

import (
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestSessionDump(t *testing.T) {
	f := newFakeServer(t)
	f.sessions = []string{
		"0x55c32b6c0d80: proto=tcpv4 src=127.0.0.1:53772 fe=f be=rr srv=s1 ts=00 epoch=0x1 age=2s calls=3 rate=1 cpu=0 lat=0 rq[f=848000h,i=0,an=00h,rx=27s,wx=,ax=] exp=27s rc=0 c_exp=",
		"0x55c32b6c0d81: proto=tcpv6 src=::1:53772 fe=f be=rr srv=s2 ts=00 age=4d3h calls=3",
		"0x55c32b6c0d82: proto=unix_stream src=unix:1 fe=GLOBAL be=<NONE> srv=<none> ts=00 epoch=0x1 age=0s calls=1",
		"0x55c32b6c0d83: proto=tcpv4 src=127.0.0.1:1 fe=f be=rr srv=<none> ts=00 age=1s calls=1",
		"0x55c32b6c0d84: proto=tcpv4 src=127.0.0.1:1 fe=f be=other srv=s1 ts=00 age=? calls=1",
		"0x55c32b6c0d85: proto=tcpv4 src=127.0.0.1:1 fe=f be=other srv=s1 ts=00 age=59m59s calls=1",
	}
	f.sessions = append(f.sessions, "")
	c := NewClient(f.address(), Options{})
	s, err := c.SessionAges(t.Context(), 5)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string][]time.Duration{"rr": {2 * time.Second, 99 * time.Hour}, "other": {time.Hour - time.Second}}
	if diff := cmp.Diff(want, s.Ages); diff != "" || s.Unplaced != 2 || s.Unknown != 1 {
		t.Errorf("%+v (-want +got):\n%s", s, diff)
	}
	// HAProxy's count of connections said 0: the dump itself is bounded too.
	if _, err := c.SessionAges(t.Context(), 4); !errors.Is(err, ErrTooManySessions) {
		t.Errorf("6 lines with a limit of 4: %v", err)
	}
	f.info.Connections = 6
	before := len(f.received())
	if _, err := c.SessionAges(t.Context(), 5); !errors.Is(err, ErrTooManySessions) {
		t.Errorf("6 connections with a limit of 5: %v", err)
	}
	if n := len(f.received()) - before; n != 1 {
		t.Errorf("%d connections for a dump that is too large, want 1", n)
	}
}

func TestBadSessionDumps(t *testing.T) {
	for reply, want := range map[string]error{
		"Permission denied\n\n":                          ErrPermission,
		"boing\n\n":                                      ErrMismatch,
		"0x1: fe=f be=rr srv=s1 calls=3\n\n":             ErrMismatch,
		"0x1: fe=f srv=s1 age=1s\n\n":                    ErrMismatch,
		"0x1: fe=f be=rr age=1s\n\n":                     ErrMismatch,
		"0x1: fe=f be=rr srv=s1 age=1x\n\n":              ErrMismatch,
		"0x1: be=rr srv=s1 age=1s\n":                     ErrTruncated,
		"0x1: be=rr srv=s1 age=1s\n\nmore\n":             ErrMismatch,
		"0x1: " + strings.Repeat("x", maxSessionLine):    ErrMismatch,
		"0x1: " + strings.Repeat("x", maxSessionLine-10): ErrTruncated,
	} {
		if _, err := readSessions(strings.NewReader(infoText+reply), 10, false); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", cut(reply), err, want)
		}
	}
	endless := io.MultiReader(strings.NewReader("Name: HAProxy\n"), strings.NewReader(strings.Repeat("Key: value\n", 10000)))
	if _, err := readSessions(endless, 10, false); !errors.Is(err, ErrMismatch) {
		t.Errorf("endless show info: %v", err)
	}
}

func TestParseAge(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"0s": 0, "7s": 7 * time.Second, "1m": time.Minute, "1m5s": 65 * time.Second, "59m59s": time.Hour - time.Second,
		"1h": time.Hour, "1h5s": time.Hour + 5*time.Second, "2h3m": 123 * time.Minute, "23h59m": 24*time.Hour - time.Minute,
		"1d": 24 * time.Hour, "4d3h": 99 * time.Hour, "1d5m": 24*time.Hour + 5*time.Minute, "24855d3h": 24855*24*time.Hour + 3*time.Hour,
	} {
		if got, err := parseAge(text); err != nil || got != want {
			t.Errorf("parseAge(%q) = %v, %v, want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "s", "5", "5x", "-5s", "5s1m", "1m1m", "1.5s", " 5s", "5s ", "?", "99999d", "99999999999999999999s", "5S"} {
		if got, err := parseAge(text); !errors.Is(err, ErrMismatch) {
			t.Errorf("parseAge(%q) = %v, %v", text, got, err)
		}
	}
}
