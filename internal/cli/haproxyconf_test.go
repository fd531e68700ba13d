package cli

import (
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	haproxyconf "github.com/haproxy-weighter/haproxy-weighter/haproxy-conf"
)

// TestHAProxyConfGeneric holds that no configuration is needed when none was asked for.
func TestHAProxyConfGeneric(t *testing.T) {
	p := &Program{file: filepath.Join(t.TempDir(), "weighter.toml")}
	values := haproxyconf.Generic()
	hints, err := p.fillIn(&values, newHAProxyConf(p), haproxyconf.Examples()[0], nil)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(haproxyconf.Generic(), values); diff != "" {
		t.Errorf("values (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{hintGenericNames(p.file)}, hints); diff != "" {
		t.Errorf("hints (-want +got):\n%s", diff)
	}
}
