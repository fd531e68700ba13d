package lua

import (
	"strings"

	engine "github.com/yuin/gopher-lua"
)

// The patterns of Lua 5.1, matched by backtracking. The matcher recurses once
// an item of the pattern, not once a byte of the subject, and each step counts
// as work, so a pattern that backtracks for ever ends at the call's deadline.

type itemKind int

const (
	itemSet       itemKind = iota // one byte of a set, repeated or not
	itemOpen                      // (
	itemClose                     // )
	itemPosition                  // ()
	itemReference                 // %1
	itemBalance                   // %b()
	itemFrontier                  // %f[set]
	itemEnd                       // $ at the end
)

type item struct {
	kind    itemKind
	set     byteSet
	repeat  byte // *, +, -, ? or 0
	number  int  // of the capture that a reference means
	opening byte // of a balance
	closing byte
}

// byteSet has a bit for each byte.
type byteSet [4]uint64

func (s *byteSet) add(c byte)      { s[c>>6] |= 1 << (c & 63) }
func (s *byteSet) has(c byte) bool { return s[c>>6]&(1<<(c&63)) != 0 }

func (s *byteSet) union(o byteSet) {
	for i := range s {
		s[i] |= o[i]
	}
}

func (s byteSet) negated() byteSet {
	for i := range s {
		s[i] = ^s[i]
	}
	return s
}

const maxCaptures = 32

// pattern is a parsed one.
type pattern struct {
	items    []item
	anchored bool // begins with ^
}

// patternParser reads a pattern; a mistake in it is raised in the script.
type patternParser struct {
	l    *engine.LState
	rest string
}

// patternCost is what a byte of a pattern counts as work when it is parsed: it
// can stand for a class, which is worked out byte by byte.
const patternCost = 64

func (st *state) parsePattern(l *engine.LState, text string) pattern {
	if len(text) > maxPattern {
		l.RaiseError("a pattern has at most %d bytes", maxPattern)
	}
	st.meter.spend(l, patternCost*len(text))
	var p pattern
	r := patternParser{l: l, rest: text}
	if r.take("^") {
		p.anchored = true
	}
	captures, open := 0, 0
	for r.rest != "" {
		switch it := r.item(); it.kind {
		case itemOpen, itemPosition:
			if captures++; captures > maxCaptures {
				l.RaiseError("a pattern has at most %d captures", maxCaptures)
			}
			if it.kind == itemOpen {
				open++
			}
			p.items = append(p.items, it)
		case itemClose:
			if open--; open < 0 {
				l.RaiseError("the pattern has a ) without its (")
			}
			p.items = append(p.items, it)
		default:
			p.items = append(p.items, it)
		}
	}
	if open > 0 {
		l.RaiseError("the pattern has a ( without its )")
	}
	return p
}

// take drops a prefix if it is there.
func (r *patternParser) take(prefix string) bool {
	rest, ok := strings.CutPrefix(r.rest, prefix)
	r.rest = rest
	return ok
}

// next takes one byte.
func (r *patternParser) next() byte {
	if r.rest == "" {
		r.l.RaiseError("the pattern ends in the middle of something")
	}
	c := r.rest[0]
	r.rest = r.rest[1:]
	return c
}

func (r *patternParser) item() item {
	switch {
	case r.rest == "$":
		r.rest = ""
		return item{kind: itemEnd}
	case r.take("()"):
		return item{kind: itemPosition}
	case r.take("("):
		return item{kind: itemOpen}
	case r.take(")"):
		return item{kind: itemClose}
	case r.take("%b"):
		opening := r.next()
		return item{kind: itemBalance, opening: opening, closing: r.next()}
	case r.take("%f"):
		if r.next() != '[' {
			r.l.RaiseError("%%f in a pattern is followed by a set in brackets")
		}
		return item{kind: itemFrontier, set: r.brackets()}
	}
	if len(r.rest) > 1 && r.rest[0] == '%' && '0' <= r.rest[1] && r.rest[1] <= '9' {
		r.next()
		return item{kind: itemReference, number: int(r.next()-'0') - 1}
	}
	it := item{kind: itemSet, set: r.single()}
	if r.rest != "" && strings.IndexByte("*+-?", r.rest[0]) >= 0 {
		it.repeat = r.next()
	}
	return it
}

