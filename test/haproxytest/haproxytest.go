// Package haproxytest runs tests on every version of HAProxy that there is to
// test with: the installed one and those that test/deps/haproxy-versions gets.
//
//	haproxytest.ForEachVersion(t, func(t *testing.T, b haproxyproc.Binary) {
//		p, err := haproxyproc.Start(t.Context(), haproxyproc.Options{Binary: b.Path, Config: config})
//		...
//	})
package haproxytest

import (
	"strings"
	"testing"

	"github.com/haproxy-weighter/haproxy-weighter/test/haproxyproc"
)

// ForEachVersion runs body once for each of haproxyproc.Binaries, in a subtest
// that is named by the version, one after the other unless body calls
// t.Parallel. It fails the test when there is no HAProxy, and in CI (the
// environment variable CI is set) when one is missing; elsewhere the log says
// which versions the test was not run on.
func ForEachVersion(t *testing.T, body func(t *testing.T, b haproxyproc.Binary)) {
	t.Helper()
	binaries, err := haproxyproc.Binaries()
	if err != nil {
		t.Fatal(err)
	}
	missing, err := haproxyproc.Missing()
	if err != nil {
		t.Fatal(err)
	}
	if len(missing) > 0 {
		t.Logf("not run on the HAProxy of Debian's %s: get them with test/deps/haproxy-versions, as `make test` does", strings.Join(missing, ", "))
	}
	for _, b := range binaries {
		t.Run(b.Version, func(t *testing.T) { body(t, b) })
	}
}
