package lua

import (
	"strconv"
	"strings"

	engine "github.com/yuin/gopher-lua"
)

// counted makes a function of the engine's count as the work that it is: in
// proportion to its arguments.
func (st *state) counted(f engine.LGFunction) engine.LGFunction {
	return func(l *engine.LState) int {
		for i := range l.GetTop() {
			st.meter.spend(l, 1+lengthOf(l.Get(i+1)))
		}
		return f(l)
	}
}

// numeric is counted for a function of numbers. Texts that stand for numbers
// are made numbers one by one: to read many long ones takes long.
func (st *state) numeric(f engine.LGFunction) engine.LGFunction {
	return func(l *engine.LState) int {
		for i := range l.GetTop() {
			v := l.Get(i + 1)
			st.meter.spend(l, 1+lengthOf(v))
			if text, ok := v.(engine.LString); ok {
				if n, ok := readNumber(string(text)); ok {
					l.Replace(i+1, n)
				}
			}
		}
		return f(l)
	}
}

func lengthOf(v engine.LValue) int {
	s, _ := v.(engine.LString)
	return len(s)
}

// readNumber reads a number as the engine does.
func readNumber(text string) (engine.LNumber, bool) {
	text = strings.Trim(text, " \t\n")
	if n, err := strconv.ParseInt(text, 0, 64); err == nil {
		return engine.LNumber(n), true
	}
	n, err := strconv.ParseFloat(text, 64)
	return engine.LNumber(n), err == nil
}

// number is an argument that is a number, or a text that stands for one.
func (st *state) number(l *engine.LState, argument int) float64 {
	st.meter.spend(l, lengthOf(l.Get(argument)))
	return float64(l.CheckNumber(argument))
}

// rawSet is Lua's, by the engine's.
func (st *state) rawSet(set engine.LGFunction) engine.LGFunction {
	return func(l *engine.LState) int {
		t := l.CheckTable(1)
		if n, ok := l.Get(2).(engine.LNumber); ok && 0 < n && n < maxArray { // nils up to there
			st.meter.spend(l, entryCost*max(0, int(n)-len(arrayOf(t))))
		}
		set(l)
		l.SetTop(1) // the engine's returns nothing
		return 1
	}
}