// single reads what stands for one byte.
func (r *patternParser) single() (s byteSet) {
	switch c := r.next(); c {
	case '.':
		return s.negated()
	case '[':
		return r.brackets()
	case '%':
		return class(r.next())
	default:
		s.add(c)
		return s
	}
}

// brackets reads a set after its [.
func (r *patternParser) brackets() (s byteSet) {
	negate := r.take("^")
	for first := true; first || !r.take("]"); first = false {
		c := r.next()
		switch {
		case c == '%':
			s.union(class(r.next()))
		case len(r.rest) > 1 && r.rest[0] == '-' && r.rest[1] != ']':
			r.next()
			for last := int(r.next()); int(c) <= last && last > 0; c++ {
				s.add(c)
				if int(c) == last { // 255 + 1 would be 0
					break
				}
			}
		default:
			s.add(c)
		}
	}
	if negate {
		return s.negated()
	}
	return s
}

// class is the set of a letter after %; any other byte stands for itself.
func class(letter byte) (s byteSet) {
	var in func(c byte) bool
	switch lower(letter) {
	case 'a':
		in = isLetter
	case 'c':
		in = func(c byte) bool { return c < ' ' || c == 0x7f }
	case 'd':
		in = isDigit
	case 'l':
		in = func(c byte) bool { return 'a' <= c && c <= 'z' }
	case 'p':
		in = func(c byte) bool { return '!' <= c && c <= '~' && !isLetter(c) && !isDigit(c) }
	case 's':
		in = func(c byte) bool { return c == ' ' || '\t' <= c && c <= '\r' }
	case 'u':
		in = func(c byte) bool { return 'A' <= c && c <= 'Z' }
	case 'w':
		in = func(c byte) bool { return isLetter(c) || isDigit(c) }
	case 'x':
		in = func(c byte) bool { return isDigit(c) || 'a' <= lower(c) && lower(c) <= 'f' }
	case 'z':
		in = func(c byte) bool { return c == 0 }
	default:
		s.add(letter)
		return s
	}
	for c := range 256 {
		if in(byte(c)) {
			s.add(byte(c))
		}
	}
	if letter != lower(letter) {
		return s.negated()
	}
	return s
}

func isLetter(c byte) bool { return 'a' <= lower(c) && lower(c) <= 'z' }
func isDigit(c byte) bool  { return '0' <= c && c <= '9' }

// capture is a part of the subject; from..to, or a position.
type capture struct {
	from, to int
	state    captureState
}

type captureState int

const (
	captureOpen captureState = iota
	captureClosed
	capturePosition
)

// matcher matches one pattern against one subject.
type matcher struct {
	pattern
	st       *state
	l        *engine.LState
	subject  string
	captures []capture
}

func (st *state) newMatcher(l *engine.LState, subject, text string) *matcher {
	return &matcher{pattern: st.parsePattern(l, text), st: st, l: l, subject: subject}
}

// at returns where a match that begins at pos ends; -1: there is none.
func (m *matcher) at(pos int) int {
	m.captures = m.captures[:0]
	return m.run(0, pos)
}

// find returns the first match from pos on; from is -1 when there is none.
func (m *matcher) find(pos int) (from, to int) {
	for ; pos <= len(m.subject); pos++ {
		if to := m.at(pos); to >= 0 {
			return pos, to
		}
		if m.anchored {
			break
		}
	}
	return -1, -1
}

// run matches the items from i on at pos.
func (m *matcher) run(i, pos int) int {
	for ; i < len(m.items) && pos >= 0; i++ {
		m.st.meter.spend(m.l, 1)
		switch it := &m.items[i]; it.kind {
		case itemEnd:
			if pos != len(m.subject) {
				return -1
			}
		case itemOpen, itemPosition, itemClose:
			return m.capture(it.kind, i, pos)
		case itemReference:
			pos = m.reference(it.number, pos)
		case itemBalance:
			pos = m.balance(it, pos)
		case itemFrontier:
			if it.set.has(m.byteAt(pos-1)) || !it.set.has(m.byteAt(pos)) {
				return -1
			}
		default:
			if it.repeat != 0 {
				return m.repeated(it, i, pos)
			}
			if pos >= len(m.subject) || !it.set.has(m.subject[pos]) {
				return -1
			}
			pos++
		}
	}
	return pos
}

