package graphite

import (
	"math"
	"strconv"
)

// maxDepth bounds nesting, as encoding/json does.
const maxDepth = 10000

// scanner walks over JSON. Its methods expect to stand on the first byte of
// what they read and end behind its last.
type scanner struct {
	body []byte
	at   int
	// badString is set when a string had an escape or a control character that
	// JSON doesn't allow. Only whoever uses the string has to care.
	badString bool
}

// peek returns the byte at hand, or 0 at the end.
func (s *scanner) peek() byte {
	if s.at < len(s.body) {
		return s.body[s.at]
	}
	return 0
}

func (s *scanner) space() {
	for s.at < len(s.body) {
		switch s.body[s.at] {
		case ' ', '\t', '\n', '\r':
			s.at++
		default:
			return
		}
	}
}

func (s *scanner) literal(word string) bool {
	if len(s.body)-s.at < len(word) || string(s.body[s.at:s.at+len(word)]) != word {
		return false
	}
	s.at += len(word)
	return true
}

// list reads elements, commas and the closing byte; the opening one was read.
func (s *scanner) list(closing byte, element func() bool) bool {
	s.space()
	if s.peek() == closing {
		s.at++
		return true
	}
	for {
		if !element() {
			return false
		}
		s.space()
		switch s.peek() {
		case ',':
			s.at++
			s.space()
		case closing:
			s.at++
			return true
		default:
			return false
		}
	}
}

// value skips any value.
func (s *scanner) value(depth int) bool {
	if depth > maxDepth {
		return false
	}
	switch s.peek() {
	case '"':
		_, ok := s.quoted()
		return ok
	case '[':
		s.at++
		return s.list(']', func() bool { return s.value(depth + 1) })
	case '{':
		s.at++
		return s.list('}', func() bool {
			_, ok := s.label()
			return ok && s.value(depth+1)
		})
	case 't':
		return s.literal("true")
	case 'f':
		return s.literal("false")
	case 'n':
		return s.literal("null")
	case 'N':
		return s.literal("NaN")
	case 'I':
		return s.literal("Infinity")
	case '-':
		if s.literal("-Infinity") {
			return true
		}
	}
	_, _, ok := s.number()
	return ok
}

// label reads a key of an object with its colon and returns it with its quotes.
func (s *scanner) label() ([]byte, bool) {
	if s.peek() != '"' {
		return nil, false
	}
	raw, ok := s.quoted()
	s.space()
	if !ok || s.peek() != ':' {
		return nil, false
	}
	s.at++
	s.space()
	return raw, true
}

// quoted reads a string and returns it with its quotes.
func (s *scanner) quoted() ([]byte, bool) {
	start := s.at
	for i := start + 1; i < len(s.body); i++ {
		switch c := s.body[i]; {
		case c == '"':
			s.at = i + 1
			return s.body[start:s.at], true
		case c == '\\':
			if !goodEscape(s.body[i+1:]) {
				s.badString = true
			}
			i++ // a quote behind it doesn't end the string
		case c < ' ':
			s.badString = true
		}
	}
	s.at = len(s.body)
	return nil, false
}

// goodEscape looks at what follows a backslash.
func goodEscape(rest []byte) bool {
	if len(rest) == 0 {
		return false
	}
	switch rest[0] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return true
	case 'u':
		if len(rest) < 5 {
			return false
		}
		for _, c := range rest[1:5] {
			hex := '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'f'
			if !hex {
				return false
			}
		}
		return true
	}
	return false
}

// The powers of ten that a float64 holds exactly.
var pow10 = [...]float64{1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11,
	1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22}

// number reads a number by JSON's grammar. When no float64 holds it, the value is NaN
// and inRange is false.
//
// Up to 15 digits without an exponent, digits and power of ten are both exact
// as float64, so one division rounds right; strconv does the rest.
func (s *scanner) number() (v float64, inRange, ok bool) {
	start, i, body := s.at, s.at, s.body
	negative := i < len(body) && body[i] == '-'
	if negative {
		i++
	}
	var mantissa uint64
	first := i
	for ; i < len(body) && body[i]-'0' <= 9; i++ {
		mantissa = mantissa*10 + uint64(body[i]-'0')
	}
	digits := i - first
	if digits == 0 || digits > 1 && body[first] == '0' {
		return 0, false, false
	}
	fraction := 0
	if i < len(body) && body[i] == '.' {
		i++
		from := i
		for ; i < len(body) && body[i]-'0' <= 9; i++ {
			mantissa = mantissa*10 + uint64(body[i]-'0')
		}
		if fraction = i - from; fraction == 0 {
			return 0, false, false
		}
	}
	exponent := i < len(body) && body[i]|0x20 == 'e'
	if exponent {
		i++
		if i < len(body) && (body[i] == '+' || body[i] == '-') {
			i++
		}
		from := i
		for i < len(body) && body[i]-'0' <= 9 {
			i++
		}
		if i == from {
			return 0, false, false
		}
	}
	s.at = i
	if exponent || digits+fraction > 15 {
		v, err := strconv.ParseFloat(string(body[start:i]), 64)
		if err != nil { // the grammar was right, so it is the range
			return math.NaN(), false, true
		}
		return v, true, true
	}
	v = float64(mantissa) / pow10[fraction]
	if negative {
		v = -v
	}
	return v, true, true
}
