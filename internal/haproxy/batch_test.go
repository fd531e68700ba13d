package haproxy

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
)

// TestReloadBetweenLines: the first line reached a worker that is gone when
// the second is sent, so both are sent again.
func TestReloadBetweenLines(t *testing.T) {
	f := newFakeServer(t)
	n := 0
	f.conn = func(c net.Conn, line string) {
		if n++; n == 3 { // a reload: weights back, another process
			f.mu.Lock()
			f.backends = sceneBackends()
			f.info.Worker = Worker{PID: 4712, StartTime: 1795981700}
			f.mu.Unlock()
		}
		io.WriteString(c, f.reply(line))
	}
	c := NewClient(f.address(), Options{})
	out, err := c.SetWeights(t.Context(), "rr", []Change{{"s1", 5}, {"s2", 6}}, 1)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]int{"s1": 5, "s2": 6, "s3": 50, "s4": 0}
	if diff := cmp.Diff(want, weights(out.After)); diff != "" || out.Applied != 2 || out.Info.Worker.PID != 4712 {
		t.Errorf("%+v (-want +got):\n%s", out, diff)
	}
}

// fiveServers replaces the servers of backend rr by five that are all the same.
func (f *fakeServer) fiveServers() []*Server {
	rr := f.backend("rr")
	rr.servers = nil
	for i := range 5 {
		rr.servers = append(rr.servers, &Server{Name: fmt.Sprintf("s%d", i+1), ID: i + 1, Op: OpRunning, Weight: 100, InitialWeight: 100})
	}
	return rr.servers
}

// TestTakenOutBetweenLines: what an operator, or the configuration of a new
// worker, takes out while the batch is on its way is not put back by the rest
// of it.
func TestTakenOutBetweenLines(t *testing.T) {
	for name, test := range map[string]struct {
		meanwhile func(f *fakeServer, s []*Server) // before the second line of weights
		want      map[string]int
		lines     int
	}{
		"by hand": {
			func(_ *fakeServer, s []*Server) { s[2].Weight, s[3].Admin, s[4].Admin = 0, ForcedDrain, ForcedMaint },
			map[string]int{"s1": 5, "s2": 6, "s3": 0, "s4": 100, "s5": 100}, 3,
		},
		// That line is what finds the new worker out, so s2 has its weight.
		"by a reload": {
			func(f *fakeServer, _ []*Server) {
				s := f.fiveServers()
				s[2].Weight, s[3].Admin, s[4].Admin = 0, ForcedDrain, ForcedMaint
				f.info.Worker = Worker{PID: 4712, StartTime: 1795981700}
			},
			map[string]int{"s1": 5, "s2": 6, "s3": 0, "s4": 100, "s5": 100}, 6,
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFakeServer(t)
			servers, n := f.fiveServers(), 0
			f.conn = func(c net.Conn, line string) {
				if n++; n == 3 {
					f.mu.Lock()
					test.meanwhile(f, servers)
					f.mu.Unlock()
				}
				io.WriteString(c, f.reply(line))
			}
			c := NewClient(f.address(), Options{})
			out, err := c.SetWeights(t.Context(), "rr", []Change{{"s1", 5}, {"s2", 6}, {"s3", 7}, {"s4", 8}, {"s5", 9}}, 1)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, weights(out.After)); diff != "" || out.Applied != 2 || len(out.Failed) != 3 || n != test.lines {
				t.Errorf("%+v in %d lines (-want +got):\n%s", out, n, diff)
			}
			for _, name := range []string{"s3", "s4", "s5"} {
				if !errors.Is(out.Failed[name], ErrTakenOut) {
					t.Errorf("%s: %v", name, out.Failed[name])
				}
			}
		})
	}
}

// TestTakenOutWhileALineWaits has the wait for a free connection between two
// lines last for as long as an operator needs.
func TestTakenOutWhileALineWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeServer{t: t, backends: sceneBackends(), info: Info{Worker: Worker{PID: 4711, StartTime: 1795981600}, Version: "2.6.12"}}
		servers := f.fiveServers()
		var c *Client
		c = NewClient(Address{}, Options{MaxConnections: 1, Dial: func(context.Context) (net.Conn, error) {
			here, there := net.Pipe()
			go func() {
				defer there.Close()
				line, _ := bufio.NewReader(there).ReadString('\n')
				if strings.Contains(line, "rr/s1 weight") {
					go func() {
						c.slots <- struct{}{} // before the next line, which waits in this queue as well
						f.mu.Lock()
						servers[1].Weight = 0
						f.mu.Unlock()
						<-c.slots
					}()
					synctest.Wait()
				}
				io.WriteString(there, f.reply(line))
			}()
			return here, nil
		}})
		out, err := c.SetWeights(t.Context(), "rr", []Change{{"s1", 5}, {"s2", 6}, {"s3", 7}}, 1)
		if err != nil {
			t.Fatal(err)
		}
		want := map[string]int{"s1": 5, "s2": 0, "s3": 7, "s4": 100, "s5": 100}
		if diff := cmp.Diff(want, weights(out.After)); diff != "" || !errors.Is(out.Failed["s2"], ErrTakenOut) || out.Applied != 2 {
			t.Errorf("%+v (-want +got):\n%s", out, diff)
		}
	})
}

// TestFailureBetweenLines: what went through is told along with the error.
func TestFailureBetweenLines(t *testing.T) {
	f := newFakeServer(t)
	n := 0
	f.conn = func(c net.Conn, line string) {
		if n++; n <= 2 {
			io.WriteString(c, f.reply(line))
		}
	}
	c := NewClient(f.address(), Options{})
	out, err := c.SetWeights(t.Context(), "rr", []Change{{"s1", 5}, {"s2", 6}}, 1)
	if !errors.Is(err, ErrTruncated) || out == nil || weights(out.After)["s1"] != 5 || out.Applied != 1 {
		t.Errorf("%+v, %v", out, err)
	}
}

// TestSecondWriter: HAProxy accepts and something else sets it back at once.
func TestSecondWriter(t *testing.T) {
	f := newFakeServer(t)
	f.conn = func(c net.Conn, line string) {
		reply := f.reply(line)
		if strings.Contains(line, "weight") {
			f.mu.Lock()
			f.backend("rr").servers[0].Weight = 99
			f.mu.Unlock()
			reply = f.reply("show info\n") + "\n\n" + f.reply("show servers state rr\n")
		}
		io.WriteString(c, reply)
	}
	out := mustSet(t, NewClient(f.address(), Options{}), "rr", Change{"s1", 5}, Change{"s2", 6})
	if out.Applied != 1 || !errors.Is(out.Failed["s1"], ErrNotKept) || !strings.Contains(out.Failed["s1"].Error(), "set to 5 and is 99") {
		t.Errorf("outcome %+v", out)
	}
}
