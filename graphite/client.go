package graphite

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// The defaults of [Config].
const (
	DefaultTimeout = 5 * time.Second
	DefaultMaxBody = 16 << 20 // bytes
)

// MaxRetryAfter bounds how long a server's Retry-After keeps the client silent:
// a wrong clock or a typo in a proxy must not blind us for a day.
const MaxRetryAfter = 10 * time.Minute

// retryPause lies between an attempt that failed and the one retry.
const retryPause = 100 * time.Millisecond

// maxErrorBody is how much of a refusal is read, in bytes. graphite-web's pages with
// a Python traceback are 2 to 4 KB.
const maxErrorBody = 64 << 10

// maxHeader bounds the head of an answer, in bytes: as a map of headers it takes
// thirty times as much.
const maxHeader = 16 << 10

// Client asks one render API. It is safe for concurrent use.
type Client struct {
	config    Config
	endpoint  endpoint
	mask      mask
	transport http.RoundTripper
	idle      interface{ CloseIdleConnections() } // our own transport; nil with Config.Transport

	bodyHint atomic.Int64 // size of the last body, so that the next buffer fits
	made     *making

	mu        sync.Mutex
	holdUntil time.Time // the server's Retry-After, by config.Now
}

// NewClient checks config and returns a client. It opens no connection. Its
// errors name no secret.
func NewClient(config Config) (*Client, error) {
	e, err := newEndpoint(&config)
	if err != nil {
		return nil, fmt.Errorf("graphite: %w", err)
	}
	if config.Timeout == 0 {
		config.Timeout = DefaultTimeout
	}
	if config.MaxBody == 0 {
		config.MaxBody = DefaultMaxBody
	}
	if config.Now == nil {
		config.Now = time.Now
	}
	if config.Timeout < 0 || config.MaxBody < 0 {
		return nil, errors.New("graphite: the timeout and the body limit must not be negative")
	}
	config.MaxBody = min(config.MaxBody, math.MaxInt-1) // one byte more is looked for
	c := &Client{config: config, endpoint: e, mask: newMask(&config, e), transport: config.Transport, made: newMaking()}
	if c.transport == nil {
		t := newTransport(&config)
		c.transport, c.idle = t, t
	}
	return c, nil
}

// newTransport does without http.ProxyFromEnvironment: a proxy that someone
// set for another program must not see, cache or answer the question.
func newTransport(config *Config) *http.Transport {
	t := &http.Transport{
		DialContext:            (&net.Dialer{Timeout: config.Timeout}).DialContext,
		TLSHandshakeTimeout:    config.Timeout,
		MaxIdleConnsPerHost:    2,
		IdleConnTimeout:        90 * time.Second,
		MaxResponseHeaderBytes: maxHeader,
		ForceAttemptHTTP2:      true,
		// What a body that waits for room has sent meanwhile lies here.
		HTTP2: &http.HTTP2Config{MaxReceiveBufferPerStream: smallBody},
	}
	if config.TLS != nil {
		t.TLSClientConfig = config.TLS.Clone()
	}
	return t
}

// Close closes the connections that are kept open between renders. The client
// may be used again afterwards. With Config.Transport it does nothing.
func (c *Client) Close() {
	if c.idle != nil {
		c.idle.CloseIdleConnections()
	}
}

// Render asks once, with one retry at most: when the connection failed, or on
// a status of 500 and above without Retry-After. There is no retry after a
// timeout, since the time is used up.
//
// A render API takes 1,000 form fields at most, and servers limit the length
// of an address. A request of more than that is sent in several parts, one
// after the other, each with its own timeout and all of them with one retry.
// The answer is whole or it is an error: with one part missing, servers would
// look silent that are not. The limit of a body counts for all parts together.
//
// When the server's clock seems to have gone back, it is asked once more a second
// later: that may be an old answer, out of a cache that does not say so.
//
// After a Retry-After the client doesn't touch the network until the time has
// come, but at most [MaxRetryAfter]; meanwhile Render returns a [RenderError]
// of [KindRetryAfter]. Every error of Render is a *RenderError.
//
// With Config.Room, the answer must be released.
func (c *Client) Render(ctx context.Context, r Request) (*Answer, error) {
	parts, err := c.endpoint.forms(r)
	if err != nil {
		return nil, c.fail(&RenderError{Kind: KindRequest, text: err.Error()})
	}
	in := &place{room: c.config.Room}
	answer, rerr := c.render(ctx, parts, in)
	if rerr != nil {
		in.leave()
		return nil, c.fail(rerr)
	}
	answer.release = in.leave
	return answer, nil
}

