package graphite

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Limits of one request. Django refuses more than 1,000 form fields; it refuses
// forms over 2.5 MB; web servers cut request lines at 8 KB and up.
const (
	maxFields   = 1000
	maxPostForm = 2_000_000 // bytes
	maxGetURL   = 7_500     // bytes
)

// endpoint is the address of the render API and how it is called.
type endpoint struct {
	url    url.URL // with /render, without user information
	method string
	header http.Header // everything but Content-Type
	server string      // scheme and host: all of the address that may be shown
}

// newEndpoint checks the parts of config that concern requests. User
// information in the address moves into config.Username and config.Password.
func newEndpoint(config *Config) (endpoint, error) {
	u, err := parseAddress(config)
	if err != nil {
		return endpoint{}, err
	}
	e := endpoint{url: *u, method: config.Method, server: u.Scheme + "://" + u.Host}
	if e.method == "" {
		e.method = http.MethodPost
	}
	if e.method != http.MethodPost && e.method != http.MethodGet {
		return endpoint{}, fmt.Errorf("method %q is neither POST nor GET", config.Method)
	}
	if config.Transport != nil && config.TLS != nil {
		return endpoint{}, errors.New("Transport and TLS exclude each other: set TLS in the transport")
	}
	e.header, err = headers(config)
	return e, err
}

// parseAddress never quotes the address: its path may hold an access key.
func parseAddress(config *Config) (*url.URL, error) {
	if config.URL == "" {
		return nil, errors.New("no url is given, e.g. http://graphite.example.com")
	}
	u, err := url.Parse(config.URL)
	if err != nil {
		return nil, errors.New("the url cannot be read; it must look like http://graphite.example.com/prefix")
	}
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, errors.New("the url must begin with http:// or https://")
	case u.Host == "" || u.Hostname() == "":
		return nil, errors.New("the url names no host")
	case u.Fragment != "":
		return nil, errors.New("the url must not contain #")
	}
	u.Path, u.RawPath = strings.TrimRight(u.Path, "/"), strings.TrimRight(u.RawPath, "/")
	if strings.HasSuffix(u.Path, "/render") {
		return nil, errors.New("the url must be the address before /render, which is appended")
	}
	if u.User != nil {
		if config.Username != "" || config.BearerToken != "" {
			return nil, errors.New("the url contains a user name, and another way to log in is set too: keep one")
		}
		config.Username = u.User.Username()
		config.Password, _ = u.User.Password()
		u.User = nil
	}
	return u.JoinPath("render"), nil
}

func headers(config *Config) (http.Header, error) {
	h := make(http.Header)
	for name, values := range config.Header {
		key := http.CanonicalHeaderKey(name)
		if !validHeader(name, values) {
			return nil, fmt.Errorf("header %q has a character that HTTP does not allow, in its name or its value", name)
		}
		switch key {
		case "Content-Type", "Content-Length", "Transfer-Encoding", "Accept-Encoding", "Connection":
			return nil, fmt.Errorf("header %s is set by the client itself: remove it", key)
		}
		h[key] = slices.Concat(h[key], values)
	}
	if config.Username == "" && config.Password != "" {
		return nil, errors.New("a password is given without a user name")
	}
	if config.Username != "" && config.BearerToken != "" {
		return nil, errors.New("a user name and a bearer token exclude each other: keep one")
	}
	if (config.Username != "" || config.BearerToken != "") && h.Get("Authorization") != "" {
		return nil, errors.New("the header Authorization is given, and another way to log in too: keep one")
	}
	switch {
	case strings.Contains(config.Username, ":"):
		return nil, errors.New("the user name must not contain a colon")
	case config.Username != "":
		r := http.Request{Header: h}
		r.SetBasicAuth(config.Username, config.Password)
	case config.BearerToken != "":
		if !validHeader("Authorization", []string{config.BearerToken}) {
			return nil, errors.New("the bearer token has a character that HTTP does not allow, such as a line end")
		}
		h.Set("Authorization", "Bearer "+config.BearerToken)
	}
	if h.Get("Accept") == "" {
		h.Set("Accept", "application/json")
	}
	if _, ok := h["User-Agent"]; !ok {
		h.Set("User-Agent", "haproxy-weighter")
	}
	// Not sent; tells the transport that a POST may be sent again when a kept
	// connection turns out to be closed.
	h["X-Idempotency-Key"] = []string{}
	return h, nil
}

