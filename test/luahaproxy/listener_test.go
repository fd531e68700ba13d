package luahaproxy

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/haproxy-weighter/haproxy-weighter/internal/api"
	"github.com/haproxy-weighter/haproxy-weighter/internal/balancer"
	"github.com/haproxy-weighter/haproxy-weighter/weighting"
)

// listener answers /api/v1/table as the daemon's read-only listener does, and
// has faults to switch on.
type listener struct {
	network, address string

	mu     sync.Mutex
	body   string
	fault  http.HandlerFunc // answers instead, when not nil
	free   chan struct{}    // closed when a fault that waits may go on
	asked  map[string]int   // by method
	server *http.Server
	served chan error
}

// listen starts a listener on a free port of 127.0.0.1.
func listen(t *testing.T, tables ...*balancer.Table) *listener {
	t.Helper()
	return listenOn(t, "tcp", fmt.Sprintf("127.0.0.1:%d", freePorts(t, 1)[0]), tables...)
}

func listenOn(t *testing.T, network, address string, tables ...*balancer.Table) *listener {
	t.Helper()
	l := &listener{network: network, address: address, body: encode(tables...), free: make(chan struct{}), asked: map[string]int{}}
	l.start(t)
	t.Cleanup(func() { l.stop(t) })
	return l
}

func (l *listener) start(t *testing.T) {
	t.Helper()
	socket, err := net.Listen(l.network, l.address)
	for tries := 0; errors.Is(err, syscall.EADDRINUSE) && l.network == "tcp" && l.served == nil && tries < 20; tries++ {
		l.address = fmt.Sprintf("127.0.0.1:%d", freePorts(t, 1)[0]) // nobody knows the old one yet
		socket, err = net.Listen(l.network, l.address)
	}
	if err != nil {
		t.Fatal(err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	server, served := &http.Server{Handler: l, ReadHeaderTimeout: patience}, make(chan error, 1)
	l.server, l.served = server, served
	go func() { served <- server.Serve(socket) }()
}

// stop closes the listener and all its connections. It may be called again.
func (l *listener) stop(t *testing.T) {
	t.Helper()
	l.release()
	l.mu.Lock()
	server, served := l.server, l.served
	l.server = nil
	l.mu.Unlock()
	if server == nil {
		return
	}
	server.Close()
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		t.Errorf("the listener ended: %v", err)
	}
}

// publish gives new tables and ends a fault, for requests that come from now on.
func (l *listener) publish(tables ...*balancer.Table) {
	body := encode(tables...)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.body, l.fault = body, nil
}

// breakWith begins a fault.
func (l *listener) breakWith(fault http.HandlerFunc) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fault = fault
}

// release lets faults that wait go on.
func (l *listener) release() {
	l.mu.Lock()
	defer l.mu.Unlock()
	close(l.free)
	l.free = make(chan struct{})
}

// released tells when faults that wait may go on.
func (l *listener) released() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.free
}

// requests is how many of a method have come.
func (l *listener) requests(method string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.asked[method]
}

func (l *listener) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	l.mu.Lock()
	fault, body := l.fault, l.body
	l.asked[r.Method]++
	l.mu.Unlock()
	switch {
	case fault != nil:
		fault(w, r)
	case r.URL.Path != "/api/v1/table" || r.URL.Query().Get("reasons") != "no":
		http.NotFound(w, r)
	case r.ContentLength != 0:
		http.Error(w, "a request that reads has no body", http.StatusRequestEntityTooLarge)
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		http.Error(w, "read only", http.StatusMethodNotAllowed)
	default:
		send(w, body)
	}
}

// send answers with a whole body; it is also a fault when the body is one.
func send(w http.ResponseWriter, body string) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	_, _ = w.Write([]byte(body)) // the client may have gone
}

// encode makes the answer, without the rows' reasons.
func encode(tables ...*balancer.Table) string {
	all := api.Tables{Tables: []api.Table{}}
	for _, t := range tables {
		e := api.TableOf(t)
		for i := range e.Servers {
			e.Servers[i].Reasons = []weighting.Reason{}
		}
		all.Tables = append(all.Tables, e)
	}
	body, err := json.Marshal(all)
	if err != nil {
		panic(err) // a load that is no number: a mistake of the test
	}
	return string(body)
}

// table is the last pass of a backend, just now.
func table(backend string, rows ...balancer.Row) *balancer.Table {
	return &balancer.Table{
		Backend: backend, Socket: "/run/haproxy/admin.sock", Time: time.Now(), Rows: rows,
		MaxAge: time.Hour, Quorum: 0.5, Better: weighting.Lower,
	}
}

// row is a server in rotation with weight 100 and data that are 1.2 s old.
func row(name string, load float64) balancer.Row {
	age := 1.2
	return balancer.Row{
		Server: name, Load: &load, AgeSeconds: &age, Capacity: 1, Weight: 100, AppliedWeight: 100,
		AdminState: "ready", OpState: "running",
	}
}

// but changes a row.
func but(r balancer.Row, change func(*balancer.Row)) balancer.Row {
	change(&r)
	return r
}
