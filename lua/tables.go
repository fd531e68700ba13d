package lua

import (
	"math"
	"sort"
	"strconv"
	"strings"

	engine "github.com/yuin/gopher-lua"
)

// tables makes the library "table".
func (st *state) tables() *engine.LTable {
	return st.l.SetFuncs(st.l.NewTable(), map[string]engine.LGFunction{
		"concat": st.tableConcat, "insert": st.tableInsert, "maxn": st.tableMaxN,
		"remove": st.tableRemove, "sort": st.tableSort, "unpack": st.unpack,
	})
}

// text is a number or string as "..", concat and gsub take it.
func text(v engine.LValue) (string, bool) {
	switch v := v.(type) {
	case engine.LString:
		return string(v), true
	case engine.LNumber:
		return number(float64(v)), true
	}
	return "", false
}

// number writes one as Lua does, with 14 digits: the engine's are all that Go
// needs to read it back.
func number(v float64) string {
	switch {
	case math.IsNaN(v):
		return "nan"
	case math.IsInf(v, 1):
		return "inf"
	case math.IsInf(v, -1):
		return "-inf"
	}
	return strconv.FormatFloat(v, 'g', 14, 64)
}

// display is what tostring gives.
func display(l *engine.LState, v engine.LValue) string {
	if s, plain := text(v); plain {
		return s
	}
	return l.ToStringMeta(v).String()
}

// build adds to a string that a script makes, and ends it at its limit.
func (st *state) build(l *engine.LState, b *strings.Builder, s, function string) {
	st.meter.spend(l, len(s)+1)
	if b.Len()+len(s) > maxString {
		l.RaiseError("%s: the result would be longer than %d KiB, the most a string may have", function, maxString>>10)
	}
	b.WriteString(s)
}

// concat is the operator "..", see rewriter. It joins from the right, as the
// operator does, and asks metatables for what is no text.
func (st *state) concat(l *engine.LState) int {
	n := l.GetTop()
	right := l.Get(n)
	for i := n - 1; i >= 1; {
		left := l.Get(i)
		a, plainLeft := text(left)
		if b, plainRight := text(right); plainLeft && plainRight {
			parts := []string{b, a}
			for i--; i >= 1; i-- {
				t, plain := text(l.Get(i))
				if !plain {
					break
				}
				parts = append(parts, t)
			}
			var whole strings.Builder
			for j := len(parts) - 1; j >= 0; j-- {
				st.build(l, &whole, parts[j], "..")
			}
			right = engine.LString(whole.String())
			continue
		}
		right = concatMeta(l, left, right)
		i--
	}
	l.Push(right)
	return 1
}

func concatMeta(l *engine.LState, left, right engine.LValue) engine.LValue {
	f := l.GetMetaField(left, "__concat")
	if f == engine.LNil {
		f = l.GetMetaField(right, "__concat")
	}
	if f == engine.LNil {
		culprit := right
		if _, plain := text(left); !plain {
			culprit = left
		}
		l.RaiseError("attempt to concatenate a %s value", culprit.Type())
	}
	l.Push(f)
	l.Push(left)
	l.Push(right)
	l.Call(2, 1)
	v := l.Get(-1)
	l.Pop(1)
	return v
}

func (st *state) tableConcat(l *engine.LState) int {
	t := l.CheckTable(1)
	separator := l.OptString(2, "")
	first, last := l.OptInt(3, 1), l.OptInt(4, st.length(l, t))
	var b strings.Builder
	for i := first; i <= last; i++ {
		v := t.RawGetInt(i)
		s, plain := text(v)
		if !plain {
			l.RaiseError("table.concat: the value at %d is a %s, neither text nor number", i, v.Type())
		}
		st.build(l, &b, s, "table.concat")
		if i < last {
			st.build(l, &b, separator, "table.concat")
		}
	}
	l.Push(engine.LString(b.String()))
	return 1
}

// entryCost is what a table's entry counts as work.
const entryCost = 16

