package graphite

import (
	"encoding/base64"
	"html"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Kind says what went wrong with a question.
type Kind string

// The kinds of [RenderError].
const (
	KindRequest    Kind = "request"     // the request itself can't be sent: no target, a bad window
	KindConnect    Kind = "connect"     // no connection, a bad certificate, or it broke off
	KindTimeout    Kind = "timeout"     // no whole answer in time
	KindCanceled   Kind = "canceled"    // the caller's context was cancelled
	KindStatus     Kind = "status"      // an HTTP status that is no answer; see Status
	KindRedirect   Kind = "redirect"    // a redirect, which is never followed
	KindRetryAfter Kind = "retry-after" // the server asked to be left alone; see Until
	KindNotJSON    Kind = "not-json"    // status 200, but no JSON
	KindNotSeries  Kind = "not-series"  // JSON, but not a list of series, or of what was found
	KindEmpty      Kind = "empty"       // status 200 and no body at all
	KindTooLarge   Kind = "too-large"   // the body is over the limit, or has over 100,000 series
)

// RenderError is why a render, or a find, gave no answer. Its text is for operators: what
// happened and what to do. No secret of the [Config] is in it, nor the path or the
// query of the address.
type RenderError struct {
	Kind   Kind
	Server string    // scheme and host of the render API
	Status int       // HTTP status; 0 when there was none
	Until  time.Time // with KindRetryAfter: when the server may be asked again, by Config.Now

	text  string
	cause error
	retry bool // trying again at once may help
}

func (e *RenderError) Error() string {
	if e.Kind == KindRequest {
		return "graphite: " + e.text
	}
	return "graphite at " + e.Server + ": " + e.text
}

// Unwrap returns the network error beneath, or nil.
func (e *RenderError) Unwrap() error { return e.cause }

// mask replaces the secrets of a configuration in words that came from
// elsewhere: servers repeat addresses and headers in their error pages.
type mask struct {
	replacer *strings.Replacer
	cloak    *strings.Replacer // keeps the length of the text
	longest  int               // bytes of the longest spelling
}

// minMasked spares short header values and parts of the address: "1" as a
// tenant is no secret, and a text without its 1s is no help. Passwords and tokens
// are masked at any length.
const minMasked = 3

func newMask(config *Config, e endpoint) mask {
	secrets := []string{config.Password, config.BearerToken}
	if config.Username != "" {
		pair := config.Username + ":" + config.Password
		secrets = append(secrets, pair, base64.StdEncoding.EncodeToString([]byte(pair)))
	}
	public := []string{config.Username, e.url.Path, e.url.EscapedPath(), e.url.RawQuery}
	public = append(public, strings.Split(e.url.Path, "/")...)
	public = append(public, config.Hidden...)
	for _, values := range e.url.Query() {
		public = append(public, values...)
	}
	for name, values := range config.Header {
		if strings.EqualFold(name, "Accept") || strings.EqualFold(name, "User-Agent") {
			continue
		}
		for _, v := range values {
			public = append(public, v)
			public = append(public, strings.Fields(v)...)
		}
	}
	for _, s := range public {
		if len(s) >= minMasked && s != "render" && s != "graphite" && s != "/render" && s != "/graphite/render" {
			secrets = append(secrets, s)
		}
	}
	all := pairs(secrets)
	m := mask{replacer: strings.NewReplacer(all...)}
	for i := 0; i < len(all); i += 2 {
		m.longest = max(m.longest, len(all[i]))
		all[i+1] = strings.Repeat("*", len(all[i]))
	}
	m.cloak = strings.NewReplacer(all...)
	return m
}

// pairs lists every spelling of every secret with its replacement, longest first.
func pairs(secrets []string) []string {
	var all []string
	for _, s := range secrets {
		if s != "" {
			all = append(all, s, url.QueryEscape(s), url.PathEscape(s), html.EscapeString(s))
		}
	}
	slices.SortFunc(all, func(a, b string) int { return len(b) - len(a) })
	all = slices.Compact(all)
	out := make([]string, 0, 2*len(all))
	for _, s := range all {
		out = append(out, s, "***")
	}
	return out
}

// authorization is the header that we send, as a server may repeat it: cut
// short by the server itself, so that what is left is no secret we know.
var authorization = regexp.MustCompile(`(?i)(authorization\W{1,6}(?:basic|bearer)\W{1,6})[\w.~+/=-]+`)

func (m mask) text(s string) string {
	return authorization.ReplaceAllString(m.replacer.Replace(s), "$1***")
}

// cover is text that keeps every other byte where it was.
func (m mask) cover(s string) string { return m.cloak.Replace(s) }
