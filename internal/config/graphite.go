package config

import (
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/haproxy-weighter/haproxy-weighter/graphite"
)

func readGraphite(t *table) graphite.Config {
	t.require("url", `the address of the render API, such as "http://graphite.example.com"`)
	c := graphite.Config{
		Method:  choice(t, "method", http.MethodPost, http.MethodGet),
		Timeout: t.duration("timeout", 5*time.Second, 100*time.Millisecond, 5*time.Minute),
		Header:  t.headers("headers"),
		MaxBody: t.size("max_body", 16*mebibyte, 64*kibibyte, gibibyte),
		TLS:     t.tls(),
	}
	c.Username = t.username("username")
	c.Password = t.secretFile("password_file")
	c.BearerToken = t.bearerToken("bearer_token_file")
	t.oneIdentity(c.Header)
	c.URL = t.address("url", c.Header)
	return c
}

// address reads the URL of the render API. The URL may hold a secret (some
// services put a key in the path), so no message quotes it.
func (t *table) address(key string, h http.Header) string {
	const allowed = `"http://host", "https://host", with any port, path and "?" parameters`
	v, ok := t.text(key, allowed)
	if !ok {
		return ""
	}
	u, err := url.Parse(v.value)
	if err != nil {
		t.wrong(key, "can't be read as a URL; allowed: %s", allowed)
		return ""
	}
	port, portErr := strconv.Atoi(u.Port())
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		t.wrong(key, "does not begin with http:// or https://; allowed: %s", allowed)
	case u.Hostname() == "":
		t.wrong(key, "has no host; allowed: %s", allowed)
	case u.Port() != "" && (portErr != nil || port < 1 || port > 65535):
		t.wrong(key, "port %s is out of range; allowed: 1 to 65535", u.Port())
	case u.User != nil:
		t.wrong(key, "has a user name in it; allowed: a URL without one, and graphite.username with graphite.password_file")
	case u.Fragment != "":
		t.wrong(key, `has a "#" in it; allowed: %s`, allowed)
	case strings.HasSuffix(strings.TrimRight(u.Path, "/"), "/render"):
		t.wrong(key, `ends in "/render", which is added by itself; allowed: the part before it`)
	default:
		t.checkTransport(u, h)
		return v.value
	}
	return ""
}

// checkTransport relates the URL to the keys that protect what goes there.
func (t *table) checkTransport(u *url.URL, h http.Header) {
	if u.Scheme == "https" {
		return
	}
	for _, key := range []string{"ca_file", "cert_file", "key_file"} {
		if t.given(key) {
			t.wrong(key, "has no use, because graphite.url begins with http://; allowed: with https:// only")
		}
	}
	for _, key := range []string{"password_file", "bearer_token_file", "headers"} {
		if t.given(key) && (key != "headers" || hasSecret(h)) && !isLoopback(u.Hostname()) {
			t.caution(key, "graphite.url begins with http://, so the secret crosses the network in the clear; use https:// if the server has it")
		}
	}
}

// hasSecret tells whether a header is one by which servers know their users.
func hasSecret(h http.Header) bool {
	for name := range h {
		if isSecret(name) {
			return true
		}
	}
	return false
}

func isSecret(header string) bool {
	header = strings.ToLower(header)
	return slices.ContainsFunc([]string{"auth", "cookie", "key", "password", "secret", "token"},
		func(word string) bool { return strings.Contains(header, word) })
}

func (t *table) username(key string) string {
	v, ok := t.text(key, "a user name")
	switch {
	case !ok:
	case v.value == "":
		t.wrong(key, "is empty; allowed: a user name")
	case strings.ContainsFunc(v.value, func(r rune) bool { return r == ':' || r < ' ' }):
		t.wrong(key, "has a colon or a control character in it, which no user name in HTTP can have; allowed: a user name without")
	}
	return v.value
}

func (t *table) bearerToken(key string) string {
	token := t.secretFile(key)
	if strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		t.wrong(key, "the token has a blank or a letter outside ASCII in it; allowed: the bare token, without \"Bearer\" before it")
		return ""
	}
	return token
}

// oneIdentity refuses two ways to say who we are.
func (t *table) oneIdentity(h http.Header) {
	t.together("username", "password_file")
	basic, bearer := t.firstGiven("username", "password_file"), t.given("bearer_token_file")
	if bearer && t.given(basic) {
		t.wrong("bearer_token_file", "is given together with %s; allowed: one of the two", joinPath(t.name, basic))
	}
	if _, own := h["Authorization"]; own && (bearer || t.given(basic)) {
		t.wrong("headers", "has an Authorization header besides %s; allowed: one of the two", joinPath(t.name, t.firstGiven("bearer_token_file", basic)))
	}
}

// isOwnHeader tells the headers that the program or HTTP itself sets: a value
// of the user's would be lost or break the request.
func isOwnHeader(canonical string) bool {
	switch canonical {
	case "Accept-Encoding", "Connection", "Content-Length", "Content-Type", "Host", "Te", "Trailer", "Transfer-Encoding", "Upgrade":
		return true
	}
	return false
}

// headers reads a table of header = value. Values may be secret: no message
// quotes them.
func (t *table) headers(key string) http.Header {
	s := t.free(key)
	if len(s.values) == 0 {
		return nil
	}
	h := http.Header{}
	for _, name := range slices.Sorted(maps.Keys(s.values)) {
		v, ok := s.text(name, "a string")
		canonical := http.CanonicalHeaderKey(name)
		_, twice := h[canonical]
		switch {
		case !isToken(name):
			s.wrong(name, "is not the name of a header; allowed: letters, digits and !#$%%&'*+-.^_`|~")
		case isOwnHeader(canonical):
			s.wrong(name, "is set by this program itself; allowed: any other header")
		case twice:
			s.wrong(name, "is there twice, in different case; allowed: each header once")
		case ok && strings.ContainsFunc(v.value, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }):
			s.wrong(name, "has a newline or another control character in its value; allowed: text on one line")
		case ok:
			h[canonical] = []string{v.value}
			if isSecret(name) && v.value == v.written && t.mode.Perm()&0o004 != 0 {
				s.caution(name, "every user of this machine can read %s, and this header may be a secret; take that away with: chmod o-r %s, or write ${NAME} for an environment variable",
					t.file, t.file)
			}
		}
	}
	return h
}

// isToken tells whether s can be the name of an HTTP header (RFC 9110, 5.6.2).
func isToken(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return r >= 0x80 || !isBareByte(byte(r)) && !strings.ContainsRune("!#$%&'*+.^`|~", r)
	})
}
