package haproxytest

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/haproxy-weighter/haproxy-weighter/test/haproxyproc"
)

func TestForEachVersion(t *testing.T) {
	want, err := haproxyproc.Binaries()
	if err != nil {
		t.Fatal(err)
	}
	var got []haproxyproc.Binary
	ForEachVersion(t, func(t *testing.T, b haproxyproc.Binary) {
		got = append(got, b)
		if name := "TestForEachVersion/" + b.Version; t.Name() != name {
			t.Errorf("the subtest is %s, want %s", t.Name(), name)
		}
	})
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("run on (-want +got):\n%s", diff)
	}
}
