package docs

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/haproxy-weighter/haproxy-weighter/internal/cli"
)

// TestLimits holds that a limit is the same in a document and where it is set: whoever
// changes one of the two is led to the other.
func TestLimits(t *testing.T) {
	const unit, socket = "packaging/systemd/haproxy-weighter.service", "packaging/systemd/haproxy-weighter.socket"
	for _, c := range []struct{ document, words, source, text string }{
		{"docs/install.md", "After 20 tries in 5 minutes it stays failed", unit, "StartLimitIntervalSec=5min\nStartLimitBurst=20\n"},
		{"docs/install.md", "it is started again after 5 s", unit, "\nRestart=always\nRestartSec=5s\n"},
		{"docs/install.md", "systemd's watchdog ends and starts it after 30 s", unit, "\nWatchdogSec=30s\n"},
		{"docs/install.md", "give it more memory than 512 MB", unit, "\nMemoryMax=512M\n"},
		{"docs/install.md", "`OOMScoreAdjust=500`", unit, "\nOOMScoreAdjust=500\n"},
		{"docs/install.md", "20 s at most", "internal/daemon/daemon.go", "endLimit = 20 * time.Second"},
		{"docs/operations.md", "that takes a second, and 20 at most", "internal/daemon/daemon.go", "endLimit = 20 * time.Second"},
		{"docs/operations.md", "the newest 15 intervals are kept", "internal/report/report.go", "keptIntervals = 15\n"},

		{"docs/json.md", "up to 500 bytes", "internal/admin/decode.go", "mostReason = 500 "},
		{"docs/json.md", "1 to 2592000 (30 days)", "internal/admin/decode.go", "mostFor = 30 * 24 * time.Hour"},
		{"docs/json.md", "Every 15 seconds comes an event `beat`", "internal/admin/serve.go", "heartbeat: 15 * time.Second"},
		{"docs/json.md", "At most 32 readers are served at once", "internal/admin/serve.go", "watchers: 32"},
		{"docs/json.md", "at most 2,000 events a backend (16,000 of all)", "internal/admin/history.go", "mostEvents = 2_000 // of a backend mostAllEvents = 16_000 "},
		{"docs/json.md", "up to 262,144 of them, 2 MB, all together 4,194,304", "internal/admin/history.go", "mostCells = 256 << 10 // of one backend on one socket; a cell is one server at one time mostAllCells = 4 << 20 "},
		{"docs/json.md", "A backend that is no longer in the configuration is forgotten after 24 hours", "internal/admin/history.go", "historySpan = 24 * time.Hour"},

		{"docs/lua.md", "a call of `weigh` | 50 ms", "lua/script.go", "WeighLimit = 50 * time.Millisecond"},
		{"docs/lua.md", "waiting for a free state included | 5 ms", "lua/script.go", "AnswerLimit = 5 * time.Millisecond"},
		{"docs/lua.md", "100 ms, 128 KiB a file, 32 modules", "lua/script.go", "loadLimit = 100 * time.Millisecond maxSource = 128 << 10 // bytes of one file maxModules = 32 "},
		{"docs/lua.md", "nesting of the source | 500", "lua/script.go", "maxDepth = 500 "},
		{"docs/lua.md", "a string | 64 KiB", "lua/script.go", "maxString = 64 << 10 "},
		{"docs/lua.md", "a pattern | 256 bytes", "lua/script.go", "maxPattern = 256 "},
		{"docs/lua.md", "calls inside calls | 200", "lua/script.go", "maxCalls = 200 "},
		{"docs/lua.md", "at most 20 lines of 200 bytes a call", "lua/script.go", "maxPrinted = 20 // lines of one call maxLine = 200 "},
		{"docs/lua.md", "memory that a state keeps | 32 MiB", "lua/script.go", "memoryLimit = 32 << 20 "},

		{"README.md", "(`make convergence CONVERGENCE_FLAGS=", "Makefile", "bin/convergence --plot bin/convergence.svg $(CONVERGENCE_FLAGS)"},
		{"docs/getting-started.md", "within one interval (30 s)", "internal/config/reference.toml", "#interval = \"30s\"\n"},
		{"docs/install.md", "ListenStream=127.0.0.1:9002, the same as spoa.listen", socket, "\nListenStream=127.0.0.1:9002\n"},
		{"docs/spoe.md", "`timeout processing` (20ms as shipped)", "haproxy-conf/tcp-pick/weighter.spoe", "timeout processing 20ms\n"},
	} {
		if !strings.Contains(words(read(t, c.document)), words(c.words)) {
			t.Errorf("%s no longer says %q, which is %q in %s", c.document, c.words, c.text, c.source)
		}
		if !strings.Contains(words(read(t, c.source)), words(c.text)) {
			t.Errorf("%s no longer has %q; %s says %q", c.source, c.text, c.document, c.words)
		}
	}
}

// words has one blank between any two words.
func words(text string) string { return strings.Join(strings.Fields(text), " ") }

// TestSimulations runs each call of simulate that docs/tuning.md has in its text, for a
// model of ten minutes: the figures beside them take longer.
func TestSimulations(t *testing.T) {
	var calls []string
	for _, s := range spans(parse(t, "docs/tuning.md").prose()) {
		s = strings.TrimPrefix(s, "haproxy-weighter ")
		// --grid has a test of its own, and takes a quarter of an hour.
		if strings.HasPrefix(s, "simulate -") && !strings.Contains(s, "--grid") && !slices.Contains(calls, s) {
			calls = append(calls, s)
		}
	}
	if len(calls) < 7 {
		t.Fatalf("only %v found", calls)
	}
	for _, call := range calls {
		var out, errs strings.Builder
		p := &cli.Program{Stdout: &out, Stderr: &errs}
		args := append(strings.Fields(call), "--seeds", "1", "--warmup", "1m", "--duration", "10m", "--policy", "water-fill")
		if code := p.Run(t.Context(), args); code != 0 || !regexp.MustCompile(`(?m)^water-fill\b`).MatchString(out.String()) {
			t.Errorf("%s: exit code %d: %s%s", call, code, errs.String(), out.String())
		}
	}
}
