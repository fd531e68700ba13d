package lua

import (
	"reflect"
	"unsafe"

	engine "github.com/yuin/gopher-lua"
)

// sizer adds up what a state keeps in memory. It walks over the engine's own
// types and no others: what a view of the tables leads to is not the script's.
//
// Tables and functions, of which there can be many, are walked as they are;
// whatever else the engine has is walked by reflection.
type sizer struct {
	limit  int
	rest   func() // called now and then; nil: nothing
	size   int
	steps  int
	seen   map[uintptr]struct{}
	values []engine.LValue // tables and functions to walk: a list, not recursion, for what a script links is deep
	todo   []reflect.Value
}

var (
	enginePath   = reflect.TypeFor[engine.LState]().PkgPath()
	protoType    = reflect.TypeFor[*engine.FunctionProto]() // compiled code is shared by all states
	tableType    = reflect.TypeFor[*engine.LTable]()
	functionType = reflect.TypeFor[*engine.LFunction]()
	valueType    = reflect.TypeFor[engine.LValue]()
)

// stepsPerRest is how many values are counted between two rests: a few tens of
// microseconds.
const stepsPerRest = 512

// sizeOf returns roughly the bytes that l keeps; above limit it stops adding.
func sizeOf(l *engine.LState, limit int, rest func()) int {
	z := &sizer{limit: limit, rest: rest, seen: make(map[uintptr]struct{})}
	z.follow(reflect.ValueOf(l))
	for z.size <= limit {
		if n := len(z.values); n > 0 {
			v := z.values[n-1]
			z.values = z.values[:n-1]
			if t, ok := v.(*engine.LTable); ok {
				z.table(t)
			} else {
				z.function(v.(*engine.LFunction))
			}
			continue
		}
		n := len(z.todo)
		if n == 0 {
			break
		}
		v := z.todo[n-1]
		z.todo = z.todo[:n-1]
		z.inside(v)
	}
	return z.size
}

// full counts a step and tells whether there is no need to go on.
func (z *sizer) full() bool {
	if z.steps++; z.steps%stepsPerRest == 0 && z.rest != nil {
		z.rest()
	}
	return z.size > z.limit
}

// first tells whether memory at p has not been counted yet.
func (z *sizer) first(p uintptr) bool {
	if p == 0 {
		return false
	}
	if _, seen := z.seen[p]; seen {
		return false
	}
	z.seen[p] = struct{}{}
	return true
}

// sizeOfMap is what Go's maps take: groups of eight slots with a byte for each,
// of which up to a half are free once there are several.
func sizeOfMap(entries, slot int) int {
	const header, group = 48, 8
	if entries <= group {
		return header + group*(slot+1)
	}
	return header + 2*entries*(slot+1)
}

const (
	valueSize = int(unsafe.Sizeof(engine.LNil))
	textSize  = int(unsafe.Sizeof(""))
)

// table counts what t holds on to. Its maps are as large as they have ever had
// to be, for which the keys that it has ever had are a bound.
func (z *sizer) table(t *engine.LTable) {
	array, keys := arrayOf(t), keysOf(t)
	texts, others := textsField.in(t), othersField.in(t)
	z.size += valueSize * (cap(array) + cap(keys))
	if texts != nil {
		z.size += sizeOfMap(len(keys), textSize+valueSize)
	}
	if others != nil {
		z.size += sizeOfMap(len(keys), 2*valueSize)
	}
	if keys != nil {
		z.size += sizeOfMap(len(keys), valueSize+int(unsafe.Sizeof(0)))
	}
	z.value(t.Metatable)
	for _, list := range [...][]engine.LValue{array, keys} {
		for _, v := range list {
			if z.value(v); z.full() {
				return
			}
		}
	}
	for _, v := range texts {
		if z.value(v); z.full() {
			return
		}
	}
	for _, v := range others {
		if z.value(v); z.full() {
			return
		}
	}
}

