package lua

import (
	"reflect"
	"unsafe"

	engine "github.com/yuin/gopher-lua"
)

// sizer adds up what a state keeps in memory. It walks over the engine's own
// types and no others: what a view of the tables leads to is not the script's.
//
// The engine does not tell what its tables hold on to (the keys of removed
// entries stay, for one), so the walk is by reflection over whatever is there.
type sizer struct {
	limit int
	size  int
	seen  map[uintptr]bool
	todo  []reflect.Value // a list, not recursion: what a script links is deep
}

var (
	enginePath = reflect.TypeFor[engine.LState]().PkgPath()
	protoType  = reflect.TypeFor[*engine.FunctionProto]() // compiled code is shared by all states
)

// sizeOf returns roughly the bytes that l keeps; above limit it stops adding.
func sizeOf(l *engine.LState, limit int) int {
	z := &sizer{limit: limit, seen: make(map[uintptr]bool)}
	z.follow(reflect.ValueOf(l))
	for len(z.todo) > 0 && z.size <= limit {
		v := z.todo[len(z.todo)-1]
		z.todo = z.todo[:len(z.todo)-1]
		z.inside(v)
	}
	return z.size
}

// first tells whether memory at p has not been counted yet.
func (z *sizer) first(p uintptr) bool {
	if p == 0 || z.seen[p] {
		return false
	}
	z.seen[p] = true
	return true
}

// follow counts what v refers to. The memory of v itself has been counted.
func (z *sizer) follow(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		elem := v.Type().Elem()
		if elem.PkgPath() == enginePath && v.Type() != protoType && z.first(v.Pointer()) {
			z.size += int(elem.Size())
			z.todo = append(z.todo, v.Elem())
		}
	case reflect.Interface:
		z.dynamic(v.Elem())
	case reflect.String:
		const small = 32 // shared or not, they make no difference
		if n := v.Len(); n > 0 && (n < small || z.first(uintptr(unsafe.Pointer(unsafe.StringData(v.String()))))) {
			z.size += n
		}
	case reflect.Slice:
		if z.first(v.Pointer()) {
			z.size += v.Cap() * int(v.Type().Elem().Size())
			z.todo = append(z.todo, v)
		}
	case reflect.Map:
		if z.first(v.Pointer()) {
			t := v.Type()
			const fill = 2 // tables of a map are about half full
			z.size += fill * v.Len() * int(t.Key().Size()+t.Elem().Size())
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
			if z.follow(v.Index(i)); z.size > z.limit {
				return
			}
		}
	case reflect.Map:
		for entries := v.MapRange(); entries.Next() && z.size <= z.limit; {
			z.follow(entries.Key())
			z.follow(entries.Value())
		}
	}
}

func plain(k reflect.Kind) bool { return k >= reflect.Bool && k <= reflect.Complex128 }
