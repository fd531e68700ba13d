package spoe

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/haproxy-weighter/haproxy-weighter/test/haproxyproc"
	"github.com/haproxy-weighter/haproxy-weighter/test/haproxytest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// onEach sets a scene in every version of HAProxy.
func onEach(t *testing.T, o Options, body func(t *testing.T, s *Scene, b haproxyproc.Binary)) {
	t.Helper()
	haproxytest.ForEachVersion(t, func(t *testing.T, b haproxyproc.Binary) {
		o.Binary = b.Path
		s, err := Start(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(s.Close)
		body(t, s, b)
	})
}

// connect makes one connection and reads its line in the log.
func connect(t *testing.T, s *Scene, first []byte) (server, log string) {
	t.Helper()
	v, err := s.Connect(t.Context(), first)
	if err != nil {
		t.Fatalf("%v; HAProxy's log: %s", err, s.HAProxy.Log())
	}
	log, err = s.Log(v)
	if err != nil {
		t.Fatalf("%v; HAProxy's log: %s", err, s.HAProxy.Log())
	}
	return v.Server, log
}
