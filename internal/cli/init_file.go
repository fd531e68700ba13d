package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// text is the file that "init" writes.
func (d *draft) text(output string) string {
	var b strings.Builder
	b.WriteString(wordsInitHead(d.when, output))
	b.WriteString(d.headText())
	b.WriteString(wordsInitState)
	for _, k := range d.backends {
		if k.ready() {
			b.WriteString("\n")
			k.write(&b)
		}
	}
	first := true
	for _, k := range d.backends {
		if k.ready() {
			continue
		}
		if first {
			b.WriteString("\n\n# ---- Backends that are left out\n")
			first = false
		}
		b.WriteString("\n")
		k.writeLeftOut(&b)
	}
	return b.String()
}

// headText are the tables [haproxy] and [graphite].
func (d *draft) headText() string {
	var b strings.Builder
	b.WriteString("\n[haproxy]\n")
	var sockets []string
	for _, k := range d.sockets {
		comment(&b, wordsInitHAProxy(k.name(), k.info))
		sockets = append(sockets, tomlString(k.name()))
	}
	fmt.Fprintf(&b, "sockets = [%s]\n\n[graphite]\n", strings.Join(sockets, ", "))
	// Not escaped for the environment: it may hold a key of a hosted service.
	fmt.Fprintf(&b, "url = %s\n", quoteTOML(d.graphite.url))
	for _, k := range []struct{ key, value string }{
		{"username", d.graphite.user}, {"password_file", d.graphite.passwordFile},
		{"bearer_token_file", d.graphite.tokenFile}, {"ca_file", d.graphite.caFile},
	} {
		if k.value != "" {
			fmt.Fprintf(&b, "%s = %s\n", k.key, tomlString(k.value))
		}
	}
	return b.String()
}

// name is the address in its shortest form.
func (k *initSocket) name() string {
	return strings.TrimPrefix(k.address.String(), "unix:")
}

// write writes the table of a backend.
func (b *initBackend) write(w *strings.Builder) {
	m := b.found
	comment(w, wordsInitBackend(b))
	comment(w, wordsInitData(m))
	for _, line := range b.lines() {
		fmt.Fprintln(w, line)
	}
	if len(m.others) > 0 {
		comment(w, wordsInitOthers)
		for _, target := range m.others {
			fmt.Fprintf(w, "#target = %s\n", tomlString(oneLine(target)))
		}
	}
}

// lines are those of a table, without comments above.
func (b *initBackend) lines() []string {
	m := b.found
	lines := []string{"[[backend]]", "name = " + tomlString(b.name)}
	if !b.everywhere {
		var on []string
		for _, k := range b.on {
			on = append(on, tomlString(k.name()))
		}
		lines = append(lines, fmt.Sprintf("sockets = [%s]", strings.Join(on, ", ")))
	}
	lines = append(lines, "target = "+tomlString(m.target))
	if m.naming.pattern != "" {
		lines = append(lines, "server_regexp = "+tomlPattern(m.naming.pattern))
		if m.naming.name != "" {
			lines = append(lines, "server_name = "+tomlPattern(m.naming.name))
		}
	}
	if m.maxAge != usualMaxAge {
		lines = append(lines, fmt.Sprintf("max_age = %q", plainDuration(m.maxAge)))
	}
	if m.window != usualWindow {
		lines = append(lines, fmt.Sprintf("window = %q", plainDuration(m.window)))
	}
	return append(lines, `mode = "observe"    # looks on; "live" sets the weights`)
}

// writeLeftOut writes a backend as a comment, with its table when it would do
// once something else is put right.
func (b *initBackend) writeLeftOut(w *strings.Builder) {
	comment(w, b.name+": "+b.why)
	if b.found == nil || len(b.found.matched)+len(b.found.unusable) == 0 {
		return
	}
	for _, line := range b.lines() {
		fmt.Fprintf(w, "#%s\n", line)
	}
}

// plainDuration is "5m" rather than "5m0s".
func plainDuration(d time.Duration) string {
	switch {
	case d >= time.Hour && d%time.Hour == 0:
		return fmt.Sprintf("%dh", d/time.Hour)
	case d >= time.Minute && d%time.Minute == 0:
		return fmt.Sprintf("%dm", d/time.Minute)
	}
	return d.String()
}

// comment writes text as comments of at most about a hundred columns.
func comment(w *strings.Builder, text string) {
	const width = 100
	line := "#"
	for _, word := range strings.Fields(oneLine(text)) {
		if len(line)+1+len(word) > width && line != "#" {
			fmt.Fprintln(w, line)
			line = "#"
		}
		line += " " + word
	}
	fmt.Fprintln(w, line)
}

// oneLine makes text fit for a comment, whatever is in a name.
func oneLine(text string) string { return printable(strings.ToValidUTF8(text, "\uFFFD")) }

// tomlString writes a value in which no ${NAME} is meant.
func tomlString(s string) string { return quoteTOML(strings.ReplaceAll(s, "${", "$${")) }

// quoteTOML writes a basic string of TOML.
func quoteTOML(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r < ' ' || r == 0x7f:
			fmt.Fprintf(&b, `\u%04X`, r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// tomlPattern writes a literal string when that can hold s, which spares the
// doubled backslashes; keys with patterns know no ${NAME}.
func tomlPattern(s string) string {
	if strings.ContainsFunc(s, func(r rune) bool { return r == '\'' || r < ' ' || r == 0x7f }) {
		return quoteTOML(s)
	}
	return "'" + s + "'"
}

// initMode lets the daemon's group read the file, and nobody else: it may name
// users of Graphite.
const initMode = 0o640

// writeOnce writes a file that is there as a whole or not at all, and never in
// the place of another one.
func writeOnce(path, text string) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return failed(err, hintInitOutput)
	}
	defer func() {
		f.Close()
		err = errors.Join(err, os.Remove(f.Name()))
	}()
	if _, err := f.WriteString(text); err != nil {
		return err
	}
	if err := errors.Join(f.Chmod(initMode), f.Sync(), f.Close()); err != nil {
		return err
	}
	// A link fails when the name is taken, by a symbolic link too; a rename would not.
	if err := os.Link(f.Name(), path); errors.Is(err, fs.ErrExist) {
		return failed(fmt.Errorf("%s is there already; nothing was written", path), hintInitOutput)
	} else if err != nil {
		return err
	}
	return nil
}
