package config

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"log/slog"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// writeCertificate puts ca.pem, client.pem and client.key into folder.
func writeCertificate(t *testing.T, folder string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for name, block := range map[string]*pem.Block{
		"ca.pem":     {Type: "CERTIFICATE", Bytes: cert},
		"client.pem": {Type: "CERTIFICATE", Bytes: cert},
		"client.key": {Type: "EC PRIVATE KEY", Bytes: der},
	} {
		if err := os.WriteFile(filepath.Join(folder, name), pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

const around = `
[haproxy]
sockets = ["/run/haproxy/admin.sock"]
[[backend]]
name   = "ingest"
target = "servers.*.load"
[graphite]
`

func TestTLSFilesBesideTheConfiguration(t *testing.T) {
	folder := t.TempDir()
	writeCertificate(t, folder)
	c, err := Parse(folder+"/weighter.toml", []byte(around+`
url = "https://graphite.example.com"
ca_file = "ca.pem"
cert_file = "client.pem"
key_file = "client.key"
`), testEnv)
	if err != nil {
		t.Fatal(err)
	}
	if c.Graphite.TLS == nil || c.Graphite.TLS.RootCAs == nil || len(c.Graphite.TLS.Certificates) != 1 {
		t.Errorf("TLS is %+v", c.Graphite.TLS)
	}
	if c.Warnings != nil {
		t.Errorf("warnings %v", c.Warnings)
	}
}

// TestSecretsStayUnsaid prints a Config in every way that comes to mind.
func TestSecretsStayUnsaid(t *testing.T) {
	folder := t.TempDir()
	for name, text := range map[string]string{"password": "hunter2\n", "token": "hunter2"} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, identity := range []string{
		"username = \"me\"\npassword_file = \"password\"",
		"bearer_token_file = \"token\"",
		"headers = { X-Key = \"${WEIGHTER_SECRET}\" }",
	} {
		c, err := Parse(folder+"/weighter.toml", []byte(around+"url = \"https://graphite.example.com/${WEIGHTER_SECRET}/graphite\"\n"+identity), testEnv)
		if err != nil {
			t.Fatal(err)
		}
		held := c.Graphite.Password + c.Graphite.BearerToken + fmt.Sprint(c.Graphite.Header)
		if !strings.Contains(held, "hunter2") || !strings.Contains(c.Graphite.URL, secret) {
			t.Fatalf("the secret was not read: %q", held)
		}
		var said bytes.Buffer
		fmt.Fprintf(&said, "%v %+v %#v %s %q\n", c, c, c, c, c)
		fmt.Fprintf(&said, "%v %+v %#v %s %q %v\n", *c, *c, *c, *c, *c, []Config{*c})
		slog.New(slog.NewTextHandler(&said, nil)).Info("read", "config", c, "value", *c)
		slog.New(slog.NewJSONHandler(&said, nil)).Info("read", "config", c, "all", []*Config{c})
		if err := json.NewEncoder(&said).Encode(c); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(said.String(), "hunter2") {
			t.Errorf("a secret is in:\n%s", &said)
		}
		if n := strings.Count(said.String(), "graphite.example.com"); n < 10 {
			t.Errorf("only %d of the lines say where Graphite is:\n%s", n, &said)
		}
	}
}

func TestWarnings(t *testing.T) {
	folder := t.TempDir()
	secretFile := func(name string, mode os.FileMode) string {
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path, []byte("hunter2\r\n"), mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil { // whatever the umask
			t.Fatal(err)
		}
		return path
	}
	open, closed := secretFile("open", 0o644), secretFile("closed", 0o640)
	for _, test := range []struct {
		name, graphite string
		want           []string
	}{
		{"password for all to read", "url = \"https://graphite.example.com\"\nusername = \"me\"\npassword_file = \"open\"",
			[]string{"weighter.toml:10: graphite.password_file: every user of this machine can read " + open + "; take that away with: chmod o-r " + open}},
		{"password in the clear", "url = \"http://graphite.example.com\"\nusername = \"me\"\npassword_file = \"closed\"",
			[]string{"weighter.toml:10: graphite.password_file: graphite.url begins with http://, so the secret crosses the network in the clear; use https:// if the server has it"}},
		{"header in the clear", "url = \"http://graphite.example.com\"\nheaders = { X-Api-Key = \"k\", X-Tenant = \"t\" }",
			[]string{"weighter.toml:9: graphite.headers: graphite.url begins with http://, so the secret crosses the network in the clear; use https:// if the server has it"}},
		{"headers that are no secrets", "url = \"http://graphite.example.com\"\nheaders = { X-Tenant = \"t\" }", nil},
		{"password to this machine", "url = \"http://127.0.0.1:8080\"\nusername = \"me\"\npassword_file = \"" + closed + "\"", nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			c, err := Parse(folder+"/weighter.toml", []byte(around+test.graphite), testEnv)
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(test.graphite, "password") && c.Graphite.Password != "hunter2" {
				t.Errorf("password %q", c.Graphite.Password)
			}
			var got []string
			for _, w := range c.Warnings {
				got = append(got, strings.TrimPrefix(w.String(), folder+"/"))
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestWarningRemoteSocket(t *testing.T) {
	c, err := Parse("weighter.toml", []byte(strings.Replace(Minimal, `admin.sock"]`, `admin.sock", "tcp:[::1]:9999", "tcp:192.0.2.1:9999"]`, 1)), testEnv)
	if err != nil {
		t.Fatal(err)
	}
	want := []Mistake{{File: "weighter.toml", Line: 2, Key: "haproxy.sockets", Text: addresses(t, "tcp:192.0.2.1:9999")[0].Warning()}}
	if diff := cmp.Diff(want, c.Warnings); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