// length is #t. It looks for the last value from the end of the array.
func (st *state) length(l *engine.LState, t *engine.LTable) int {
	n := t.Len()
	st.meter.spend(l, len(arrayOf(t))-n+1)
	return n
}

func (st *state) tableInsert(l *engine.LState) int {
	t := l.CheckTable(1)
	n := st.length(l, t)
	if n+1 >= maxArray {
		l.RaiseError("table.insert: a list has at most %d values", maxArray-1)
	}
	switch l.GetTop() {
	case 2:
		st.meter.spend(l, entryCost)
		t.RawSetInt(n+1, l.Get(2))
	case 3:
		position := l.CheckInt(2)
		if position < 1 || position > n+1 {
			l.ArgError(2, "the position is outside of the list")
		}
		st.meter.spend(l, entryCost*(n-position+2))
		for i := n; i >= position; i-- {
			t.RawSetInt(i+1, t.RawGetInt(i))
		}
		t.RawSetInt(position, l.Get(3))
	default:
		l.RaiseError("table.insert takes a table, a position if need be, and a value")
	}
	return 0
}

func (st *state) tableRemove(l *engine.LState) int {
	t := l.CheckTable(1)
	n := st.length(l, t)
	position := l.OptInt(2, n)
	if position < 1 || position > n {
		l.Push(engine.LNil)
		return 1
	}
	st.meter.spend(l, entryCost*(n-position+1))
	removed := t.RawGetInt(position)
	for i := position; i < n; i++ {
		t.RawSetInt(i, t.RawGetInt(i+1))
	}
	t.RawSetInt(n, engine.LNil)
	l.Push(removed)
	return 1
}

func (st *state) tableMaxN(l *engine.LState) int {
	l.Push(engine.LNumber(st.length(l, l.CheckTable(1))))
	return 1
}

// unpack gives a list's values one by one.
func (st *state) unpack(l *engine.LState) int {
	t := l.CheckTable(1)
	first, last := l.OptInt(2, 1), l.OptInt(3, st.length(l, t))
	if last < first {
		return 0
	}
	const most = maxRegisters / 8
	if last-first >= most || last-first < 0 {
		l.RaiseError("unpack: more than %d values", most)
	}
	st.meter.spend(l, entryCost*(last-first+1))
	for i := first; i <= last; i++ {
		l.Push(t.RawGetInt(i))
	}
	return last - first + 1
}

// sorting is a list while table.sort orders it. It is a copy: the comparison
// is the script's, and may change the list meanwhile.
type sorting struct {
	st     *state
	l      *engine.LState
	less   *engine.LFunction // nil: the operator <
	values []engine.LValue
}

func (s *sorting) Len() int      { return len(s.values) }
func (s *sorting) Swap(i, j int) { s.values[i], s.values[j] = s.values[j], s.values[i] }

func (s *sorting) Less(i, j int) bool {
	a, b := s.values[i], s.values[j]
	cost := entryCost
	if text, ok := a.(engine.LString); ok {
		cost += len(text)
	}
	s.st.meter.spend(s.l, cost)
	if s.less == nil {
		return s.l.LessThan(a, b)
	}
	s.l.Push(s.less)
	s.l.Push(a)
	s.l.Push(b)
	s.l.Call(2, 1)
	result := engine.LVAsBool(s.l.Get(-1))
	s.l.Pop(1)
	return result
}

func (st *state) tableSort(l *engine.LState) int {
	t := l.CheckTable(1)
	n := st.length(l, t)
	st.meter.spend(l, entryCost*n)
	s := &sorting{st: st, l: l, values: make([]engine.LValue, n)}
	if l.Get(2) != engine.LNil {
		s.less = l.CheckFunction(2)
	}
	for i := range s.values {
		s.values[i] = t.RawGetInt(i + 1)
	}
	sort.Sort(s)
	for i, v := range s.values {
		t.RawSetInt(i+1, v)
	}
	return 0
}
