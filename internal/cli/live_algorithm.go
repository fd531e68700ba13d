package cli

import (
	"strings"

	"github.com/haproxy-weighter/haproxy-weighter/internal/config"
	"github.com/haproxy-weighter/haproxy-weighter/weighting"
)

// judgeAlgorithm says what weights do under HAProxy's "balance" setting. Its
// name for the hashing ones does not tell "hash-type consistent" from the
// default, map-based, which takes no weights.
func judgeAlgorithm(algorithm string, b *config.Backend) (result, string, string) {
	found := "balance " + algorithm
	name, _, _ := strings.Cut(algorithm, "(")
	name, _, _ = strings.Cut(name, " ")
	switch name {
	case "":
		return warn, "this socket does not say which", doLevel
	case "static-rr":
		return fail, found + " takes no weights while it runs", doStatic
	case "first":
		return fail, found + " ignores weights", doFirst
	case "source", "hash", "uri", "url_param", "hdr", "rdp-cookie", "log-hash":
		return warn, found + " takes weights only with hash-type consistent", doHash
	case "leastconn":
		if b.FunctionSet && b.Weighting.Function != weighting.Feedback {
			return warn, found + " with function " + string(b.Weighting.Function), doLeastconn
		}
		return ok, found + ": weights are targets for the number of connections, function feedback", ""
	case "roundrobin", "random":
		if b.FunctionSet && b.Weighting.Function == weighting.Feedback {
			return warn, found + " with function feedback", doFeedback
		}
		return ok, found + " takes weights", ""
	}
	return warn, found + " is not one we know", doStatic
}
