package graphite

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"io"
	"log"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// seen is what a server saw of a request.
type seen struct {
	Method, Host, Path string
	Query, Form        url.Values
	Header             http.Header
}

// record returns what one render sends.
func record(t *testing.T, r Request, path string, change ...func(*Config)) seen {
	t.Helper()
	got := make(chan seen, 1)
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		raw, _ := io.ReadAll(r.Body)
		form, err := url.ParseQuery(string(raw))
		if err != nil {
			t.Error(err)
		}
		got <- seen{r.Method, r.Host, r.URL.EscapedPath(), r.URL.Query(), form, r.Header}
		answerJSON("[]")(w, r)
	})
	if _, err := client(t, s.URL+path, change...).Render(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	return <-got
}

func TestRequestForm(t *testing.T) {
	r := Request{Targets: []string{`alias(a.b, "x&y=é +%")`, "c"}, Window: 90 * time.Second}
	fields := url.Values{"target": r.Targets, "format": {"json"}, "noCache": {"1"}, "from": {"-90s"}}
	none := url.Values{}
	withUntil := r
	withUntil.Until = 30 * time.Second
	fieldsUntil := url.Values{"target": r.Targets, "format": {"json"}, "noCache": {"1"}, "from": {"-120s"}, "until": {"-30s"}}
	get := func(c *Config) { c.Method = "GET" }
	tests := []struct {
		name    string
		request Request
		path    string
		change  func(*Config)
		want    seen
	}{
		{"post", r, "", func(*Config) {}, seen{Method: "POST", Path: "/render", Query: none, Form: fields}},
		{"get", r, "", get, seen{Method: "GET", Path: "/render", Query: fields, Form: none}},
		{"until", withUntil, "/", func(*Config) {}, seen{Method: "POST", Path: "/render", Query: none, Form: fieldsUntil}},
		{"prefix", r, "/UID/a%2Fb/graphite/", func(*Config) {}, seen{Method: "POST", Path: "/UID/a%2Fb/graphite/render", Query: none, Form: fields}},
		{"parameters", r, "?storage_step=1s", func(*Config) {}, seen{Method: "POST", Path: "/render", Query: url.Values{"storage_step": {"1s"}}, Form: fields}},
		{"parameters with get", r, "?storage_step=1s", get, seen{Method: "GET", Path: "/render", Query: func() url.Values {
			q := url.Values{"storage_step": {"1s"}}
			for k, v := range fields {
				q[k] = v
			}
			return q
		}(), Form: none}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := record(t, test.request, test.path, test.change)
			wantType := "application/x-www-form-urlencoded"
			if got.Method == "GET" {
				wantType = ""
			}
			if ct := got.Header.Get("Content-Type"); ct != wantType {
				t.Errorf("content type %q", ct)
			}
			got.Host, got.Header = "", nil
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("wanted (-), got (+):\n%s", diff)
			}
		})
	}
}

