package admin

import (
	"fmt"
	"testing"
	"time"
)

// loadsOf are loads around 10,000 for servers s1 and on.
func loadsOf(servers int) map[string]float64 {
	loads := make(map[string]float64, servers)
	for i := range servers {
		loads[fmt.Sprintf("s%d", i+1)] = 6000 + float64(i*7919%9000)
	}
	return loads
}

func TestPageInABrowser(t *testing.T) {
	s := newSite(t, haproxyOf("ingest", 10), loadsOf(10), quick())
	s.listen()
	s.balance()
	s.passed()
	b := startBrowser(t)
	b.look(1280, 900, "light")
	b.open("http://" + s.tcp + "/")
	b.until(`document.querySelector("#contact").textContent.includes("live")`)
	b.until(`document.querySelectorAll(".panels svg").length === 3`)
	time.Sleep(8 * time.Second)
	b.shoot("ten-light")
	b.look(1280, 900, "dark")
	b.shoot("ten-dark")
	b.look(360, 740, "light")
	time.Sleep(time.Second)
	b.shoot("ten-phone")
	b.clean(s.tcp)
}
