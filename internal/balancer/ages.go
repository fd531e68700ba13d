package balancer

import (
	"github.com/haproxy-weighter/haproxy-weighter/internal/haproxy"
)

// sharedAges is a HAProxy whose session dump all backends share.
type sharedAges struct {
	*haproxy.Client
}

func newSharedAges(c *haproxy.Client) *sharedAges { return &sharedAges{Client: c} }