// byteAt is 0 outside of the subject.
func (m *matcher) byteAt(pos int) byte {
	if pos < 0 || pos >= len(m.subject) {
		return 0
	}
	return m.subject[pos]
}

// capture goes on with a capture begun or ended, and takes that back when the
// rest does not match.
func (m *matcher) capture(kind itemKind, i, pos int) int {
	before := len(m.captures)
	ended := -1
	switch kind {
	case itemOpen:
		m.captures = append(m.captures, capture{from: pos})
	case itemPosition:
		m.captures = append(m.captures, capture{from: pos, to: pos, state: capturePosition})
	default:
		for ended = before - 1; m.captures[ended].state != captureOpen; ended-- {
		}
		m.captures[ended].to, m.captures[ended].state = pos, captureClosed
	}
	end := m.run(i+1, pos)
	if end >= 0 {
		return end
	}
	m.captures = m.captures[:before]
	if ended >= 0 {
		m.captures[ended].state = captureOpen
	}
	return -1
}

// reference matches what an earlier capture has.
func (m *matcher) reference(number, pos int) int {
	if number < 0 || number >= len(m.captures) || m.captures[number].state == captureOpen {
		m.l.RaiseError("the pattern refers to a capture that it does not have there")
	}
	c := m.captures[number]
	m.st.meter.spend(m.l, c.to-c.from)
	if !strings.HasPrefix(m.subject[pos:], m.subject[c.from:c.to]) {
		return -1
	}
	return pos + c.to - c.from
}

// balance matches from an opening byte to the closing one that belongs to it.
func (m *matcher) balance(it *item, pos int) int {
	if pos >= len(m.subject) || m.subject[pos] != it.opening {
		return -1
	}
	depth := 1
	for pos++; pos < len(m.subject); pos++ {
		m.st.meter.spend(m.l, 1)
		switch m.subject[pos] {
		case it.closing:
			if depth--; depth == 0 {
				return pos + 1
			}
		case it.opening:
			depth++
		}
	}
	return -1
}

// repeated matches an item with *, +, - or ? and what follows it.
func (m *matcher) repeated(it *item, i, pos int) int {
	least, most := 0, len(m.subject)-pos
	switch it.repeat {
	case '+':
		least = 1
	case '?':
		most = min(most, 1)
	}
	if it.repeat == '-' {
		for n := 0; ; n++ {
			if end := m.run(i+1, pos+n); end >= 0 {
				return end
			}
			if n >= most || !it.set.has(m.subject[pos+n]) {
				return -1
			}
		}
	}
	n := 0
	for n < most && it.set.has(m.subject[pos+n]) {
		n++
	}
	m.st.meter.spend(m.l, n)
	for ; n >= least; n-- {
		if end := m.run(i+1, pos+n); end >= 0 {
			return end
		}
	}
	return -1
}

// value is a capture as the script gets it. It is a copy: a part of a string
// keeps all of it in memory.
func (m *matcher) value(c capture) engine.LValue {
	if c.state == capturePosition {
		return engine.LNumber(c.from + 1)
	}
	m.st.meter.spend(m.l, c.to-c.from)
	return engine.LString(strings.Clone(m.subject[c.from:c.to]))
}

// nth is one of the values, from 0 on; nil when there is none.
func (m *matcher) nth(n, from, to int) engine.LValue {
	switch {
	case n < len(m.captures):
		return m.value(m.captures[n])
	case n == 0:
		return m.value(capture{from: from, to: to, state: captureClosed})
	}
	return engine.LNil
}

// values are the captures; the whole match when there are none.
func (m *matcher) values(from, to int) []engine.LValue {
	if len(m.captures) == 0 {
		return []engine.LValue{m.nth(0, from, to)}
	}
	all := make([]engine.LValue, len(m.captures))
	for i, c := range m.captures {
		all[i] = m.value(c)
	}
	return all
}
