package lua

import (
	"strings"

	engine "github.com/yuin/gopher-lua"
)

// startOf reads where a search begins.
func startOf(l *engine.LState, n int, subject string) int {
	start := l.OptInt(n, 1)
	if start < 0 {
		start = len(subject) + start + 1
	}
	return min(max(start, 1)-1, len(subject))
}

func pushAll(l *engine.LState, values []engine.LValue) int {
	for _, v := range values {
		l.Push(v)
	}
	return len(values)
}

func (st *state) stringFind(l *engine.LState) int {
	subject, text := l.CheckString(1), l.CheckString(2)
	start := startOf(l, 3, subject)
	st.meter.spend(l, len(text))
	if l.ToBool(4) || !strings.ContainsAny(text, "^$*+?.()[]%-") {
		st.meter.spend(l, len(subject)-start)
		i := strings.Index(subject[start:], text)
		if i < 0 {
			l.Push(engine.LNil)
			return 1
		}
		l.Push(engine.LNumber(start + i + 1))
		l.Push(engine.LNumber(start + i + len(text)))
		return 2
	}
	m := st.newMatcher(l, subject, text)
	from, to := m.find(start)
	if from < 0 {
		l.Push(engine.LNil)
		return 1
	}
	l.Push(engine.LNumber(from + 1))
	l.Push(engine.LNumber(to))
	if len(m.captures) == 0 {
		return 2
	}
	return 2 + pushAll(l, m.values(from, to))
}

func (st *state) stringMatch(l *engine.LState) int {
	subject := l.CheckString(1)
	m := st.newMatcher(l, subject, l.CheckString(2))
	from, to := m.find(startOf(l, 3, subject))
	if from < 0 {
		l.Push(engine.LNil)
		return 1
	}
	return pushAll(l, m.values(from, to))
}

// stringGmatch returns an iterator. What it needs is in upvalues, where the
// memory of the state is counted.
func (st *state) stringGmatch(l *engine.LState) int {
	subject, text := l.CheckString(1), l.CheckString(2)
	st.parsePattern(l, text)
	l.Push(l.NewClosure(st.gmatchNext, engine.LString(subject), engine.LString(text), engine.LNumber(0)))
	return 1
}

func (st *state) gmatchNext(l *engine.LState) int {
	upvalue := func(i int) engine.LValue { return l.Get(engine.UpvalueIndex(i)) }
	subject, pos := string(upvalue(1).(engine.LString)), int(upvalue(3).(engine.LNumber))
	m := st.newMatcher(l, subject, string(upvalue(2).(engine.LString)))
	from, to := m.find(pos)
	if from < 0 || m.anchored && pos > 0 {
		l.Replace(engine.UpvalueIndex(3), engine.LNumber(len(subject)+1))
		l.Push(engine.LNil)
		return 1
	}
	next := to
	if to == from { // or it would be found for ever
		next++
	}
	l.Replace(engine.UpvalueIndex(3), engine.LNumber(next))
	return pushAll(l, m.values(from, to))
}

func (st *state) stringGsub(l *engine.LState) int {
	subject := l.CheckString(1)
	m := st.newMatcher(l, subject, l.CheckString(2))
	l.CheckTypes(3, engine.LTString, engine.LTNumber, engine.LTTable, engine.LTFunction)
	replacement, most := l.Get(3), l.OptInt(4, len(subject)+1)
	var b strings.Builder
	count, pos := 0, 0
	for count < most {
		end := m.at(pos)
		if end >= 0 {
			count++
			st.build(l, &b, m.replace(replacement, pos, end), "string.gsub")
		}
		switch {
		case end > pos:
			pos = end
		case pos < len(subject):
			st.build(l, &b, subject[pos:pos+1], "string.gsub")
			pos++
		default:
			pos = len(subject) + 1
		}
		if pos > len(subject) || m.anchored {
			break
		}
	}
	if pos < len(subject) {
		st.build(l, &b, subject[pos:], "string.gsub")
	}
	l.Push(engine.LString(b.String()))
	l.Push(engine.LNumber(count))
	return 2
}

// replace is what takes the place of one match.
func (m *matcher) replace(replacement engine.LValue, from, to int) string {
	whole := m.subject[from:to]
	var v engine.LValue
	switch r := replacement.(type) {
	case *engine.LTable:
		v = m.l.GetTable(r, m.nth(0, from, to))
	case *engine.LFunction:
		values := m.values(from, to)
		m.l.Push(r)
		pushAll(m.l, values)
		m.l.Call(len(values), 1)
		v = m.l.Get(-1)
		m.l.Pop(1)
	default:
		form, _ := text(r)
		return m.filled(form, from, to)
	}
	if engine.LVIsFalse(v) {
		return whole
	}
	s, plain := text(v)
	if !plain {
		m.l.RaiseError("string.gsub: a replacement is a %s, neither text nor number", v.Type())
	}
	return s
}

// filled puts captures where a replacement has %0 to %9.
func (m *matcher) filled(form string, from, to int) string {
	if !strings.Contains(form, "%") {
		return form
	}
	var b strings.Builder
	for i := 0; i < len(form); i++ {
		c := form[i]
		if c != '%' || i+1 == len(form) {
			b.WriteByte(c)
			continue
		}
		i++
		switch d := form[i]; {
		case !isDigit(d):
			b.WriteByte(d)
		case d == '0':
			m.st.build(m.l, &b, m.subject[from:to], "string.gsub")
		default:
			v := m.nth(int(d-'1'), from, to)
			if v == engine.LNil {
				m.l.RaiseError("string.gsub: the replacement has %%%c, and the pattern has no such capture", d)
			}
			m.st.build(m.l, &b, display(m.l, v), "string.gsub")
		}
	}
	return b.String()
}
