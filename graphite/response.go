package graphite

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"html"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// maxQuote is how much of a server's own words an error repeats, in bytes.
const maxQuote = 200

// checkHead judges what can be judged before the body is read.
func (c *Client) checkHead(resp *http.Response, now time.Time) *RenderError {
	status := resp.StatusCode
	if wait, ok := retryAfter(resp.Header, now); ok && status >= 400 {
		wait = min(wait, MaxRetryAfter)
		until := now.Add(wait)
		c.hold(until)
		return &RenderError{Kind: KindRetryAfter, Status: status, Until: until, text: fmt.Sprintf(
			"it answered %s and asks to be left alone for %s (Retry-After); nothing is sent until then", statusText(status), seconds(wait))}
	}
	if status >= 300 && status < 400 {
		return &RenderError{Kind: KindRedirect, Status: status, text: fmt.Sprintf(
			"it answered %s, a redirect%s, which is not followed: set url to the final address, and check the credentials if that is a login page",
			statusText(status), c.redirectTarget(resp))}
	}
	if status != http.StatusOK {
		return nil
	}
	if enc := resp.Header.Get("Content-Encoding"); enc != "" {
		return &RenderError{Kind: KindNotJSON, Status: status, text: fmt.Sprintf(
			"its answer is packed as %s, which was not asked for: check the proxy in front of it", c.quote(enc))}
	}
	contentType := resp.Header.Get("Content-Type")
	mediaType, _, err := mime.ParseMediaType(contentType)
	if err != nil && mediaType == "" {
		mediaType = contentType
	}
	if mediaType == "application/json" {
		return nil
	}
	return &RenderError{Kind: KindNotJSON, Status: status, text: fmt.Sprintf(
		"it answered 200 with %s instead of JSON: %s", c.describeType(mediaType), typeHint(mediaType))}
}

func (c *Client) describeType(mediaType string) string {
	if mediaType == "" {
		return "no content type"
	}
	return c.quote(mediaType)
}

func typeHint(mediaType string) string {
	switch {
	case mediaType == "text/html":
		return "often a login page or another program; check url and the credentials"
	case strings.HasPrefix(mediaType, "image/"):
		return "it ignored format=json; check that url is a render API and that its parameters name no other format"
	case strings.HasSuffix(mediaType, "javascript"):
		return "it wrapped the answer in a script (jsonp); take jsonp out of the parameters of url"
	}
	return "check that url is a Graphite render API and that its parameters name no other format"
}

// redirectTarget names scheme and host only: the rest may hold a token.
func (c *Client) redirectTarget(resp *http.Response) string {
	u, err := url.Parse(resp.Header.Get("Location"))
	if err != nil {
		return ""
	}
	if u.Host == "" {
		return " to another path of itself"
	}
	if u.Scheme == "" {
		return " to " + c.mask.text(u.Host)
	}
	return " to " + c.mask.text(u.Scheme+"://"+u.Host)
}

// notOK turns a refusal into an error, or into an empty list when it is
// carbonapi's way to say that nothing matched.
func (c *Client) notOK(resp *http.Response) ([]byte, *RenderError) {
	// What can't be read can't be quoted; the status is the news.
	body, _ := io.ReadAll(io.LimitReader(resp.Body, maxErrorBody))
	if resp.StatusCode == http.StatusNotFound && nothingMatched(resp, body) {
		return []byte("[]"), nil
	}
	text := "it answered " + statusText(resp.StatusCode)
	if said := c.quote(errorLine(resp.Header.Get("Content-Type"), body)); said != "" {
		text += ": " + said
	}
	if hint := statusHint(resp.StatusCode); hint != "" {
		text += "; " + hint
	}
	return nil, &RenderError{Kind: KindStatus, Status: resp.StatusCode, text: text, retry: resp.StatusCode >= 500}
}

// nothingMatched tells carbonapi's 404 for "no series" (its setting
// notFoundStatusCode) from the 404 of a wrong address. carbonapi marks what its
// handlers answer with a header of its own, whatever the body.
func nothingMatched(resp *http.Response, body []byte) bool {
	if resp.Header.Get("X-Ctx-Carbonapi-Uuid") != "" {
		return true
	}
	mediaType, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	return err == nil && mediaType == "application/json" && strings.TrimSpace(string(body)) == "[]"
}

func statusText(status int) string {
	return strings.TrimSpace(strconv.Itoa(status) + " " + http.StatusText(status))
}

func statusHint(status int) string {
	switch {
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		return "check username and password_file, bearer_token_file or headers"
	case status == http.StatusNotFound:
		return "check the path prefix in url; /render is appended to it"
	case status == http.StatusMethodNotAllowed:
		return "try the other method (POST or GET)"
	case status == http.StatusRequestURITooLong:
		return "use method POST"
	case status == http.StatusTooManyRequests:
		return "raise the interval"
	case status >= 400 && status < 500:
		return "check the target and the window"
	case status == http.StatusBadGateway || status == http.StatusServiceUnavailable || status == http.StatusGatewayTimeout:
		return "the proxy is there, Graphite behind it is not"
	case status == http.StatusInternalServerError:
		return "check the target's brackets and arguments, and Graphite's own log"
	}
	return ""
}

// Tags are cut only where HTML is meant: "a < b" in a plain text stays.
var (
	htmlTag     = regexp.MustCompile(`<[^>]*>`)
	htmlSkipped = regexp.MustCompile(`(?is)<(style|script|head)\b.*?</(style|script|head)>`)
)

