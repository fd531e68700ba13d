package report

import (
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/haproxy-weighter/haproxy-weighter/internal/balancer"
	"github.com/haproxy-weighter/haproxy-weighter/internal/config"
	"github.com/haproxy-weighter/haproxy-weighter/test/logbook"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// begin is the start of an interval of a minute.
var begin = time.Unix(1795974000, 0)

// row is a server with a load whose data are ten seconds old.
func row(name string, load float64, weight int) balancer.Row {
	age := 10.0
	return balancer.Row{Server: name, Load: &load, AgeSeconds: &age, AppliedWeight: weight, Weight: weight + 1}
}

// silent is a server without data.
func silent(name string, weight int) balancer.Row {
	return balancer.Row{Server: name, AppliedWeight: weight, Weight: weight}
}

// table is one of the backend ingest on the first socket.
func table(at time.Time, rows ...balancer.Row) *balancer.Table {
	return &balancer.Table{
		Backend: "ingest", Socket: "unix:/run/haproxy/a.sock", Time: at, Rows: rows, Imbalance: 1.5, Fresh: len(rows),
		Mode: "live", HoldCode: "",
	}
}

// book keeps log lines without their times.
type book struct{ logbook.Book }

func (k *book) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(k, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}))
}

// desk is a reporter to nowhere, whose source a test changes.
type desk struct {
	*Reporter
	log    book
	source Source
	asked  []time.Time // when the source was read
}

func newDesk(t *testing.T, change ...func(*Options)) *desk {
	t.Helper()
	d := &desk{source: Source{Sockets: []string{"unix:/run/haproxy/a.sock"}, Backends: []string{"ingest"}}}
	o := Options{
		Config: config.Report{Prefix: "hw.{host}", Interval: time.Minute}, Host: "lb1",
		Source: func() Source { d.asked = append(d.asked, time.Now()); return d.source },
		Logger: d.log.logger(), Phase: 0.75,
	}
	for _, f := range change {
		f(&o)
	}
	r, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	d.Reporter = r
	return d
}

// reportAt gives the metrics of a report of these tables, each as
// "name value seconds after begin".
func (d *desk) reportAt(at time.Time, tables ...*balancer.Table) []string {
	d.source.Tables = tables
	var lines []string
	for _, m := range d.compose(at) {
		after := strconv.FormatInt(m.Time.Unix()-begin.Unix(), 10)
		lines = append(lines, m.Name+" "+strconv.FormatFloat(m.Value, 'g', -1, 64)+" "+after)
	}
	return lines
}

// names are the names of what reportAt gives, without what all tables have.
func (d *desk) names(tables ...*balancer.Table) []string {
	var names []string
	for _, line := range d.reportAt(begin.Add(30*time.Second), tables...) {
		if name, ok := strings.CutSuffix(strings.Fields(line)[0], ".weight"); ok {
			names = append(names, name)
		}
	}
	return names
}
