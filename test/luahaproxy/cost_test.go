package luahaproxy

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/haproxy-weighter/haproxy-weighter/internal/balancer"
	"github.com/haproxy-weighter/haproxy-weighter/test/haproxyproc"
)

// TestRequestsBesideManyServers has requests answered while a table of 2,000 servers comes
// again and again, all of them changed, twice a second. Each answer is of a table that there
// was; what that costs is for docs/lua.md, and is printed with -v.
func TestRequestsBesideManyServers(t *testing.T) {
	many := func(first int) *balancer.Table {
		x := table("ingest")
		for i := range 2000 {
			x.Rows = append(x.Rows, row(fmt.Sprintf("server-%04d", i), float64(first+i)))
		}
		return x
	}
	port := freePorts(t, 1)[0]
	l := listen(t, table("ingest", row("server-0000", 7)))
	config := strings.Replace(global(t, "lua-load-per-thread", l.address), "100ms", "500ms", 1) + defaults + fmt.Sprintf(`
frontend in
  bind 127.0.0.1:%d
  http-request return status 200 content-type text/plain lf-string "%%[lua.weighter_load(ingest,server-0000)]"
`, port)
	p := start(t, haproxyproc.Options{Config: config})
	get := client(t, port)
	until(t, p, func() (bool, string) { answer := get("/", nil); return answer == "7", answer })
	before := memory(t, p)
	quiet := requests(t, get, 3*time.Second, func(string) bool { return true }, nil)

	published := 0
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	last := 0
	busy := requests(t, get, 5*time.Second, func(answer string) bool {
		n, err := strconv.Atoi(answer)
		last = max(last, n)
		// Each thread of HAProxy reads for itself, one before the other.
		return err == nil && (n == 7 || n > 1000 && n <= 1000+published)
	}, func() {
		select {
		case <-tick.C:
			published++
			l.publish(many(1000 + published))
		default:
		}
	})
	if last <= 1000 {
		t.Errorf("no table of many servers has come: the last load is %d", last)
	}
	// The same tables alone, for the processor time.
	const tables = 6
	cpu := processor(t, p)
	for range tables {
		<-tick.C
		published++
		l.publish(many(1000 + published))
	}
	<-tick.C
	alone := (processor(t, p) - cpu) / (tables * threads)
	t.Logf("a request takes, median and 99th percentile: %s beside a table of one server, %s beside one of 2,000 that changes twice a second; each thread of HAProxy needs %s of processor time a table and %d MB of memory",
		quiet, busy, alone.Round(time.Millisecond), (memory(t, p)-before)/threads>>20)
}

// threads is "nbthread" of the section global.
const threads = 2

// requests asks again and again for some time; it returns the median and the 99th
// percentile of how long an answer took.
func requests(t *testing.T, get func(string, map[string]string) string, d time.Duration, fine func(string) bool, between func()) string {
	t.Helper()
	var took []time.Duration
	for end := time.Now().Add(d); time.Now().Before(end); {
		begin := time.Now()
		answer := get("/", nil)
		took = append(took, time.Since(begin))
		if !fine(answer) {
			t.Fatalf("the answer is %q", answer)
		}
		if between != nil {
			between()
		}
	}
	slices.Sort(took)
	return fmt.Sprintf("%s and %s", took[len(took)/2].Round(10*time.Microsecond), took[len(took)*99/100].Round(10*time.Microsecond))
}

// memory is what HAProxy's process holds, in bytes.
func memory(t *testing.T, p *haproxyproc.Process) int {
	t.Helper()
	fields := strings.Fields(read(t, fmt.Sprintf("/proc/%d/statm", p.PID())))
	pages, err := strconv.Atoi(fields[1])
	if err != nil {
		t.Fatal(err)
	}
	return pages * os.Getpagesize()
}

// processor is the processor time that HAProxy's process has had.
func processor(t *testing.T, p *haproxyproc.Process) time.Duration {
	t.Helper()
	_, rest, _ := strings.Cut(read(t, fmt.Sprintf("/proc/%d/stat", p.PID())), ") ")
	var ticks int
	for _, field := range strings.Fields(rest)[11:13] { // utime and stime, in hundredths of a second
		n, err := strconv.Atoi(field)
		if err != nil {
			t.Fatal(err)
		}
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}