func validHeader(name string, values []string) bool {
	for _, c := range []byte(name) {
		letter := 'a' <= c|0x20 && c|0x20 <= 'z'
		if !letter && !('0' <= c && c <= '9') && strings.IndexByte("!#$%&'*+-.^_`|~", c) < 0 {
			return false
		}
	}
	for _, v := range values {
		for _, c := range []byte(v) {
			if c < ' ' && c != '\t' || c == 0x7f {
				return false
			}
		}
	}
	return name != ""
}

// forms turns a request into the encoded forms that are to be sent.
func (e *endpoint) forms(r Request) ([]string, error) {
	fixed, err := fixedFields(r)
	if err != nil {
		return nil, err
	}
	limit := maxPostForm
	if e.method == http.MethodGet {
		limit = maxGetURL - len(e.url.String())
	}
	tail, fieldsLeft := fixed.Encode(), maxFields-len(fixed)
	for _, values := range e.url.Query() {
		fieldsLeft -= len(values)
	}
	if fieldsLeft < 1 {
		return nil, errors.New("the url has so many parameters that no target fits beside them")
	}
	var parts []string
	var b strings.Builder
	n := 0
	for _, target := range r.Targets {
		field := "target=" + url.QueryEscape(target) + "&"
		if n > 0 && (n == fieldsLeft || b.Len()+len(field)+len(tail) > limit) {
			parts = append(parts, b.String()+tail)
			b.Reset()
			n = 0
		}
		b.WriteString(field)
		n++
	}
	return append(parts, b.String()+tail), nil
}

// fixedFields are the form fields that go with every target.
//
// The window is given in whole seconds counted back from now, the one form that
// all servers read alike: "-5m" means months to one, minutes to others, and some
// answer what they can't read with the last 24 hours. noCache, because
// graphite-web and carbonapi else serve answers a minute old. There is no
// maxDataPoints: it replaces points by averages with the stamp of their start.
func fixedFields(r Request) (url.Values, error) {
	switch {
	case len(r.Targets) == 0:
		return nil, errors.New("the request names no target")
	case slices.ContainsFunc(r.Targets, func(t string) bool { return strings.TrimSpace(t) == "" }):
		return nil, errors.New("a target of the request is empty")
	case r.Window <= 0 || r.Window%time.Second != 0:
		return nil, fmt.Errorf("the window %s must be whole seconds above 0", r.Window)
	case r.Until < 0 || r.Until%time.Second != 0:
		return nil, fmt.Errorf("until %s must be whole seconds, 0 or more", r.Until)
	case r.Window > 100*365*24*time.Hour || r.Until > 100*365*24*time.Hour:
		return nil, errors.New("the window reaches back more than 100 years")
	}
	fields := url.Values{
		"format":  {"json"},
		"noCache": {"1"},
		"from":    {relative(r.Window + r.Until)},
	}
	if r.Until > 0 {
		fields.Set("until", relative(r.Until))
	}
	return fields, nil
}

func relative(d time.Duration) string {
	return "-" + strconv.FormatInt(int64(d/time.Second), 10) + "s"
}

func (e *endpoint) request(ctx context.Context, form string) (*http.Request, error) {
	u := e.url
	var body *strings.Reader
	if e.method == http.MethodGet {
		if u.RawQuery != "" {
			u.RawQuery += "&"
		}
		u.RawQuery += form
		body = strings.NewReader("")
	} else {
		body = strings.NewReader(form)
	}
	req, err := http.NewRequestWithContext(ctx, e.method, u.String(), body)
	if err != nil {
		return nil, err
	}
	req.Header = maps.Clone(e.header)
	if host := e.header.Get("Host"); host != "" {
		req.Host = host
		req.Header.Del("Host")
	}
	if e.method == http.MethodPost {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	return req, nil
}
