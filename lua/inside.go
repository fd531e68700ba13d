package lua

import (
	"fmt"
	"reflect"
	"unsafe"

	engine "github.com/yuin/gopher-lua"
)

// The engine shows its tables from the outside only: how many entries there
// are to step over, and how much memory they take, is what it does not tell.
// So what is read here is read where it lies.

// field is where a field of type T lies in a struct S of the engine's.
type field[S, T any] uintptr

var (
	arrayField  = fieldOf[engine.LTable, []engine.LValue]("array")
	textsField  = fieldOf[engine.LTable, map[string]engine.LValue]("strdict")
	othersField = fieldOf[engine.LTable, map[engine.LValue]engine.LValue]("dict")
	keysField   = fieldOf[engine.LTable, []engine.LValue]("keys")
	placesField = fieldOf[engine.LTable, map[engine.LValue]int]("k2i")
	nextField   = fieldOf[engine.Upvalue, *engine.Upvalue]("next")
)

// fieldOf finds a field by its name. The engine's version is a fixed one; with
// another that is different inside the program ends at once.
func fieldOf[S, T any](name string) field[S, T] {
	of, is := reflect.TypeFor[S](), reflect.TypeFor[T]()
	f, ok := of.FieldByName(name)
	if !ok || f.Type != is {
		panic(fmt.Sprintf("the engine's %v has no %s that is a %v", of, name, is))
	}
	return field[S, T](f.Offset)
}

// in reads the field, which must not be written to.
func (f field[S, T]) in(s *S) T { return *(*T)(unsafe.Add(unsafe.Pointer(s), uintptr(f))) }

// arrayOf has the values of the indices from 1 on, nil ones among them.
func arrayOf(t *engine.LTable) []engine.LValue { return arrayField.in(t) }

// keysOf has all other keys that t has ever had, in their order: a key stays
// there when its entry is removed.
func keysOf(t *engine.LTable) []engine.LValue { return keysField.in(t) }

// placeOf finds a key in keysOf.
func placeOf(t *engine.LTable, key engine.LValue) (place int, ok bool) {
	place, ok = placesField.in(t)[key]
	return place, ok
}

// named is the number of entries of t outside of its array.
func named(t *engine.LTable) int {
	return len(textsField.in(t)) + len(othersField.in(t))
}

// boxOf is where the value of an interface lies.
func boxOf(v engine.LValue) uintptr {
	return uintptr((*[2]unsafe.Pointer)(unsafe.Pointer(&v))[1])
}