// render asks for all parts, then decodes them: what was read takes less than
// what it is decoded to.
func (c *Client) render(ctx context.Context, parts []string, in *place) (*Answer, *RenderError) {
	replies := make([]*reply, len(parts))
	retries := 1
	for i, form := range parts {
		again := false
		once := func(limited context.Context) (err *RenderError) {
			if replies[i], err = c.exchange(ctx, limited, &c.endpoint, form, in); err != nil || i < len(parts)-1 {
				return err
			}
			if replies[i].unsure && !again {
				return nil
			}
			if err := in.use(limited); err != nil {
				return c.crowded(ctx, limited, in.reading, err)
			}
			return nil
		}
		err := c.ask(ctx, &retries, once)
		if err == nil && replies[i].unsure {
			again = true
			in.size -= int64(len(replies[i].body))
			replies[i] = nil
			if err = c.nextSecond(ctx); err == nil {
				err = c.ask(ctx, &retries, once)
			}
		}
		if err != nil {
			return nil, ofPart(err, i, len(parts))
		}
	}
	answer := &Answer{}
	for i, said := range replies {
		replies[i] = nil
		series, err := decode(said.body)
		if err == nil && len(answer.Series)+len(series) > mostSeries {
			err = tooManySeries()
		}
		if err != nil {
			return nil, ofPart(&RenderError{Kind: err.kind, Status: said.status, text: c.explain(err, said.body)}, i, len(parts))
		}
		answer.add(&Answer{Series: series, Now: said.now, ClockSkew: said.skew, Repeated: said.repeated})
	}
	faultDuplicates(answer.Series)
	return answer, nil
}

// ofPart says which part of a request an error is of.
func ofPart(err *RenderError, i, parts int) *RenderError {
	if parts > 1 {
		err.text += fmt.Sprintf(" (part %d of %d of the request; nothing of the others is used)", i+1, parts)
	}
	return err
}

// fail completes an error with what all have in common.
func (c *Client) fail(e *RenderError) error {
	e.Server = c.endpoint.server
	return e
}

// add appends a part. The later clock is kept: ages come out longer, not shorter.
func (a *Answer) add(part *Answer) {
	if a.Series == nil {
		a.Series = part.Series
	} else {
		a.Series = append(a.Series, part.Series...)
	}
	if part.Now.After(a.Now) {
		a.Now, a.ClockSkew = part.Now, part.ClockSkew
	}
	a.Repeated = max(a.Repeated, part.Repeated)
}

// ask makes one exchange and, if that may help, makes it again.
func (c *Client) ask(ctx context.Context, retries *int, once func(limited context.Context) *RenderError) *RenderError {
	limited, cancel := context.WithTimeout(ctx, c.config.Timeout)
	defer cancel()
	for {
		err := once(limited)
		if err == nil || !err.retry || *retries == 0 {
			return err
		}
		pause := time.NewTimer(min(retryPause, c.config.Timeout/10))
		select {
		case <-limited.Done():
			pause.Stop()
			return err
		case <-pause.C:
		}
		*retries--
	}
}

// reply is what a server said that was fit to be decoded.
type reply struct {
	status int
	body   []byte
	date   string        // the header; empty when it is missing
	now    time.Time     // the server's clock
	skew   time.Duration // our clock minus the server's
	// repeated is how long ago the same answer came first.
	repeated time.Duration
	unsure   bool // now is not what the server says
}

