package spoa

import (
	"fmt"
	"net"
	"net/netip"
	"reflect"

	"github.com/negasus/haproxy-spoe-go/action"
	"github.com/negasus/haproxy-spoe-go/frame"
	"github.com/negasus/haproxy-spoe-go/typeddata"
)

// Arguments of the two actions (doc/SPOE.txt of HAProxy, "Actions"): scope and
// name, and for SET-VAR a value.
const (
	argsSetVar   = 3
	argsUnsetVar = 2
)

// valueTrue is a boolean with the flag that makes it true.
const valueTrue = typeddata.TypeBoolean | 0x10

// appendAck appends an ACK frame. On an error b is returned as it was.
func appendAck(b []byte, streamID, frameID uint64, actions action.Actions) ([]byte, error) {
	start := len(b)
	b = appendHeader(b, frame.TypeAgentAck, streamID, frameID)
	for i := range actions {
		var err error
		if b, err = appendAction(b, &actions[i]); err != nil {
			return b[:start], err
		}
	}
	endFrame(b, start)
	return b, nil
}

func appendAction(b []byte, a *action.Action) ([]byte, error) {
	if a.Scope > action.ScopeResponse {
		return b, fmt.Errorf("variable %q: there is no scope %d", a.Name, a.Scope)
	}
	switch a.Type {
	case action.TypeSetVar:
		b = append(b, byte(a.Type), argsSetVar, byte(a.Scope))
		b = appendString(b, a.Name)
		b, ok := appendValue(b, a.Value)
		if !ok {
			return b, fmt.Errorf("variable %q: SPOP cannot carry a value of type %T", a.Name, a.Value)
		}
		return b, nil
	case action.TypeUnsetVar:
		b = append(b, byte(a.Type), argsUnsetVar, byte(a.Scope))
		return appendString(b, a.Name), nil
	}
	return b, fmt.Errorf("variable %q: there is no action %d", a.Name, a.Type)
}

// appendValue appends a typed value. Negative integers are extended to 64 bits, which is
// how HAProxy reads all of them.
func appendValue(b []byte, value any) (_ []byte, ok bool) {
	switch v := value.(type) {
	case nil:
		return append(b, typeddata.TypeNull), true
	case bool:
		return appendBool(b, v), true
	case int:
		return appendInt(b, typeddata.TypeInt64, uint64(v)), true
	case int64:
		return appendInt(b, typeddata.TypeInt64, uint64(v)), true
	case int32:
		return appendInt(b, typeddata.TypeInt32, uint64(v)), true
	case uint32:
		return appendInt(b, typeddata.TypeUInt32, uint64(v)), true
	case uint64:
		return appendInt(b, typeddata.TypeUInt64, v), true
	case string:
		return appendString(append(b, typeddata.TypeString), v), true
	case []byte:
		b = appendUvarint(append(b, typeddata.TypeBinary), uint64(len(v)))
		return append(b, v...), true
	case net.IP:
		address, ok := netip.AddrFromSlice(v)
		return appendAddress(b, address), ok
	case netip.Addr:
		return appendAddress(b, v), v.IsValid()
	}
	return appendOther(b, reflect.ValueOf(value))
}

// appendOther does the rarer integers and named types.
func appendOther(b []byte, v reflect.Value) (_ []byte, ok bool) {
	switch v.Kind() {
	case reflect.Bool:
		return appendBool(b, v.Bool()), true
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return appendInt(b, typeddata.TypeInt64, uint64(v.Int())), true
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		return appendInt(b, typeddata.TypeUInt64, v.Uint()), true
	case reflect.String:
		return appendString(append(b, typeddata.TypeString), v.String()), true
	}
	return b, false
}

func appendBool(b []byte, v bool) []byte {
	if v {
		return append(b, valueTrue)
	}
	return append(b, typeddata.TypeBoolean)
}

func appendInt(b []byte, kind byte, v uint64) []byte {
	return appendUvarint(append(b, kind), v)
}

// appendAddress appends an IPv4 or IPv6 address, an IPv4 one in IPv6 clothes as IPv4.
func appendAddress(b []byte, a netip.Addr) []byte {
	a = a.Unmap()
	if a.Is4() {
		four := a.As4()
		return append(append(b, typeddata.TypeIPv4), four[:]...)
	}
	sixteen := a.As16() // all zero when a is not valid, which the caller refuses
	return append(append(b, typeddata.TypeIPv6), sixteen[:]...)
}
