package haproxy

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"time"
)

// What Options.Observe is told: an answer that came whole is good, whatever it
// says; one that is cut short or is somebody else's is not.
func TestObserve(t *testing.T) {
	const info = "Name: HAProxy\nVersion: 2.6.12\nPid: 7\nStart_time_sec: 1000\nUptime_sec: 5\nStopping: 0\nCurrConns: 1\n\n"
	for name, test := range map[string]struct {
		answer string
		want   error // nil: good
	}{
		"good":              {info, nil},
		"refused":           {"Permission denied\n\n", nil},
		"of another server": {"220 mail.example.com ESMTP\n\n", ErrMismatch},
		"cut":               {info[:40], ErrTruncated},
		"nothing":           {"", ErrTruncated},
	} {
		t.Run(name, func(t *testing.T) {
			var seen []error
			var answering sync.WaitGroup
			c := NewClient(Address{}, Options{
				Dial: func(context.Context) (net.Conn, error) {
					here, there := net.Pipe()
					answering.Go(func() {
						defer there.Close()
						_, _ = bufio.NewReader(there).ReadString('\n')
						_, _ = io.WriteString(there, test.answer)
					})
					return here, nil
				},
				Observe: func(command string, err error, _ time.Duration) {
					if command != "info" {
						t.Errorf("command %q", command)
					}
					seen = append(seen, err)
				},
			})
			_, _ = c.Info(t.Context())
			answering.Wait()
			if len(seen) != 1 || !errors.Is(seen[0], test.want) || test.want == nil && seen[0] != nil {
				t.Errorf("told %v, want one call with %v", seen, test.want)
			}
		})
	}
}