// function counts what f holds on to. Upvalues that belonged to one call hold
// on to one another.
func (z *sizer) function(f *engine.LFunction) {
	if f.Env != nil {
		z.value(f.Env)
	}
	z.size += cap(f.Upvalues) * int(unsafe.Sizeof(f))
	for _, u := range f.Upvalues {
		for ; u != nil && z.first(uintptr(unsafe.Pointer(u))); u = nextField.in(u) {
			z.size += int(unsafe.Sizeof(*u))
			if z.value(u.Value()); z.full() {
				return
			}
		}
	}
}

// numberBlock is what the engine allocates numbers in, 32 at once: one that is
// kept keeps them all.
const numberBlock = 256

// value counts what v refers to.
func (z *sizer) value(v engine.LValue) {
	switch is := v.(type) {
	case nil, *engine.LNilType, engine.LBool:
	case engine.LNumber:
		if z.first(boxOf(v)&^(numberBlock-1) | 1) { // no pointer to anything else is odd
			z.size += numberBlock
		}
	case engine.LString:
		z.size += textSize
		z.text(string(is))
	case *engine.LTable:
		if z.first(uintptr(unsafe.Pointer(is))) {
			z.size += int(unsafe.Sizeof(*is))
			z.values = append(z.values, is)
		}
	case *engine.LFunction:
		if z.first(uintptr(unsafe.Pointer(is))) {
			z.size += int(unsafe.Sizeof(*is))
			z.values = append(z.values, is)
		}
	default:
		z.dynamic(reflect.ValueOf(v))
	}
}

// text counts a string. Whether a small one is shared makes no difference.
func (z *sizer) text(s string) {
	const small = 32
	if len(s) < small || z.first(uintptr(unsafe.Pointer(unsafe.StringData(s)))) {
		z.size += len(s)
	}
}

// follow counts what v refers to. The memory of v itself has been counted.
func (z *sizer) follow(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		switch {
		case v.IsNil():
			return
		case v.Type() == tableType:
			z.value((*engine.LTable)(v.UnsafePointer()))
			return
		case v.Type() == functionType:
			z.value((*engine.LFunction)(v.UnsafePointer()))
			return
		}
		elem := v.Type().Elem()
		if elem.PkgPath() == enginePath && v.Type() != protoType && z.first(v.Pointer()) {
			z.size += int(elem.Size())
			z.todo = append(z.todo, v.Elem())
		}
	case reflect.Interface:
		if v.Type() == valueType && v.CanAddr() {
			z.value(*(*engine.LValue)(unsafe.Pointer(v.UnsafeAddr())))
			return
		}
		z.dynamic(v.Elem())
	case reflect.String:
		z.text(v.String())
	case reflect.Slice:
		if z.first(v.Pointer()) {
			z.size += v.Cap() * int(v.Type().Elem().Size())
			z.todo = append(z.todo, v)
		}
	case reflect.Map:
		if z.first(v.Pointer()) {
			t := v.Type()
			z.size += sizeOfMap(v.Len(), int(t.Key().Size()+t.Elem().Size()))
			z.todo = append(z.todo, v)
		}
	case reflect.Struct, reflect.Array:
		z.inside(v)
	}
}

// dynamic counts what an interface holds.
func (z *sizer) dynamic(v reflect.Value) {
	switch v.Kind() {
	case reflect.Invalid, reflect.Func, reflect.Chan:
	case reflect.Pointer, reflect.Map:
		z.follow(v)
	default:
		if v.Type().PkgPath() == enginePath {
			z.size += int(v.Type().Size())
			z.follow(v)
		}
	}
}

// inside follows each part of v.
func (z *sizer) inside(v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			z.follow(v.Field(i))
		}
	case reflect.Slice, reflect.Array:
		if plain(v.Type().Elem().Kind()) {
			return
		}
		for i := range v.Len() {
			if z.follow(v.Index(i)); z.full() {
				return
			}
		}
	case reflect.Map:
		for entries := v.MapRange(); entries.Next() && !z.full(); {
			z.follow(entries.Key())
			z.follow(entries.Value())
		}
	}
}

func plain(k reflect.Kind) bool { return k >= reflect.Bool && k <= reflect.Complex128 }