func TestRequestHeaders(t *testing.T) {
	got := record(t, ask(), "", func(c *Config) {
		c.Header = http.Header{"x-scope-orgid": {"7"}, "X-Two": {"a", "b"}, "Host": {"graphite.internal"}, "User-Agent": {"me"}}
	})
	if got.Host != "graphite.internal" {
		t.Errorf("host %q", got.Host)
	}
	for name, want := range map[string][]string{
		"X-Scope-Orgid": {"7"}, "X-Two": {"a", "b"}, "User-Agent": {"me"}, "Accept": {"application/json"},
		"Accept-Encoding": {"gzip"}, "X-Idempotency-Key": nil, "Authorization": nil, "Cookie": nil,
	} {
		if diff := cmp.Diff(want, got.Header.Values(name)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestRequestCredentials(t *testing.T) {
	header := func(got seen) string { return got.Header.Get("Authorization") }
	basic := header(record(t, ask(), "", func(c *Config) { c.Username, c.Password = "ann", "s3cret:x" }))
	if basic != "Basic YW5uOnMzY3JldDp4" {
		t.Errorf("basic: %q", basic)
	}
	inURL := header(record(t, ask(), "", func(c *Config) { c.URL = strings.Replace(c.URL, "://", "://ann:s3cret%3Ax@", 1) }))
	if inURL != basic {
		t.Errorf("in the address: %q", inURL)
	}
	if bearer := header(record(t, ask(), "", func(c *Config) { c.BearerToken = "12:tok" })); bearer != "Bearer 12:tok" {
		t.Errorf("bearer: %q", bearer)
	}
	own := header(record(t, ask(), "", func(c *Config) { c.Header = http.Header{"Authorization": {"Digest x"}} }))
	if own != "Digest x" {
		t.Errorf("own header: %q", own)
	}
}

func TestRequestRefused(t *testing.T) {
	tests := []struct {
		name string
		r    Request
		text string
	}{
		{"no target", Request{Window: time.Minute}, "no target"},
		{"blank target", Request{Targets: []string{"a", " "}, Window: time.Minute}, "empty"},
		{"no window", Request{Targets: []string{"a"}}, "above 0"},
		{"negative window", Request{Targets: []string{"a"}, Window: -time.Minute}, "above 0"},
		{"fraction", Request{Targets: []string{"a"}, Window: 1500 * time.Millisecond}, "whole seconds"},
		{"negative until", Request{Targets: []string{"a"}, Window: time.Minute, Until: -1}, "until"},
		{"endless", Request{Targets: []string{"a"}, Window: 200 * 365 * 24 * time.Hour}, "100 years"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, err := client(t, "http://127.0.0.1:1").Render(t.Context(), test.r)
			checkError(t, err, KindRequest, test.text)
		})
	}
}

func TestNewClientRefuses(t *testing.T) {
	const secret = "pAssw0rd"
	good := func(change func(*Config)) Config {
		c := Config{URL: "http://graphite"}
		change(&c)
		return c
	}
	tests := []struct {
		config Config
		text   string
	}{
		{Config{}, "no url"},
		{Config{URL: "graphite"}, "http:// or https://"},
		{Config{URL: "ftp://x/" + secret}, "http:// or https://"},
		{Config{URL: "http://" + secret + "\x00/"}, "cannot be read"},
		{Config{URL: "http:///" + secret}, "names no host"},
		{Config{URL: "http://:80/" + secret}, "names no host"},
		{Config{URL: "http://x/" + secret + "#f"}, "#"},
		{Config{URL: "http://x/" + secret + "/render"}, "/render"},
		{Config{URL: "http://x/render/"}, "/render"},
		{Config{URL: "http://u:" + secret + "@x", Username: "v"}, "keep one"},
		{Config{URL: "http://u:" + secret + "@x", BearerToken: "v"}, "keep one"},
		{good(func(c *Config) { c.Method = "PUT" }), "PUT"},
		{good(func(c *Config) { c.Password = secret }), "without a user name"},
		{good(func(c *Config) { c.Username, c.BearerToken = "u", secret }), "keep one"},
		{good(func(c *Config) { c.Username = "u:" + secret }), "colon"},
		{good(func(c *Config) { c.BearerToken = secret + "\n" }), "line end"},
		{good(func(c *Config) { c.Username = "u"; c.Header = http.Header{"authorization": {secret}} }), "keep one"},
		{good(func(c *Config) { c.Header = http.Header{"X-A": {secret + "\r\nX-B: 1"}} }), "X-A"},
		{good(func(c *Config) { c.Header = http.Header{"X A": {secret}} }), "X A"},
		{good(func(c *Config) { c.Header = http.Header{"": {secret}} }), "does not allow"},
		{good(func(c *Config) { c.Header = http.Header{"accept-encoding": {"gzip"}} }), "Accept-Encoding"},
		{good(func(c *Config) { c.Header = http.Header{"Content-Type": {"x"}} }), "Content-Type"},
		{good(func(c *Config) { c.Timeout = -1 }), "negative"},
		{good(func(c *Config) { c.MaxBody = -1 }), "negative"},
		{good(func(c *Config) { c.TLS, c.Transport = &tls.Config{}, http.DefaultTransport }), "exclude"},
	}
	for _, test := range tests {
		_, err := NewClient(test.config)
		if err == nil || !strings.Contains(err.Error(), test.text) || !strings.HasPrefix(err.Error(), "graphite: ") {
			t.Errorf("wanted %q, got %v", test.text, err)
		}
		if err != nil && strings.Contains(err.Error(), secret) {
			t.Errorf("a secret is in the error: %v", err)
		}
	}
}

// A proxy of the environment must not be asked: the test fails if it is.
func TestRequestUsesNoProxy(t *testing.T) {
	proxy := serve(t, func(w http.ResponseWriter, r *http.Request) {
		t.Error("the proxy was asked")
		answerJSON("[]")(w, r)
	})
	transport := newTransport(&Config{})
	if transport.Proxy != nil {
		t.Fatal("the transport has a proxy")
	}
	t.Setenv("HTTP_PROXY", proxy.URL)
	l := serve(t, answerJSON("[]"))
	if _, err := client(t, l.URL).Render(t.Context(), ask()); err != nil {
		t.Fatal(err)
	}
}

// Nothing secret may be in any error, even when the server repeats all it was
// sent or the network's own error names the address.
func TestErrorsHoldNoSecret(t *testing.T) {
	secrets := []string{"pAssw0rd&1", "pAssw0rd", "tok3n-abc", "4cc3ss-k3y", "qu3ry-v4lue", "h3ader-v4lue", "ann", "YW5uOnBBc3N3MHJkJjE=", "f1lled-1n"}
	echo := func(status int, contentType string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			text := "Exception: " + r.URL.String() + " " + r.URL.Query().Get("key") + " f1lled-1n"
			for _, values := range r.Header {
				text += " " + strings.Join(values, " ")
			}
			if user, password, ok := r.BasicAuth(); ok {
				text += " " + user + ":" + password + " " + url.QueryEscape(password) + " " + strings.ReplaceAll(password, "&", "&amp;")
			}
			w.Header().Set("Location", "https://x/"+text)
			answerWith(status, contentType, text)(w, r)
		}
	}
	handlers := map[string]http.HandlerFunc{
		"500 html": echo(500, "text/html"),
		"400 text": echo(400, "text/plain"),
		"redirect": echo(302, "text/html"),
		"not json": echo(200, "application/json"),
		"type":     func(w http.ResponseWriter, r *http.Request) { echo(200, r.Header.Get("X-Key"))(w, r) },
		"drop":     func(w http.ResponseWriter, r *http.Request) { panic(http.ErrAbortHandler) },
		"bad location": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Location", "://4cc3ss-k3y")
			w.WriteHeader(302)
		},
	}
	logins := map[string]func(*Config){
		"basic":  func(c *Config) { c.Username, c.Password = "ann", "pAssw0rd&1" },
		"bearer": func(c *Config) { c.BearerToken = "tok3n-abc" },
		"url":    func(c *Config) { c.URL = strings.Replace(c.URL, "://", "://ann:pAssw0rd%261@", 1) },
	}
	check := func(t *testing.T, err error) {
		t.Helper()
		if err == nil {
			t.Fatal("no error")
		}
		for _, s := range secrets {
			if strings.Contains(err.Error(), s) {
				t.Errorf("%q is in the error: %v", s, err)
			}
		}
	}
	for name, handler := range handlers {
		for login, change := range logins {
			t.Run(name+"/"+login, func(t *testing.T) {
				s := serve(t, handler)
				s.Config.ErrorLog = log.New(io.Discard, "", 0)
				c := client(t, s.URL+"/4cc3ss-k3y/graphite?key=qu3ry-v4lue", change, func(c *Config) {
					c.Header, c.Hidden = http.Header{"X-Key": {"h3ader-v4lue"}}, []string{"f1lled-1n"}
				})
				_, err := c.Render(t.Context(), ask())
				check(t, err)
			})
		}
	}
	for login, change := range logins {
		t.Run("network/"+login, func(t *testing.T) {
			for _, cause := range []error{
				&url.Error{Op: "Post", URL: "http://x/4cc3ss-k3y/?key=qu3ry-v4lue", Err: io.ErrUnexpectedEOF},
				&x509.HostnameError{Host: "4cc3ss-k3y", Certificate: &x509.Certificate{}},
			} {
				c := client(t, "http://x/4cc3ss-k3y?key=qu3ry-v4lue", change, func(c *Config) {
					c.Transport = roundTrip(func(*http.Request) (*http.Response, error) { return nil, cause })
				})
				_, err := c.Render(t.Context(), ask())
				check(t, err)
			}
		})
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestTLS(t *testing.T) {
	clientCert := selfSigned(t)
	clientCAs := x509.NewCertPool()
	clientCAs.AddCert(clientCert.Leaf)
	start := func(t *testing.T, auth tls.ClientAuthType) *httptest.Server {
		s := httptest.NewUnstartedServer(answerJSON("[]"))
		s.TLS = &tls.Config{ClientAuth: auth, ClientCAs: clientCAs}
		s.Config.ErrorLog = log.New(io.Discard, "", 0)
		s.StartTLS()
		t.Cleanup(s.Close)
		return s
	}
	trusting := func(s *httptest.Server, certs ...tls.Certificate) func(*Config) {
		roots := x509.NewCertPool()
		roots.AddCert(s.Certificate())
		return func(c *Config) { c.TLS = &tls.Config{RootCAs: roots, Certificates: certs} }
	}
	t.Run("trusted", func(t *testing.T) {
		s := start(t, tls.NoClientCert)
		if _, err := client(t, s.URL, trusting(s)).Render(t.Context(), ask()); err != nil {
			t.Error(err)
		}
	})
	t.Run("not trusted", func(t *testing.T) {
		s := start(t, tls.NoClientCert)
		_, err := client(t, s.URL).Render(t.Context(), ask())
		checkError(t, err, KindConnect, "certificate", "ca_file")
	})
	t.Run("client certificate", func(t *testing.T) {
		s := start(t, tls.RequireAndVerifyClientCert)
		if _, err := client(t, s.URL, trusting(s, clientCert)).Render(t.Context(), ask()); err != nil {
			t.Error(err)
		}
	})
	t.Run("no client certificate", func(t *testing.T) {
		s := start(t, tls.RequireAndVerifyClientCert)
		_, err := client(t, s.URL, trusting(s)).Render(t.Context(), ask())
		checkError(t, err, KindConnect)
	})
	t.Run("http to https", func(t *testing.T) {
		s := start(t, tls.NoClientCert)
		_, err := client(t, strings.Replace(s.URL, "https", "http", 1)).Render(t.Context(), ask())
		checkError(t, err, KindStatus, "HTTPS")
	})
	t.Run("https to http", func(t *testing.T) {
		s := serve(t, answerJSON("[]"))
		_, err := client(t, strings.Replace(s.URL, "http", "https", 1)).Render(t.Context(), ask())
		checkError(t, err, KindConnect, "does not speak TLS")
	})
}

func selfSigned(t *testing.T) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "weighter"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, BasicConstraintsValid: true, IsCA: true,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}
}

