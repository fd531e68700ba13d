package balancer

import (
	"errors"

	"github.com/haproxy-weighter/haproxy-weighter/internal/haproxy"
)

// final tells whether an error of a write will be the same at the next try,
// until somebody changes HAProxy's configuration.
func final(err error) bool {
	for _, is := range []error{
		haproxy.ErrPermission, haproxy.ErrDisabled, haproxy.ErrNoBackend, haproxy.ErrUsage,
		haproxy.ErrUnknownCommand, haproxy.ErrLineTooLong, haproxy.ErrName, haproxy.ErrWeight,
	} {
		if errors.Is(err, is) {
			return true
		}
	}
	return false
}
