package haproxy

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseAddress(t *testing.T) {
	for text, want := range map[string]Address{
		"/run/haproxy/admin.sock":          {"unix", "/run/haproxy/admin.sock"},
		"unix:/run/haproxy/admin.sock":     {"unix", "/run/haproxy/admin.sock"},
		"master:/run/haproxy-master.sock":  {"master", "/run/haproxy-master.sock"},
		"abns@haproxy":                     {"abns", "haproxy"},
		"abns@with:colon/slash":            {"abns", "with:colon/slash"},
		"abns@" + strings.Repeat("x", 107): {"abns", strings.Repeat("x", 107)},
		"tcp:127.0.0.1:9999":               {"tcp", "127.0.0.1:9999"},
		"tcp:[::1]:9999":                   {"tcp", "[::1]:9999"},
		"tcp:localhost:1":                  {"tcp", "localhost:1"},
		"/with:colon":                      {"unix", "/with:colon"},
		"/" + strings.Repeat("x", 106):     {"unix", "/" + strings.Repeat("x", 106)},
	} {
		got, err := ParseAddress(text)
		if err != nil || got != want {
			t.Errorf("ParseAddress(%q) = %v, %v, want %v", text, got, err, want)
		}
		again, err := ParseAddress(got.String())
		if diff := cmp.Diff(got, again); err != nil || diff != "" {
			t.Errorf("ParseAddress(%q.String()) = %v, %v", text, again, err)
		}
	}
}

func TestParseAddressErrors(t *testing.T) {
	for text, why := range map[string]string{
		"":                                 "it is empty",
		"run/haproxy.sock":                 "this form is not known",
		"unix:run/haproxy.sock":            "the path must begin with /",
		"unix@/run/haproxy.sock":           "this form is not known",
		"master:sock":                      "the path must begin with /",
		"abns:haproxy":                     "this form is not known",
		"abns@":                            "the name is empty",
		"abns@a\x00b":                      "NUL",
		"abns@" + strings.Repeat("x", 108): "108 bytes",
		"/" + strings.Repeat("x", 107):     "108 bytes",
		"tcp:9999":                         "a host and a port",
		"tcp::9999":                        "a host and a port",
		"tcp:127.0.0.1":                    "a host and a port",
		"tcp:127.0.0.1:0":                  "1 to 65535",
		"tcp:127.0.0.1:http":               "1 to 65535",
		"tcp:127.0.0.1:65536":              "1 to 65535",
		"http://127.0.0.1:9999":            "this form is not known",
		"127.0.0.1:9999":                   "this form is not known",
	} {
		_, err := ParseAddress(text)
		if err == nil {
			t.Errorf("ParseAddress(%q) gave no error", text)
			continue
		}
		if !strings.Contains(err.Error(), why) || !strings.Contains(err.Error(), addressForms) {
			t.Errorf("ParseAddress(%q): %q does not contain %q and the allowed forms", text, err, why)
		}
	}
}

func TestAddressWarning(t *testing.T) {
	for text, want := range map[string]bool{
		"/run/s": false, "abns@x": false, "master:/run/s": false,
		"tcp:127.0.0.1:1": false, "tcp:127.9.9.9:1": false, "tcp:[::1]:1": false, "tcp:localhost:1": false,
		"tcp:10.0.0.1:1": true, "tcp:0.0.0.0:1": true, "tcp:lb1.example.com:1": true, "tcp:[fe80::1]:1": true,
	} {
		a, err := ParseAddress(text)
		if err != nil {
			t.Fatal(err)
		}
		if got := a.Warning(); (got != "") != want {
			t.Errorf("warning for %s: %q", text, got)
		}
	}
}
