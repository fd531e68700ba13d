package balancer

import (
	"fmt"
	"time"
)

// tellRepeat tells when an answer is an old one that comes again. That its data
// are too old by then, the planes tell.
func (b *Balancer) tellRepeat(p *picture) {
	switch {
	case p.err != nil:
		return
	case p.repeated <= b.options.Backend.MaxAge:
		b.faults.end("repeat")
		return
	}
	b.faults.begin("repeat", fmt.Sprintf("the same answer, with the same Date and data, came %s ago already", p.repeated.Round(time.Second)), wording{
		what:      "Graphite's answer is an old one",
		over:      "Graphite's answers are new again",
		meanwhile: "its data count as old as they are, so weights stay as they are" + staleWords(&b.options.Backend),
		do:        "look for a cache or a proxy between here and Graphite that keeps answers and does not say so (header Age): /render must not be kept",
	})
}