// errorLine finds the one line of a refusal that tells something: the last one
// that speaks of an Error or Exception (the end of a Python traceback), else the
// first one that is not empty.
func errorLine(contentType string, body []byte) string {
	text := string(body)
	if strings.Contains(contentType, "html") {
		text = htmlSkipped.ReplaceAllString(text, "\n")
		text = html.UnescapeString(htmlTag.ReplaceAllString(text, "\n"))
	}
	first, last := "", ""
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if first == "" {
			first = line
		}
		if strings.Contains(line, "Error") || strings.Contains(line, "Exception") {
			last = line
		}
	}
	if last != "" {
		return last
	}
	return first
}

// retryAfter reads the header in both of its forms (RFC 9110, 10.2.3). A date
// counts from the server's own clock, if it sends one. A time that has passed
// already asks for nothing.
func retryAfter(h http.Header, now time.Time) (time.Duration, bool) {
	value := strings.TrimSpace(h.Get("Retry-After"))
	if wait, ok := parseSeconds(value); ok {
		return wait, wait > 0
	}
	at, err := http.ParseTime(value)
	if err != nil {
		return 0, false
	}
	if date, err := http.ParseTime(h.Get("Date")); err == nil {
		now = date
	}
	wait := at.Sub(now)
	return wait, wait > 0
}

// parseSeconds reads a delay in whole seconds; huge ones come out as a year.
func parseSeconds(s string) (time.Duration, bool) {
	if s == "" || strings.Trim(s, "0123456789") != "" {
		return 0, false
	}
	const year = 365 * 24 * 60 * 60
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil || n > year { // only the range can be wrong
		n = year
	}
	return time.Duration(n) * time.Second, true
}

// connectionError explains why there is no whole answer. ctx is the caller's,
// limited is the one with our timeout.
func (c *Client) connectionError(ctx, limited context.Context, err error) *RenderError {
	var netErr net.Error
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		return &RenderError{Kind: KindCanceled, cause: context.Canceled, text: "the render was cancelled before it had answered"}
	case ctx.Err() != nil:
		return &RenderError{Kind: KindTimeout, cause: context.DeadlineExceeded, text: "it had not answered in the time that was left"}
	case limited.Err() != nil || errors.Is(err, context.DeadlineExceeded) || errors.As(err, &netErr) && netErr.Timeout():
		return &RenderError{Kind: KindTimeout, cause: context.DeadlineExceeded, text: fmt.Sprintf(
			"no whole answer within %s: it or the storage behind it is slow or hangs; if it is only slow, raise timeout or shorten the window",
			c.config.Timeout)}
	}
	// A url.Error repeats the whole address.
	var urlErr *url.Error
	if errors.As(err, &urlErr) {
		err = urlErr.Err
	}
	text := c.mask.text(err.Error())
	if errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) {
		return &RenderError{Kind: KindConnect, cause: err, text: text + "; it was not asked: this process has no file descriptor left, raise its limit (LimitNOFILE, ulimit -n)"}
	}
	var badCert *tls.CertificateVerificationError
	if errors.As(err, &badCert) {
		return &RenderError{Kind: KindConnect, cause: err, text: text + "; set ca_file to the authority that signed its certificate"}
	}
	var plain tls.RecordHeaderError
	if errors.As(err, &plain) {
		return &RenderError{Kind: KindConnect, cause: err, text: "it does not speak TLS: begin url with http://, or name the port that does (" + text + ")"}
	}
	return &RenderError{Kind: KindConnect, cause: err, text: text + "; check that it runs and that url is right", retry: true}
}

// crowded explains that an answer has waited in vain for its place in the room.
func (c *Client) crowded(ctx, limited context.Context, large bool, err error) *RenderError {
	if ctx.Err() != nil {
		return c.connectionError(ctx, limited, err)
	}
	text := fmt.Sprintf("its answer was there, but not decoded within %s, because of the answers before it: this machine is too busy; "+
		"raise timeout or the intervals", c.config.Timeout)
	if large {
		text = fmt.Sprintf("its answer has more than %d KiB, and those of other backends as well: %d of them are read at a time, to bound the memory, "+
			"and its turn had not come, or not ended, within %s; narrow the targets, shorten the windows, or raise the intervals or timeout",
			smallBody>>10, mostReading, c.config.Timeout)
	}
	return &RenderError{Kind: KindTimeout, cause: context.DeadlineExceeded, text: text}
}

// quote makes a server's words fit to print: secrets masked, one line, cut.
func (c *Client) quote(s string) string { return clip(c.mask.text(s), maxQuote) }

// explain puts a body that is no answer in words. What is quoted is cut out of
// the body after the secrets in it are covered: half a secret is known to no mask.
func (c *Client) explain(e *decodeError, body []byte) string {
	text := c.mask.text(e.text)
	if e.quote < 0 {
		return text
	}
	const before, after = 20, 60
	from, to := max(e.quote-before, 0), min(e.quote+after, len(body))
	wide := max(from-c.mask.longest, 0)
	covered := c.mask.cover(string(body[wide:min(to+c.mask.longest, len(body))]))
	return text + strconv.Quote(c.mask.text(clip(covered[from-wide:to-wide], before+after)))
}

// clip copies a text without control characters, cut at a character's border.
func clip(s string, limit int) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "?"))
	s = strings.TrimSpace(s)
	cut := min(limit, len(s))
	for 0 < cut && cut < len(s) && s[cut]&0xC0 == 0x80 {
		cut--
	}
	return strings.Clone(s[:cut]) // or a text as long as a body stays in memory
}

func seconds(d time.Duration) string {
	return strconv.FormatFloat(float64(d.Round(100*time.Millisecond))/float64(time.Second), 'f', -1, 64) + " s"
}
