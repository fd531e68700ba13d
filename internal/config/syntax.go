package config

import (
	"bytes"
	"errors"
	"strings"
	"unicode/utf8"

	"github.com/BurntSushi/toml"
)

// cutMark removes a byte order mark. The library would do so too, and give
// positions that are off by its length.
func cutMark(data []byte) []byte {
	for _, mark := range []string{"\xef\xbb\xbf", "\xff\xfe", "\xfe\xff"} {
		if rest, ok := bytes.CutPrefix(data, []byte(mark)); ok {
			return rest
		}
	}
	return data
}

// syntaxMistake says where the TOML library gave up. It reads no further, so
// this is the one case where further mistakes of a file stay untold.
func syntaxMistake(file string, data []byte, err error) Mistake {
	m := Mistake{File: file, Line: 1, Column: 1, Text: "not valid TOML: " + err.Error()}
	var p toml.ParseError
	if !errors.As(err, &p) {
		return m
	}
	m.Line, m.Column = max(1, p.Position.Line), max(1, p.Position.Col)
	// The library counts the column on the line before when the mistake is at
	// the beginning of a line; the offset is right.
	if start := p.Position.Start; start >= 0 && start <= len(data) && bytes.Count(data[:start], []byte("\n")) == m.Line-1 {
		m.Column = 1 + utf8.RuneCount(data[bytes.LastIndexByte(data[:start], '\n')+1:start])
	}
	m.Text = "not valid TOML: " + strings.TrimSuffix(p.Message, ".")
	if strings.HasPrefix(p.Message, "expected") {
		m.Text += `; allowed: key = value, with quotes around text and durations, such as timeout = "5s"`
	}
	return m
}
