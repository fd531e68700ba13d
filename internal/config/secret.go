package config

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// largestSecret is far above any key or password, and keeps a wrong path from
// being read for ever.
const largestSecret = 1 << 20

// beside makes a path absolute or relative to the folder of the configuration.
func (r *reader) beside(path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(filepath.Dir(r.file), path)
}

// fileName reads a key that names a file; "" when there is none to read.
func (t *table) fileName(key string) string {
	const allowed = "the path of a file, taken from the folder of this configuration when it is relative"
	v, ok := t.text(key, allowed)
	if !ok {
		return ""
	}
	if v.value == "" {
		t.wrong(key, "is empty; allowed: %s", allowed)
		return ""
	}
	return t.beside(v.value)
}

// secretFile reads a password or token: the one line of a file.
func (t *table) secretFile(key string) string {
	name := t.fileName(key)
	if name == "" {
		return ""
	}
	data, mode, err := readRegular(name)
	if err != nil {
		t.wrong(key, "can't read the secret: %v; allowed: a file that this program's user can read", err)
		return ""
	}
	t.cautionReadable(key, name, mode)
	secret := strings.TrimSuffix(strings.TrimSuffix(string(data), "\n"), "\r")
	switch {
	case secret == "":
		t.wrong(key, "%s is empty; allowed: a file with the secret on its only line", name)
		return ""
	case strings.ContainsAny(secret, "\r\n\x00"):
		t.wrong(key, "%s has more than one line; allowed: a file with the secret on its only line", name)
		return ""
	}
	return secret
}

func (t *table) cautionReadable(key, name string, mode fs.FileMode) {
	if mode.Perm()&0o004 != 0 {
		t.caution(key, "every user of this machine can read %s; take that away with: chmod o-r %s", name, name)
	}
}

// readRegular reads a whole file. It refuses pipes and devices, on which it
// could wait for ever.
func readRegular(name string) ([]byte, fs.FileMode, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, 0, err
	}
	if !info.Mode().IsRegular() {
		return nil, 0, fmt.Errorf("%s is not a regular file", name)
	}
	data, err := readLimited(name, largestSecret)
	return data, info.Mode(), err
}

// readLimited reads a whole file of at most limit bytes.
func readLimited(name string, limit int64) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(data)) > limit {
		err = fmt.Errorf("%s is larger than %s", name, plainSize(limit))
	}
	return data, err
}

// tls reads ca_file, cert_file and key_file; nil when there is none of them.
func (t *table) tls() *tls.Config {
	ca, cert, key := t.fileName("ca_file"), t.fileName("cert_file"), t.fileName("key_file")
	t.together("cert_file", "key_file")
	if ca == "" && cert == "" && key == "" {
		return nil
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if ca != "" {
		c.RootCAs = t.authorities("ca_file", ca)
	}
	if cert != "" && key != "" {
		c.Certificates = t.certificate(cert, key)
	}
	return c
}

// together notes a mistake when the file has one of two keys without the other.
func (t *table) together(a, b string) {
	switch {
	case t.given(a) && !t.given(b):
		t.wrong(a, "needs %s beside it; allowed: both or neither", joinPath(t.name, b))
	case t.given(b) && !t.given(a):
		t.wrong(b, "needs %s beside it; allowed: both or neither", joinPath(t.name, a))
	}
}

func (t *table) authorities(key, name string) *x509.CertPool {
	data, _, err := readRegular(name)
	if err != nil {
		t.wrong(key, "can't read the certificates: %v; allowed: a file that this program's user can read", err)
		return nil
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(data) {
		t.wrong(key, "%s has no certificate that can be read; allowed: one or more certificates in PEM form", name)
	}
	return pool
}

func (t *table) certificate(certName, keyName string) []tls.Certificate {
	cert, _, certErr := readRegular(certName)
	if certErr != nil {
		t.wrong("cert_file", "can't read the certificate: %v; allowed: a file that this program's user can read", certErr)
	}
	key, mode, keyErr := readRegular(keyName)
	if keyErr != nil {
		t.wrong("key_file", "can't read the key: %v; allowed: a file that this program's user can read", keyErr)
	}
	if errors.Join(certErr, keyErr) != nil {
		return nil
	}
	t.cautionReadable("key_file", keyName, mode)
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		t.wrong("cert_file", "does not go together with %s: %v; allowed: a certificate and its key, both in PEM form", joinPath(t.name, "key_file"), err)
		return nil
	}
	return []tls.Certificate{pair}
}
