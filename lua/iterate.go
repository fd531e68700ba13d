package lua

import engine "github.com/yuin/gopher-lua"

// pairs is Lua's, and goes through views as well.
func (st *state) pairs(l *engine.LState) int {
	if viewOf(l, l.Get(1)) != nil {
		l.Push(l.NewClosure(st.views.next, engine.LNumber(0)))
		l.Push(l.Get(1))
		return 2
	}
	t := l.CheckTable(1)
	l.Push(l.NewFunction(st.next))
	l.Push(t)
	l.Push(engine.LNil)
	return 3
}

// next is Lua's. The engine's goes over all keys that a table has ever had and
// has no more, however many they are.
func (st *state) next(l *engine.LState) int {
	t := l.CheckTable(1)
	i, place := st.after(l, t, l.Get(2))
	for array := arrayOf(t); i < len(array); i++ {
		st.meter.spend(l, 1)
		if array[i] != engine.LNil {
			l.Push(engine.LNumber(i + 1))
			l.Push(array[i])
			return 2
		}
	}
	for keys := keysOf(t); place < len(keys); place++ {
		st.meter.spend(l, entryCost)
		if v := t.RawGetH(keys[place]); v != engine.LNil {
			l.Push(keys[place])
			l.Push(v)
			return 2
		}
	}
	l.Push(engine.LNil)
	return 1
}

// after tells where in the array and in the keys of t to go on after a key.
func (st *state) after(l *engine.LState, t *engine.LTable, key engine.LValue) (i, place int) {
	if key == engine.LNil {
		return 0, 0
	}
	array := arrayOf(t)
	if n, ok := key.(engine.LNumber); ok && n >= 1 && n <= engine.LNumber(len(array)) && n == engine.LNumber(int(n)) {
		return int(n), 0
	}
	place, ok := placeOf(t, key)
	if !ok {
		l.RaiseError("next: the table has no such key")
	}
	return len(array), place + 1
}

// ipairs is Lua's, and goes through views as well.
func (st *state) ipairs(l *engine.LState) int {
	if viewOf(l, l.Get(1)) == nil {
		l.CheckTable(1)
	}
	l.Push(l.NewFunction(st.nextIndex))
	l.Push(l.Get(1))
	l.Push(engine.LNumber(0))
	return 3
}

func (st *state) nextIndex(l *engine.LState) int {
	i := l.CheckInt(2) + 1
	var value engine.LValue
	if view := viewOf(l, l.Get(1)); view != nil {
		value = st.views.at(l, view, float64(i))
	} else {
		value = l.CheckTable(1).RawGetInt(i)
	}
	if value == engine.LNil {
		l.Push(engine.LNil)
		return 1
	}
	l.Push(engine.LNumber(i))
	l.Push(value)
	return 2
}
