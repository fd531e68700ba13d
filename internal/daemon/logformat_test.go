package daemon

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

// unseen are all characters that do something and are not printed, and some of
// those that mean nothing; so many a text.
func unseen() []string {
	var texts []string
	var b strings.Builder
	for r := rune(0); r <= unicode.MaxRune; r++ {
		if unicode.IsPrint(r) || !utf8.ValidRune(r) || !unicode.In(r, unicode.Cc, unicode.Cf, unicode.Z) && r%997 != 0 {
			continue
		}
		b.WriteRune(r)
		if b.Len() > 100 {
			texts = append(texts, b.String())
			b.Reset()
		}
	}
	return append(texts, b.String())
}

type marshals string

func (m marshals) MarshalText() ([]byte, error) { return []byte(m), nil }

// TestLogShowsNothingUnseen: wherever in a record a text is, characters that a
// terminal acts on, or does not show, are escaped; JSON means the same text still.
func TestLogShowsNothingUnseen(t *testing.T) {
	for _, format := range []string{"text", "json"} {
		t.Run(format, func(t *testing.T) {
			for _, bad := range append(unseen(), "é 日本 \u009b2J é", "\u202e", "plain") {
				var out bytes.Buffer
				log := slog.New(logHandler(&out, format, slog.LevelDebug)).With("with"+bad, bad).WithGroup("group" + bad)
				log.Info("msg"+bad, "text", bad, "error", errors.New(bad), "list", []string{bad}, "map", map[string]any{bad: []any{bad}},
					"marshals", marshals(bad), "bytes", []byte(bad), slog.Group("inner"+bad, "deep", struct{ X string }{bad}))
				line := strings.TrimSuffix(out.String(), "\n")
				if i := strings.IndexFunc(line, func(r rune) bool { return !unicode.IsPrint(r) }); i >= 0 {
					t.Fatalf("%q is in the line", line[i:min(i+20, len(line))])
				}
				if format == "text" {
					continue
				}
				var got map[string]any
				if err := json.Unmarshal([]byte(line), &got); err != nil {
					t.Fatalf("%v: %q", err, line)
				}
				delete(got, "time")
				want := map[string]any{"level": "INFO", "msg": "msg" + bad, "with" + bad: bad, "group" + bad: map[string]any{
					"text": bad, "error": bad, "list": []any{bad}, "map": map[string]any{bad: []any{bad}}, "marshals": bad, "bytes": got["group"+bad].(map[string]any)["bytes"],
					"inner" + bad: map[string]any{"deep": map[string]any{"X": bad}},
				}}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Fatalf("(-want +got):\n%s", diff)
				}
			}
		})
	}
}

// TestPrintableLines: what has to be escaped is, and nothing else is touched.
func TestPrintableLines(t *testing.T) {
	for line, want := range map[string]string{
		"":                                "",
		"{\"a\":\"é😀\\u001b\"}\n":         "{\"a\":\"é😀\\u001b\"}\n",
		"{\"a\":\"\x7f\"}\n":              "{\"a\":\"\\u007f\"}\n",
		"{\"\u0080\":\"x\u009fé\u2066\"}": `{"\u0080":"x\u009fé\u2066"}`,
		"\"\U000e0001\U0010ffff\"":        `"\udb40\udc01\udbff\udfff"`,
		"\"\x9b\xff\"\n":                  "\"\\ufffd\\ufffd\"\n", // not UTF-8
		"\"\ufffd\"":                      "\"\ufffd\"",
	} {
		var out strings.Builder
		if n, err := (printable{&out}).Write([]byte(line)); n != len(line) || err != nil || out.String() != want {
			t.Errorf("%q became %q, want %q; %d, %v", line, out.String(), want, n, err)
		}
	}
	if n, err := (printable{refusing{}}).Write([]byte("\"\u0080\"")); n != 0 || err == nil {
		t.Errorf("a line that was not written: %d, %v", n, err)
	}
}

type refusing struct{}

func (refusing) Write([]byte) (int, error) { return 0, fmt.Errorf("no: %w", io.ErrClosedPipe) }
