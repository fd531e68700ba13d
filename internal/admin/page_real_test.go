package admin

import (
	"fmt"
	"math"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/haproxy-weighter/haproxy-weighter/internal/balancer"
	"github.com/haproxy-weighter/haproxy-weighter/internal/config"
	"github.com/haproxy-weighter/haproxy-weighter/weighting"
)

// loadsOf are loads around 10,000 for servers s1 and on.
func loadsOf(servers int) map[string]float64 {
	loads := make(map[string]float64, servers)
	for i := range servers {
		loads[fmt.Sprintf("s%d", i+1)] = 8000 + float64(i*7919%4000)
	}
	return loads
}

// remember fills the history as if the balancers had run for some hours: from
// equal weights, with loads far apart, towards the mean.
func (s *site) remember(backend string, servers int, hours int) {
	socket := "unix:" + s.haproxy.SocketPath
	weights := make([]int, servers)
	for at := time.Duration(hours) * time.Hour; at > 30*time.Second; at -= 30 * time.Second {
		t := &balancer.Table{
			Backend: backend, Socket: socket, Time: time.Now().Add(-at), Mode: "live", Verdict: weighting.Keep,
			Worker: s.fleet.Tables()[0].Worker, Fresh: servers, InService: servers, Mean: 10000,
		}
		settled := 1 - math.Exp(-float64(time.Duration(hours)*time.Hour-at)/float64(20*time.Minute))
		for i := range servers {
			far := math.Sin(float64(i)*1.7) * (1 - 0.85*settled)
			load := 10000 * (1 + 0.7*far + 0.03*math.Sin(at.Minutes()/7+float64(i)))
			before := weights[i]
			weights[i] = int(128 * (1 - 0.8*math.Sin(float64(i)*1.7)*settled))
			age := 12.0
			t.Rows = append(t.Rows, balancer.Row{
				Server: fmt.Sprintf("s%d", i+1), Load: &load, AgeSeconds: &age, Capacity: 1, AppliedWeight: weights[i], Weight: weights[i],
				WeightBefore: before, AdminState: "ready", OpState: "running",
			})
			t.Imbalance = max(t.Imbalance, load/10000)
		}
		if int(at.Minutes())%20 == 0 && at%time.Minute == 0 {
			t.Verdict, t.Changes = weighting.Write, servers
		}
		s.history.Passed(t)
	}
}

// noOverflow fails when the page is wider than the window.
func (b *browser) noOverflow() {
	b.t.Helper()
	wide := eval[[]string](b, `[...document.querySelectorAll("body, body *")].filter(e => !e.closest(".scroll > table, code, svg") && e.getBoundingClientRect().right > document.documentElement.clientWidth + 0.5).map(e => e.tagName + "." + e.className)`)
	if len(wide) > 0 {
		b.t.Errorf("wider than the window: %q", wide)
	}
	if eval[bool](b, "document.documentElement.scrollWidth > document.documentElement.clientWidth") {
		b.t.Error("the page can be scrolled sideways")
	}
}

func TestPageInABrowser(t *testing.T) {
	loads := loadsOf(12)
	delete(loads, "s7")
	s := newSite(t, haproxyOf("ingest", 12), loads, quick())
	stop := s.listen()
	s.balance()
	s.passed()
	if _, err := s.haproxy.Command(t.Context(), "set server ingest/s12 state drain"); err != nil {
		t.Fatal(err)
	}
	s.remember("ingest", 12, 3)
	b := startBrowser(t)
	b.look(1280, 900, "light")
	b.open("http://" + s.tcp + "/")
	b.until(`document.querySelector("#contact").textContent.includes("live")`)
	b.until(`document.querySelectorAll(".panels svg").length === 3`)

	// What changes is put in place: the page is not loaded again.
	eval[bool](b, `(window.kept = document.querySelector("tr[data-server=s1]"), window.kept.querySelector("details").open = true)`)
	s.do(func() { s.loads["s1"] = 31234 })
	b.until(`window.kept.isConnected && window.kept.querySelector("details").open && window.kept.textContent.includes("31\u202f234")`)
	b.until(`document.querySelector("tbody tr[data-server]").dataset.server === "s7"`) // no data comes first
	b.until(`document.querySelectorAll("tbody tr[data-server]")[1].dataset.server === "s1"`)
	b.until(`document.querySelector("tr[data-server=s12] .state").textContent === "in drain"`)
	b.until(`document.querySelector(".mark.bad").textContent.includes("1 server without data: s7")`)

	// Orders show at once.
	if a := s.order("pin", `{"backend":"ingest","server":"s3","weight":17,"reason":"new <b>kernel</b>","for_seconds":3600}`); a.status != http.StatusOK {
		t.Fatalf("pin: %+v", a)
	}
	b.until(`document.querySelector("tr[data-server=s3] .weight").textContent.includes("17") && document.querySelector("tr[data-server=s3] .weight").textContent.includes("pinned")`)
	b.until(`document.querySelector(".order").textContent.includes(": new <b>kernel</b>")`)
	b.shoot("twelve-light")
	b.look(1280, 900, "dark")
	b.shoot("twelve-dark")
	eval[bool](b, `(window.kept.querySelector("details").open = false)`)
	b.look(360, 740, "light")
	b.until(`document.querySelector(".panels svg").viewBox.baseVal.width < 360`) // drawn anew
	b.noOverflow()
	b.shoot("twelve-phone")
	b.look(360, 740, "dark")
	b.shoot("twelve-phone-dark")
	b.look(1280, 900, "light")

	// Words from outside stay words.
	s.do(func() {
		s.status, s.words = 500, `<img src=x onerror="window.hacked=1"><script>window.hacked=1</script>`
	})
	b.until(`document.querySelector(".headline").textContent.includes("fault")`)
	b.until(`document.querySelector(".faults").textContent.includes("<img src=x")`)
	if eval[bool](b, `window.hacked !== undefined || document.querySelector("img") !== null`) {
		t.Error("a word from Graphite has become a part of the page")
	}
	b.shoot("graphite-down-light")
	b.clean(s.tcp)

	// A page that nobody updates says so.
	stop()
	b.until(`document.querySelector("#contact").textContent.startsWith("✕ stale: no contact since")`)
	b.shoot("stale-light")
}

