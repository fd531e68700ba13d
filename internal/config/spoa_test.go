package config

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestListenBeyondThisMachine: it works, and is told.
func TestListenBeyondThisMachine(t *testing.T) {
	for address, warned := range map[string]bool{
		"127.0.0.1:9002": false, "127.8.9.1:9002": false, "[::1]:9002": false, "localhost:9002": false, "unix:/run/spoa.sock": false,
		"0.0.0.0:9002": true, "[::]:9002": true, "10.1.2.3:9002": true, "lb1.example.com:9002": true,
	} {
		c, err := Parse("weighter.toml", []byte(Minimal+fmt.Sprintf("\n[spoa]\nlisten = [%q]\n", address)), testEnv)
		if err != nil {
			t.Errorf("%s: %v", address, err)
			continue
		}
		if diff := cmp.Diff([]string{address}, texts(c.SPOA.Listen)); diff != "" {
			t.Errorf("printed (-want +got):\n%s", diff)
		}
		if (len(c.Warnings) == 1) != warned {
			t.Errorf("%s: warnings %v", address, c.Warnings)
			continue
		}
		if warned {
			w := c.Warnings[0]
			if w.Key != "spoa.listen" || !strings.Contains(w.Text, address) || w.Line != 1+strings.Count(Minimal, "\n")+2 {
				t.Errorf("%s: warning %+v", address, w)
			}
		}
	}
}

func texts(listeners []Listener) []string {
	var all []string
	for _, l := range listeners {
		all = append(all, l.String())
	}
	return all
}
