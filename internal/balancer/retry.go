package balancer

import "time"

// lost tells whether HAProxy could not be read the last time, by this plane or
// by the one whose table it has inherited.
func (p *plane) lost() bool {
	t := p.table.Load()
	return p.unread != nil || t != nil && t.Unread()
}

// The rest after the first try to read HAProxy again, and the longest one.
const (
	retryFirst = 2 * time.Second
	retryMost  = 16 * time.Second
)

// retry tells whether it is time to read HAProxy again: it could not be read,
// and its watcher has had an answer since, from the same worker.
func (p *plane) retry() bool {
	if p.unread == nil || p.now().Before(p.retryAt) {
		return false
	}
	p.retryRest = min(max(2*p.retryRest, retryFirst), retryMost)
	p.retryAt = p.now().Add(p.retryRest)
	return true
}
