package balancer

import (
	"testing"
	"testing/synctest"
	"time"
)

// HAProxy has no conditional set: a reload in the middle of a write may raise a
// weight of 0. That is told, also when the write got no answer.
func TestARaisedZeroIsTold(t *testing.T) {
	for name, lost := range map[string]error{"answered": nil, "no answer": errRefused} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := fourServers()
				r := newRig(t, ingest(), newGraphite(uneven()), p)
				p.do(func() {
					p.lost = lost
					p.before = func() {
						p.server("s3").InitialWeight = 0
						p.reloadLocked()
					}
				})
				r.start()
				defer r.stop()
				time.Sleep(5 * time.Second)
				synctest.Wait()
				r.wantLog(1, "a server with weight 0 in the new configuration got a weight")
				r.wantLog(1, "server=s3")
			})
		})
	}
}
