package spoe

import (
	"strings"
	"testing"

	"github.com/haproxy-weighter/haproxy-weighter/test/haproxyproc"
)

// TestUseServer holds what the document says of use-server with a name that
// is not of a server in rotation.
func TestUseServer(t *testing.T) {
	o := Options{Example: "tcp-pick", Handler: Fixed{"weighter-pick": {"server": "s2"}}}
	onEach(t, o, func(t *testing.T, s *Scene, _ haproxyproc.Binary) {
		for _, c := range []struct {
			commands []string
			used     bool
		}{
			{[]string{"set server ingest/s2 weight 0"}, true},
			{[]string{"set server ingest/s2 weight 100", "set server ingest/s2 state drain"}, true},
			{[]string{"set server ingest/s2 state maint"}, false},
			{[]string{"set server ingest/s2 state ready", "disable health ingest/s2", "set server ingest/s2 health down"}, false},
			{[]string{"set server ingest/s2 health up"}, true},
		} {
			for _, command := range c.commands {
				if err := s.Command(t.Context(), command); err != nil {
					t.Fatal(err)
				}
			}
			server, log := connect(t, s, nil)
			if used := server == "s2"; used != c.used || !strings.HasPrefix(server, "s") {
				t.Errorf("after %q the connection went to %q; log %q", c.commands, server, log)
			}
		}
	})
}
