package metrics

import (
	"context"
	"errors"
	"net"
	"slices"

	"github.com/haproxy-weighter/haproxy-weighter/graphite"
	"github.com/haproxy-weighter/haproxy-weighter/internal/haproxy"
)

// The values of the label "result" that are not a kind of some package.
const (
	resultOK    = "ok"
	resultError = "error"
	resultOther = "other"
)

// renderResults are all values for a request to Graphite.
var renderResults = []string{
	resultOK,
	string(graphite.KindRequest), string(graphite.KindConnect), string(graphite.KindTimeout), string(graphite.KindCanceled),
	string(graphite.KindStatus), string(graphite.KindRedirect), string(graphite.KindRetryAfter), string(graphite.KindNotJSON),
	string(graphite.KindNotSeries), string(graphite.KindEmpty), string(graphite.KindTooLarge),
	resultOther,
}

func renderResult(err error) string {
	var failed *graphite.RenderError
	switch {
	case err == nil:
		return resultOK
	case errors.As(err, &failed) && slices.Contains(renderResults, string(failed.Kind)):
		return string(failed.Kind)
	case errors.Is(err, context.DeadlineExceeded):
		return string(graphite.KindTimeout)
	case errors.Is(err, context.Canceled):
		return string(graphite.KindCanceled)
	}
	return resultOther
}

// askedResults are all values for an exchange with a runtime socket. An answer
// that came whole is "ok" whatever it says: what it says is told as a fault.
var askedResults = []string{
	resultOK, "connect", "timeout", "canceled", "refused", "incomplete", "too-large", resultOther,
}

func askedResult(err error) string {
	var reply *haproxy.ReplyError
	var dial *net.OpError
	switch {
	case err == nil:
		return resultOK
	case errors.Is(err, haproxy.ErrTimeout), errors.Is(err, context.DeadlineExceeded):
		return "timeout"
	case errors.Is(err, context.Canceled):
		return "canceled"
	case errors.Is(err, haproxy.ErrTruncated), errors.Is(err, haproxy.ErrMismatch):
		return "incomplete"
	case errors.Is(err, haproxy.ErrTooLarge), errors.Is(err, haproxy.ErrTooManySessions):
		return "too-large"
	case errors.As(err, &reply):
		return "refused"
	case errors.As(err, &dial) && dial.Op == "dial":
		return "connect"
	}
	return resultOther
}
