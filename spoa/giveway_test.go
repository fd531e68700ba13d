package spoa

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/negasus/haproxy-spoe-go/action"
	"github.com/negasus/haproxy-spoe-go/frame"
)

// TestIdleConnectionsGiveWay: when all places are taken, those that have never
// asked give theirs up first, then those that have not asked for longest.
func TestIdleConnectionsGiveWay(t *testing.T) {
	fake(t, &Server{MaxConns: 4}, func(t *testing.T, f *faked) {
		askedFirst := f.connect()
		askedFirst.ask(1, nil)
		time.Sleep(giveWayAfter)
		askedLast := f.connect()
		askedLast.ask(1, nil)
		silent := f.l.dial(t) // not even a HELLO
		time.Sleep(giveWayAfter)
		begun := f.connect()
		begun.send(notifyFrame(1, nil)[:7]) // and nothing more of that frame
		time.Sleep(giveWayAfter)
		for _, loser := range []*peer{silent, begun, askedFirst, askedLast} {
			newcomer := f.connect()
			loser.mustDisconnect(statusNormal)
			f.seen.mustClose(t, ReasonGaveWay)
			newcomer.ask(1, nil)
			time.Sleep(giveWayAfter)
		}
	})
}

// TestConnectionsInUseKeepTheirPlaces: who has come or asked just now, or waits
// for an answer, stays; the one that comes then is refused.
func TestConnectionsInUseKeepTheirPlaces(t *testing.T) {
	var asked, release chan struct{} // of the bubble
	slow := HandlerFunc(func(*action.Actions, *Request) error {
		asked <- struct{}{}
		<-release
		return nil
	})
	fake(t, &Server{MaxConns: 2, Handler: slow}, func(t *testing.T, f *faked) {
		asked, release = make(chan struct{}), make(chan struct{})
		refused := func() {
			t.Helper()
			f.l.dial(t).mustDisconnect(statusResources)
			f.seen.mustClose(t, ReasonTooMany)
		}
		first, second := f.connect(), f.connect()
		time.Sleep(giveWayAfter - time.Nanosecond)
		refused()
		for _, p := range []*peer{first, second} {
			p.send(notifyFrame(1, nil))
			<-asked
		}
		time.Sleep(time.Minute)
		refused()
		close(release)
		for _, p := range []*peer{first, second} {
			if r := p.mustRead(); r.Kind != frame.TypeAgentAck {
				t.Errorf("got %+v, want an ACK", r)
			}
		}
		refused() // they are free since a moment
		time.Sleep(giveWayAfter)
		f.connect()
		first.mustDisconnect(statusNormal)
	})
}

// TestThoseThatGiveWayAreBounded: peers that do not read why they have to go
// hold few places beyond the limit, and for a moment only.
func TestThoseThatGiveWayAreBounded(t *testing.T) {
	fake(t, &Server{MaxConns: 2 * mostLeaving}, func(t *testing.T, f *faked) {
		f.seen.closed = make(chan Reason, 1000)
		for range 2 * mostLeaving {
			f.connect()
		}
		time.Sleep(giveWayAfter)
		for range mostLeaving {
			f.connect()
		}
		f.l.dial(t).mustDisconnect(statusResources)
		f.seen.mustClose(t, ReasonTooMany)
		time.Sleep(refusalTimeout)
		for range mostLeaving {
			f.seen.mustClose(t, ReasonGaveWay)
		}
		f.connect()
	})
}

// TestGivingWayIsTold: once a second, with both ends.
func TestGivingWayIsTold(t *testing.T) {
	fake(t, &Server{MaxConns: 1}, func(t *testing.T, f *faked) {
		f.seen.closed = make(chan Reason, 1000)
		var log bytes.Buffer
		f.connect().nc.Close() // the server has begun
		f.seen.mustClose(t, ReasonPeerClosed)
		f.server.settings.logger = slog.New(slog.NewTextHandler(&log, nil))
		last := f.connect()
		for range 20 {
			time.Sleep(100 * time.Millisecond)
			next := f.connect()
			last.mustDisconnect(statusNormal)
			last = next
		}
		if n := strings.Count(log.String(), "another one came"); n != 2 {
			t.Errorf("%d lines in two seconds: %s", n, log.String())
		}
		for _, words := range []string{"remote=pipe has_asked=false in_favour_of=pipe max_connections=1", "more_of_these=9"} {
			if !strings.Contains(log.String(), words) {
				t.Errorf("%q is not in %s", words, log.String())
			}
		}
	})
}