// exchange sends one form to an endpoint and reads the whole answer. limited is
// ctx with the timeout.
func (c *Client) exchange(ctx, limited context.Context, e *endpoint, form string, in *place) (*reply, *RenderError) {
	if err := c.held(); err != nil {
		return nil, err
	}
	req, err := e.request(limited, form)
	if err != nil {
		return nil, &RenderError{Kind: KindRequest, text: "the request cannot be built: " + c.mask.text(err.Error())}
	}
	// A bare round trip: http.Client would follow redirects, and a POST that is
	// sent elsewhere arrives as a GET without its form.
	resp, err := c.transport.RoundTrip(req)
	if err != nil {
		return nil, c.connectionError(ctx, limited, err)
	}
	defer resp.Body.Close()
	at := c.config.Now()
	if err := c.checkHead(resp, at); err != nil {
		return nil, err
	}
	said := &reply{status: resp.StatusCode, date: resp.Header.Get("Date")}
	said.now, said.skew = serverClock(resp.Header, at)
	var rerr *RenderError
	if resp.StatusCode != http.StatusOK {
		said.body, rerr = c.notOK(resp)
		return said, rerr
	}
	if said.body, rerr = c.read(ctx, limited, resp, in); rerr != nil {
		return nil, rerr
	}
	// A process that was stopped for a while finds the answer waiting, as old as
	// the stop was long, and its clock would say that it is fresh.
	if deadline, ok := limited.Deadline(); ok && time.Now().After(deadline) {
		<-limited.Done()
		return nil, c.connectionError(ctx, limited, limited.Err())
	}
	if said.date != "" {
		said.unsure = !c.made.date(said, form, at)
	}
	return said, nil
}

// held returns an error while a Retry-After is in force.
func (c *Client) held() *RenderError {
	c.mu.Lock()
	until := c.holdUntil
	c.mu.Unlock()
	left := until.Sub(c.config.Now())
	if left <= 0 {
		return nil
	}
	return &RenderError{Kind: KindRetryAfter, Until: until, text: fmt.Sprintf(
		"it asked to be left alone for another %s (Retry-After), so nothing was sent", seconds(left))}
}

func (c *Client) hold(until time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if until.After(c.holdUntil) {
		c.holdUntil = until
	}
}

// minBuffer is what reading a body of unknown length begins with, in bytes.
const minBuffer = 4 << 10

// read takes the body up to the limit, which counts what came out of gzip: the
// transport unpacks while we read, so a small body that unpacks to a huge one
// costs no more than the limit. A body that is not small waits for its place.
func (c *Client) read(ctx, limited context.Context, resp *http.Response, in *place) ([]byte, *RenderError) {
	limit := c.config.MaxBody - in.size
	tooLarge := &RenderError{Kind: KindTooLarge, Status: resp.StatusCode, text: fmt.Sprintf(
		"the answer is longer than %d bytes: shorten the window, narrow the target, or raise max_body", c.config.MaxBody)}
	if resp.ContentLength > limit {
		return nil, tooLarge
	}
	most := in.free(limit)
	if resp.ContentLength > most {
		if err := in.grow(limited); err != nil {
			return nil, c.crowded(ctx, limited, true, err)
		}
		most = limit
	}
	// One byte more than expected, to see the end without a larger buffer.
	expected := max(c.bodyHint.Load(), resp.ContentLength, minBuffer) + 1
	body := make([]byte, 0, min(expected, most+1))
	for {
		n, err := resp.Body.Read(body[len(body):cap(body)])
		body = body[:len(body)+n]
		size := int64(len(body))
		switch {
		case size > limit:
			return nil, tooLarge
		case err == io.EOF:
			in.size += size
			c.bodyHint.Store(size + size/8)
			return body, nil
		case err != nil:
			return nil, c.connectionError(ctx, limited, fmt.Errorf("the answer broke off: %w", err))
		case size > most:
			if err := in.grow(limited); err != nil {
				return nil, c.crowded(ctx, limited, true, err)
			}
			most = limit
		}
		if len(body) == cap(body) {
			body = append(make([]byte, 0, min(max(expected, 2*size), most+1)), body...)
		}
	}
}