func TestPageWithoutJavaScript(t *testing.T) {
	s := newSite(t, haproxyOf("ingest", 3), loadsOf(3), quick())
	s.listen()
	s.balance()
	s.passed()
	b := startBrowser(t)
	b.look(1280, 900, "light")
	b.call("Emulation.setScriptExecutionDisabled", map[string]any{"value": true}, nil)
	b.open("http://" + s.tcp + "/?sort=name")
	got := eval[[]string](b, `[...document.querySelectorAll("tbody tr[data-server] > th")].map(e => e.textContent)`)
	if diff := cmp.Diff([]string{"s1", "s2", "s3"}, got); diff != "" {
		t.Errorf("servers (-want +got):\n%s", diff)
	}
	if !eval[bool](b, `document.querySelector(".charts").hidden && document.querySelector("#contact").hidden && document.querySelector("noscript meta") !== null`) {
		t.Error("the page shows what does not work without JavaScript, or does not refresh itself")
	}
	b.shoot("without-javascript")
	b.clean(s.tcp)
}

func TestPageOf300Servers(t *testing.T) {
	s := newSite(t, haproxyOf("ingest", 300), loadsOf(300), quick())
	s.listen()
	s.balance()
	s.passed()
	s.remember("ingest", 300, 1)
	b := startBrowser(t)
	b.look(1280, 900, "light")
	b.open("http://" + s.tcp + "/")
	b.until(`document.querySelectorAll("tbody tr[data-server]").length === 300`)
	b.until(`document.querySelectorAll(".panels .trace").length === 601`)
	b.shoot("many-light")
	eval[bool](b, `(() => { const i = document.querySelector(".filter input"); i.value = "s29"; i.dispatchEvent(new Event("input")); return true })()`)
	b.until(`[...document.querySelectorAll("tbody tr[data-server]")].filter(e => !e.hidden).length === 11`)
	// An update leaves the filter as it is.
	s.do(func() { s.loads["s29"] = 31234 })
	b.until(`document.querySelector("tr[data-server=s29]").textContent.includes("31\u202f234")`)
	b.until(`[...document.querySelectorAll("tbody tr[data-server]")].filter(e => !e.hidden).length === 11`)
	b.look(360, 740, "light")
	b.noOverflow()
	b.shoot("many-phone")
	b.open("http://" + s.tcp + "/?sort=name")
	b.until(`[...document.querySelectorAll("tbody tr[data-server]")].slice(8, 11).map(e => e.dataset.server).join() === "s9,s10,s11"`)
	b.clean(s.tcp)
}

func TestPageOfABackendWithoutData(t *testing.T) {
	observe := quick()
	observe.Mode = config.Observe
	absent := quick()
	absent.Name = "nowhere"
	s := newSite(t, haproxyOf("ingest", 4), map[string]float64{"x": 1}, observe, absent)
	s.listen()
	s.balance()
	s.until("a pass", func() bool {
		return len(s.fleet.Tables()) > 0 && s.fleet.Tables()[0].HoldCode == weighting.HoldStale && len(s.fleet.Faults()) > 1
	})
	b := startBrowser(t)
	b.look(1280, 900, "light")
	b.open("http://" + s.tcp + "/")
	b.until(`document.querySelector("#contact").textContent.includes("live")`)
	b.until(`document.querySelectorAll("section.backend").length === 2`)
	b.until(`[...document.querySelectorAll("tbody tr[data-server]")].every(e => e.textContent.includes("no data"))`)
	b.until(`document.querySelector("[data-backend=ingest] .badges").textContent.includes("observe")`)
	b.until(`document.querySelector("[data-backend=nowhere] .badges").textContent.includes("not read")`)
	b.shoot("without-data")
	b.look(360, 740, "dark")
	b.noOverflow()
	b.clean(s.tcp)
}
