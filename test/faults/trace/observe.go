package trace

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"
)

// Observer asks a HAProxy again and again for the state of one backend. It
// holds no connection: one that is held stays with a worker that is gone for
// everyone else, and keeps it alive.
type Observer struct {
	Socket  string        // path of the runtime socket
	Backend string        // whose servers are recorded
	Every   time.Duration // pause between two questions; 0 means 10 ms
	Trace   *Trace
}

// questionLimit bounds one question to a HAProxy that hangs. It is tried again.
const questionLimit = 2 * time.Second

// Run observes until ctx ends. A HAProxy that does not answer is no state.
func (o *Observer) Run(ctx context.Context) {
	every := o.Every
	if every <= 0 {
		every = 10 * time.Millisecond
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		asked := time.Now()
		if worker, servers, err := o.ask(ctx); err == nil {
			o.Trace.saw(worker, servers, asked, time.Now())
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (o *Observer) ask(ctx context.Context) (Worker, map[string]Server, error) {
	ctx, cancel := context.WithTimeout(ctx, questionLimit)
	defer cancel()
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", o.Socket)
	if err != nil {
		return Worker{}, nil, err
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	if _, err := io.WriteString(conn, "show info;show servers state "+o.Backend+"\n"); err != nil {
		return Worker{}, nil, err
	}
	return read(bufio.NewReader(conn), o.Backend)
}

// read reads the answers to "show info" and "show servers state". One of a
// worker that is stopping is an error: its weights count for nobody.
func read(r *bufio.Reader, backend string) (Worker, map[string]Server, error) {
	var worker Worker
	servers := make(map[string]Server)
	whole := false
	for {
		line, err := r.ReadString('\n')
		if err == io.EOF {
			break
		}
		if err != nil {
			return worker, nil, err
		}
		line = strings.TrimSuffix(line, "\n")
		if key, value, ok := strings.Cut(line, ": "); ok && !whole {
			switch key {
			case "Pid":
				worker.PID, err = strconv.Atoi(value)
			case "Start_time_sec":
				worker.Start, err = strconv.ParseInt(value, 10, 64)
			case "Stopping":
				if value != "0" {
					err = fmt.Errorf("worker %d is stopping", worker.PID)
				}
			}
			if err != nil {
				return worker, nil, err
			}
			continue
		}
		if strings.HasPrefix(line, "# be_id ") {
			whole = true
		}
		fields := strings.Fields(line)
		if !whole || len(fields) < 9 || fields[0] == "#" || fields[1] != backend {
			continue
		}
		var n [4]int
		for i := range n {
			if n[i], err = strconv.Atoi(fields[5+i]); err != nil {
				return worker, nil, err
			}
		}
		servers[fields[3]] = Server{Op: n[0], Admin: n[1], Weight: n[2], Initial: n[3]}
	}
	if worker.PID == 0 || !whole {
		return worker, nil, io.ErrUnexpectedEOF
	}
	return worker, servers, nil
}
