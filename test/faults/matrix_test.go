package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/haproxy-weighter/haproxy-weighter/test/haproxyproc"
)

var built *programs

func TestMain(m *testing.M) {
	flag.Parse()
	dir, err := os.MkdirTemp("", "faults")
	if err == nil {
		err = os.Chmod(dir, 0o755) // for a daemon of another user
	}
	if err == nil {
		built, err = build(context.Background(), dir, raced)
	}
	if err == nil {
		// Rows wait most of the time: more of them at once than processors.
		err = flag.Set("test.parallel", "8")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		os.RemoveAll(dir)
		os.Exit(code)
	}))
}

// TestMatrix is the short form of the matrix: every fault, on the installed
// HAProxy.
func TestMatrix(t *testing.T) {
	t.Parallel()
	path, err := haproxyproc.FindBinary("")
	if err != nil {
		t.Fatal(err)
	}
	all, err := rows()
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range all {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			o := r.run(t.Context(), haproxyproc.Binary{Path: path}, built, short(raced))
			if o.err != nil {
				t.Errorf("%v\nend of the daemon's log:\n%s", o.err, o.log)
			}
			t.Logf("right again after %v, slowest SPOE answer %v, at most %d MiB and %d descriptors", o.recovered, o.slowest, o.most.Peak>>20, o.most.Descriptors)
		})
	}
}