// The caller's context reaches the transport.
func TestRequestContext(t *testing.T) {
	type key struct{}
	ctx := context.WithValue(t.Context(), key{}, 1)
	c := client(t, "http://x", func(c *Config) {
		c.Transport = roundTrip(func(r *http.Request) (*http.Response, error) {
			if r.Context().Value(key{}) != 1 {
				t.Error("another context")
			}
			if _, ok := r.Context().Deadline(); !ok {
				t.Error("no deadline")
			}
			return nil, io.EOF
		})
	})
	_, err := c.Render(ctx, ask())
	checkError(t, err, KindConnect, "EOF")
}

// TestErrorsHoldNoHalfOfASecret: what an error quotes is cut, and so is what a
// server repeats; neither may leave the half of a secret that no mask knows.
func TestErrorsHoldNoHalfOfASecret(t *testing.T) {
	const password = `pAssw0rd"<\u00e9-0123456789` // quoting changes it as well
	echo := func(status, before int, header bool) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			text := strings.Repeat("x", before) + password + strings.Repeat("y", 200)
			if header {
				text = "Error: Authorization: " + r.Header.Get("Authorization")[:14]
			}
			answerWith(status, "application/json", text)(w, r)
		}
	}
	var handlers []http.HandlerFunc
	for before := range 90 {
		handlers = append(handlers, echo(200, before, false), echo(500, before, false))
	}
	handlers = append(handlers, echo(200, 0, true), echo(500, 0, true))
	for before := range 30 { // a list that breaks behind the secret, or before it
		handlers = append(handlers,
			answerJSON(`["`+password+strings.Repeat("y", before)+`" x`),
			answerJSON(`[`+strings.Repeat(" ", before)+`1 `+password))
	}
	for _, handler := range handlers {
		s := serve(t, handler)
		_, err := client(t, s.URL, func(c *Config) { c.Username, c.Password = "ann", password }).Render(t.Context(), ask())
		if err == nil {
			t.Fatal("no error")
		}
		// The words of our own that would match: a port is any number.
		text := strings.NewReplacer("character", "", s.URL, "").Replace(err.Error())
		for _, half := range []string{"pAs", "789", "rd", "YW5uOn"} {
			if strings.Contains(text, half) {
				t.Errorf("%q is in the error: %v", half, err)
			}
		}
	}
}
