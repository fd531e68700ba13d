package config

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
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

// fileName is a path and how messages name it: with its ${NAME} as written,
// because a secret that was put where its file's name belongs must not be
// printed either.
type fileName struct{ path, shown string }

// fileName reads a key that names a file; the path is empty when there is
// none to read.
func (t *table) fileName(key string) fileName {
	const allowed = "the path of a file, taken from the folder of this configuration when it is relative"
	v, ok := t.text(key, allowed)
	if !ok {
		return fileName{}
	}
	if v.value == "" {
		t.wrong(key, "is empty; allowed: %s", allowed)
		return fileName{}
	}
	name := fileName{path: t.beside(v.value), shown: v.written}
	if v.value == v.written {
		name.shown = name.path
	}
	return name
}

// secretFile reads a password or token: the one line of a file.
func (t *table) secretFile(key string) string {
	name := t.fileName(key)
	if name.path == "" {
		return ""
	}
	data, mode, err := name.read()
	if err != nil {
		t.wrong(key, "can't read the secret: %v; allowed: a file that this program's user can read", err)
		return ""
	}
	t.cautionReadable(key, name, mode)
	secret := strings.TrimSuffix(strings.TrimSuffix(string(data), "\n"), "\r")
	switch {
	case secret == "":
		t.wrong(key, "%s is empty; allowed: a file with the secret on its only line", name.shown)
		return ""
	case strings.ContainsAny(secret, "\r\n\x00"):
		t.wrong(key, "%s has more than one line; allowed: a file with the secret on its only line", name.shown)
		return ""
	}
	return secret
}

func (t *table) cautionReadable(key string, name fileName, mode fs.FileMode) {
	if mode.Perm()&0o004 != 0 {
		t.caution(key, "every user of this machine can read %s; take that away with: chmod o-r %s", name.shown, name.shown)
	}
}

// cautionWritable warns of a file of which everybody can make another one.
// path and key are where the warning belongs.
func (r *reader) cautionWritable(path, key string, name fileName) {
	mode := r.mode
	if path != "" {
		info, err := os.Stat(name.path)
		if err != nil {
			return // who reads it tells
		}
		mode = info.Mode()
	}
	switch folder, err := os.Stat(filepath.Dir(name.path)); {
	case mode.Perm()&0o002 != 0:
		r.warn(path, key, "every user of this machine may write to %s, and so set weights by it; take that away with: chmod o-w %s", name.shown, name.shown)
	case mode != 0 && err == nil && folder.Mode().Perm()&0o002 != 0 && folder.Mode()&fs.ModeSticky == 0:
		r.warn(path, key, "every user of this machine may write to the folder of %s, and so put another file in its place; take that away with: chmod o-w on the folder", name.shown)
	}
}

// read reads a whole file. It refuses pipes and devices, on which it could
// wait for ever. Its errors name the file as shown.
func (n fileName) read() ([]byte, fs.FileMode, error) {
	data, mode, err := readRegular(n.path)
	var pathErr *fs.PathError
	if errors.As(err, &pathErr) {
		err = fmt.Errorf("%s %s: %w", pathErr.Op, n.shown, pathErr.Err)
	} else if err != nil {
		err = fmt.Errorf("%s %w", n.shown, err)
	}
	return data, mode, err
}

func readRegular(path string) ([]byte, fs.FileMode, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, 0, err
	}
	if !info.Mode().IsRegular() {
		return nil, 0, errors.New("is not a regular file")
	}
	data, err := readLimited(context.Background(), path, largestSecret)
	return data, info.Mode(), err
}

// tls reads ca_file, cert_file and key_file; nil when there is none of them.
func (t *table) tls() *tls.Config {
	ca, cert, key := t.fileName("ca_file"), t.fileName("cert_file"), t.fileName("key_file")
	t.together("cert_file", "key_file")
	if ca.path == "" && cert.path == "" && key.path == "" {
		return nil
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if ca.path != "" {
		c.RootCAs = t.authorities("ca_file", ca)
	}
	if cert.path != "" && key.path != "" {
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

func (t *table) authorities(key string, name fileName) *x509.CertPool {
	data, _, err := name.read()
	if err != nil {
		t.wrong(key, "can't read the certificates: %v; allowed: a file that this program's user can read", err)
		return nil
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(data) {
		t.wrong(key, "%s has no certificate that can be read; allowed: one or more certificates in PEM form", name.shown)
	}
	return pool
}

func (t *table) certificate(certName, keyName fileName) []tls.Certificate {
	cert, _, certErr := certName.read()
	if certErr != nil {
		t.wrong("cert_file", "can't read the certificate: %v; allowed: a file that this program's user can read", certErr)
	}
	key, mode, keyErr := keyName.read()
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
