package daemon

import (
	"fmt"
	"io"
	"log/slog"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// logHandler writes log lines of printable characters only: names that others
// have chosen are in them, and somebody reads them at a terminal. The text form
// quotes all else, and the writer below does the same for JSON.
func logHandler(w io.Writer, format string, level slog.Leveler) slog.Handler {
	options := &slog.HandlerOptions{Level: level}
	if format == "json" {
		return slog.NewJSONHandler(printable{w}, options)
	}
	return slog.NewTextHandler(w, options)
}

// printable escapes what is not printed in lines of JSON. Such characters are in
// strings only, where an escape means the same.
type printable struct{ to io.Writer }

// Write implements io.Writer for one whole line.
func (p printable) Write(line []byte) (int, error) {
	out, copied := line, 0 // out is a line of its own once something was escaped
	for i := 0; i < len(line); {
		if c := line[i]; c < 0x7f { // JSON has escaped the controls; the line's own end stays
			i++
			continue
		}
		r, size := utf8.DecodeRune(line[i:])
		if !unicode.IsPrint(r) || r == utf8.RuneError && size == 1 {
			if copied == 0 {
				out = make([]byte, 0, len(line)+64)
			}
			out = escape(append(out, line[copied:i]...), r)
			copied = i + size
		}
		i += size
	}
	if copied > 0 {
		out = append(out, line[copied:]...)
	}
	if _, err := p.to.Write(out); err != nil {
		return 0, err
	}
	return len(line), nil
}

// escape appends a character as JSON's strings can have it.
func escape(b []byte, r rune) []byte {
	if high, low := utf16.EncodeRune(r); high != unicode.ReplacementChar {
		return fmt.Appendf(b, `\u%04x\u%04x`, high, low)
	}
	return fmt.Appendf(b, `\u%04x`, r)
}
