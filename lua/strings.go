package lua

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	engine "github.com/yuin/gopher-lua"
)

// strings makes the library "string" anew: the engine's has no bounds, and its
// parts of strings keep the whole string in memory.
func (st *state) strings() *engine.LTable {
	return st.l.SetFuncs(st.l.NewTable(), map[string]engine.LGFunction{
		"byte": st.stringByte, "char": st.stringChar, "find": st.stringFind, "format": st.stringFormat,
		"gmatch": st.stringGmatch, "gsub": st.stringGsub, "len": stringLen, "lower": st.mapped(lower),
		"match": st.stringMatch, "rep": st.stringRep, "reverse": st.stringReverse, "sub": st.stringSub, "upper": st.mapped(upper),
	})
}

// limits turns Lua's positions, from 1 or from the end, into a range of bytes.
func limits(length, first, last int) (from, to int) {
	if first < 0 {
		first = max(length+first+1, 1)
	}
	if last < 0 {
		last = length + last + 1
	}
	from, to = max(first, 1)-1, min(last, length)
	if from >= to {
		return 0, 0
	}
	return from, to
}

func stringLen(l *engine.LState) int {
	l.Push(engine.LNumber(len(l.CheckString(1))))
	return 1
}

func (st *state) stringSub(l *engine.LState) int {
	s := l.CheckString(1)
	from, to := limits(len(s), l.CheckInt(2), l.OptInt(3, -1))
	st.meter.spend(l, to-from)
	l.Push(engine.LString(strings.Clone(s[from:to])))
	return 1
}

func (st *state) stringByte(l *engine.LState) int {
	s := l.CheckString(1)
	first := l.OptInt(2, 1)
	from, to := limits(len(s), first, l.OptInt(3, first))
	const most = maxRegisters / 8
	if to-from > most {
		l.RaiseError("string.byte: more than %d values", most)
	}
	st.meter.spend(l, entryCost*(to-from))
	for i := from; i < to; i++ {
		l.Push(engine.LNumber(s[i]))
	}
	return to - from
}

func (st *state) stringChar(l *engine.LState) int {
	st.meter.spend(l, l.GetTop())
	bytes := make([]byte, l.GetTop())
	for i := range bytes {
		c := l.CheckInt(i + 1)
		if c < 0 || c > math.MaxUint8 {
			l.ArgError(i+1, "a byte is a number from 0 to 255")
		}
		bytes[i] = byte(c)
	}
	l.Push(engine.LString(bytes))
	return 1
}

func (st *state) stringRep(l *engine.LState) int {
	s, n := l.CheckString(1), l.CheckInt(2)
	if n <= 0 || s == "" {
		l.Push(engine.LString(""))
		return 1
	}
	if n > maxString/len(s) {
		l.RaiseError("string.rep: the result would be longer than %d KiB, the most a string may have", maxString>>10)
	}
	st.meter.spend(l, n*len(s))
	l.Push(engine.LString(strings.Repeat(s, n)))
	return 1
}

func (st *state) stringReverse(l *engine.LState) int {
	bytes := []byte(l.CheckString(1))
	st.meter.spend(l, len(bytes))
	for i, j := 0, len(bytes)-1; i < j; i, j = i+1, j-1 {
		bytes[i], bytes[j] = bytes[j], bytes[i]
	}
	l.Push(engine.LString(bytes))
	return 1
}

func lower(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		return c + 'a' - 'A'
	}
	return c
}

func upper(c byte) byte {
	if 'a' <= c && c <= 'z' {
		return c + 'A' - 'a'
	}
	return c
}

// mapped makes a function of each byte, as Lua's are: letters of ASCII only.
func (st *state) mapped(f func(byte) byte) engine.LGFunction {
	return func(l *engine.LState) int {
		bytes := []byte(l.CheckString(1))
		st.meter.spend(l, len(bytes))
		for i, c := range bytes {
			bytes[i] = f(c)
		}
		l.Push(engine.LString(bytes))
		return 1
	}
}

// stringFormat is string.format with the conversions of Lua 5.1.
func (st *state) stringFormat(l *engine.LState) int {
	form := l.CheckString(1)
	var b strings.Builder
	for argument := 1; form != ""; {
		i := strings.IndexByte(form, '%')
		if i < 0 {
			st.build(l, &b, form, "string.format")
			break
		}
		st.build(l, &b, form[:i], "string.format")
		form = form[i+1:]
		if strings.HasPrefix(form, "%") {
			st.build(l, &b, "%", "string.format")
			form = form[1:]
			continue
		}
		spec, verb, rest := conversion(l, form)
		argument++
		st.build(l, &b, st.converted(l, argument, spec, verb), "string.format")
		form = rest
	}
	l.Push(engine.LString(b.String()))
	return 1
}

// conversion splits "-5.2fREST" into "-5.2", 'f' and "REST". Width and
// precision have two digits at most, as in Lua.
func conversion(l *engine.LState, form string) (spec string, verb byte, rest string) {
	i := 0
	for i < len(form) && strings.IndexByte("-+ #0", form[i]) >= 0 {
		i++
	}
	flags := i
	digits := func() {
		for begin := i; i < len(form) && '0' <= form[i] && form[i] <= '9'; i++ {
			if i-begin >= 2 {
				l.RaiseError("string.format: a width or precision has two digits at most")
			}
		}
	}
	digits()
	if i < len(form) && form[i] == '.' {
		i++
		digits()
	}
	if i >= len(form) {
		l.RaiseError("string.format: the format ends in the middle of a conversion")
	}
	if flags > 5 {
		l.RaiseError("string.format: flags are written once")
	}
	return form[:i], form[i], form[i+1:]
}

// converted is one argument in its form.
func (st *state) converted(l *engine.LState, argument int, spec string, verb byte) string {
	switch verb {
	case 'd', 'i', 'u', 'c', 'o', 'x', 'X':
		n := st.wholeNumber(l, argument)
		switch verb {
		case 'c':
			return fmt.Sprintf("%"+spec+"s", string([]byte{byte(n)}))
		case 'i', 'u':
			verb = 'd'
		}
		if n < 0 && verb != 'd' { // as C does, which writes no sign
			return fmt.Sprintf("%"+spec+string(verb), uint64(n))
		}
		return fmt.Sprintf("%"+spec+string(verb), n)
	case 'e', 'E', 'f', 'g', 'G':
		if !strings.Contains(spec, ".") {
			spec += ".6"
		}
		return fmt.Sprintf("%"+spec+string(verb), st.number(l, argument))
	case 's':
		text := display(l, l.CheckAny(argument))
		st.meter.spend(l, len(text))
		return fmt.Sprintf("%"+spec+"s", text)
	case 'q':
		text := l.CheckString(argument)
		st.meter.spend(l, len(text))
		return quoted(text)
	}
	l.RaiseError("string.format: there is no conversion %%%s", clip(strconv.QuoteRune(rune(verb)), 10))
	return ""
}

func (st *state) wholeNumber(l *engine.LState, argument int) int64 {
	v := st.number(l, argument)
	if !(math.Abs(v) < 1<<63) {
		l.ArgError(argument, "is not a number that can be written without a fraction")
	}
	return int64(v)
}

// quoted writes a string as Lua reads it.
func quoted(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for i := range len(s) {
		switch c := s[i]; c {
		case '"', '\\', '\n':
			b.WriteByte('\\')
			b.WriteByte(c)
		case '\r':
			b.WriteString(`\r`)
		case 0:
			b.WriteString(`\000`)
		default:
			b.WriteByte(c)
		}
	}
	b.WriteByte('"')
	return b.String()
}
