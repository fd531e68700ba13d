package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"os"
	"sync/atomic"
	"time"
)

// Client asks a running daemon through its control socket. Each request has a
// connection of its own. The error of a request is an [*UnreachableError], a
// [*RefusedError], or the context's.
type Client struct {
	Socket  string        // path of the control socket
	Timeout time.Duration // of one request as a whole; 0 means DefaultTimeout
	MaxBody int64         // of an answer, in bytes; 0 means 64 MiB
}

// DefaultTimeout is far above what an answer takes on a machine that works.
const DefaultTimeout = 10 * time.Second

const (
	// largestAnswer is above the history of a day of hundreds of servers.
	largestAnswer  = 64 << 20
	largestHeaders = 64 << 10
)

// UnreachableError says that no daemon has given an answer: there is none, it
// hangs, or what it sent is no answer of haproxy-weighter's.
type UnreachableError struct {
	Socket string
	// Sent tells that the request may have arrived: an order may have been taken.
	Sent bool
	Err  error
}

func (e *UnreachableError) Error() string {
	return fmt.Sprintf("the daemon can't be reached at %s: %v", e.Socket, e.Err)
}

func (e *UnreachableError) Unwrap() error { return e.Err }

// RefusedError is the daemon's answer to a request that it did not carry out.
type RefusedError struct {
	Code int // HTTP status
	Problem
}

func (e *RefusedError) Error() string { return e.Problem.Error }

// Status asks for the daemon as a whole.
func (c *Client) Status(ctx context.Context) (*Status, error) {
	var s Status
	if err := c.do(ctx, http.MethodGet, "/api/v1/status", nil, &s); err != nil {
		return nil, err
	}
	return &s, nil
}

// Tables asks for the tables of one backend, one a socket, with reasons.
func (c *Client) Tables(ctx context.Context, backend string) ([]Table, error) {
	var t Tables
	if err := c.do(ctx, http.MethodGet, "/api/v1/table/"+url.PathEscape(backend), nil, &t); err != nil {
		return nil, err
	}
	return t.Tables, nil
}

// History asks for what has happened to one backend.
func (c *Client) History(ctx context.Context, backend string) (*History, error) {
	var h History
	if err := c.do(ctx, http.MethodGet, "/api/v1/history/"+url.PathEscape(backend), nil, &h); err != nil {
		return nil, err
	}
	return &h, nil
}

// Order gives an order; kind is "pin", "unpin", "freeze", "unfreeze" or "mode".
func (c *Client) Order(ctx context.Context, kind string, o Order) (*Done, error) {
	var d Done
	if err := c.do(ctx, http.MethodPost, "/control/v1/"+kind, o, &d); err != nil {
		return nil, err
	}
	return &d, nil
}

// do makes one request and reads its answer into answer.
func (c *Client) do(ctx context.Context, method, path string, body, answer any) error {
	timeout := c.Timeout
	if timeout <= 0 {
		timeout = DefaultTimeout
	}
	silent := fmt.Errorf("no answer within %s: %w", timeout, os.ErrDeadlineExceeded)
	limited, cancel := context.WithTimeoutCause(ctx, timeout, silent)
	defer cancel()
	var connected atomic.Bool
	err := c.exchange(limited, method, path, body, answer, &connected)
	var refused *RefusedError
	switch {
	case err == nil, errors.As(err, &refused):
		return err
	case ctx.Err() != nil:
		return fmt.Errorf("asking the daemon: %w", ctx.Err())
	case limited.Err() != nil:
		err = context.Cause(limited)
	}
	return &UnreachableError{Socket: c.Socket, Sent: connected.Load(), Err: err}
}

func (c *Client) exchange(ctx context.Context, method, path string, body, answer any, connected *atomic.Bool) error {
	var content io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return err
		}
		content = bytes.NewReader(text)
	}
	request, err := http.NewRequestWithContext(ctx, method, "http://localhost"+path, content)
	if err != nil {
		return err
	}
	request.Header.Set("Accept", "application/json")
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	transport := c.transport(connected)
	defer transport.CloseIdleConnections()
	response, err := transport.RoundTrip(request) // follows no redirect: nobody of ours sends one
	if err != nil {
		return bare(err)
	}
	defer response.Body.Close()
	limit := c.MaxBody
	if limit <= 0 {
		limit = largestAnswer
	}
	return read(response, limit, answer)
}

func (c *Client) transport(connected *atomic.Bool) *http.Transport {
	return &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			conn, err := (&net.Dialer{}).DialContext(ctx, "unix", c.Socket)
			connected.Store(err == nil)
			return conn, err
		},
		DisableKeepAlives:      true,
		DisableCompression:     true,
		MaxResponseHeaderBytes: largestHeaders,
	}
}

// bare takes "dial unix PATH: connect" off an error: whoever prints it names
// the socket.
func bare(err error) error {
	var op *net.OpError
	if !errors.As(err, &op) || op.Op != "dial" {
		return err
	}
	if call := (*os.SyscallError)(nil); errors.As(op.Err, &call) {
		return call.Err
	}
	return op.Err
}

// read takes an answer apart: what was asked for, a Problem, or neither.
func read(r *http.Response, limit int64, answer any) error {
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || kind != "application/json" {
		return strange(r, fmt.Errorf("content type %q instead of JSON", r.Header.Get("Content-Type")))
	}
	text, err := io.ReadAll(io.LimitReader(r.Body, limit+1))
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("the answer was cut off")
	case err != nil:
		return err
	case int64(len(text)) > limit:
		return fmt.Errorf("the answer is larger than %d bytes", limit)
	case r.StatusCode == http.StatusOK:
		if err := json.Unmarshal(text, answer); err != nil {
			return strange(r, err)
		}
		return nil
	}
	refused := &RefusedError{Code: r.StatusCode}
	if err := json.Unmarshal(text, &refused.Problem); err != nil || refused.Problem.Error == "" {
		return strange(r, errors.New("no reason is given"))
	}
	return refused
}

// strange is an answer that haproxy-weighter does not give.
func strange(r *http.Response, err error) error {
	return fmt.Errorf("what answers there is no haproxy-weighter, or one of another version: HTTP status %d, %w", r.StatusCode, err)
}
