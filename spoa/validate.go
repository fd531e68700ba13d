package spoa

import "github.com/negasus/haproxy-spoe-go/typeddata"

// The library that decodes messages and lists of items takes lengths as they
// come. These checks walk the same bytes first, without an allocation, and
// refuse what would make it panic, allocate or return nonsense. They must never be
// laxer than the library: FuzzValidate holds that.

const (
	// maxMessages bounds the messages of one frame. HAProxy sends one for each
	// message that its configuration has at the event; a frame has room for 5,000.
	maxMessages = 64
	// maxItems bounds the items of a HELLO or DISCONNECT; HAProxy sends five.
	maxItems = 64
)

// checkMessages checks the payload of a NOTIFY frame.
func checkMessages(b []byte) *ending {
	for count := 0; len(b) > 0; count++ {
		if count == maxMessages {
			return malformed("a NOTIFY with more than %d messages", maxMessages)
		}
		n := skipString(b)
		if n < 0 || n == len(b) { // the number of arguments must follow
			return malformed("a NOTIFY whose message %d is cut in its name", count+1)
		}
		args := int(b[n])
		b = b[n+1:]
		for arg := range args {
			if n = skipItem(b); n < 0 {
				return malformed("a NOTIFY whose message %d is cut or wrong in its argument %d", count+1, arg+1)
			}
			b = b[n:]
		}
	}
	return nil
}

// checkItems checks the payload of a HELLO or DISCONNECT frame.
func checkItems(b []byte) *ending {
	for count := 0; len(b) > 0; count++ {
		if count == maxItems {
			return malformed("a list of more than %d items", maxItems)
		}
		n := skipItem(b)
		if n < 0 {
			return malformed("a list whose item %d is cut or wrong", count+1)
		}
		b = b[n:]
	}
	return nil
}

// skipItem returns the size of the name and value at the start of b, or -1.
func skipItem(b []byte) int {
	name := skipString(b)
	if name < 0 {
		return -1
	}
	value := skipValue(b[name:])
	if value < 0 {
		return -1
	}
	return name + value
}

// skipString returns the size of the length and bytes at the start of b, or -1.
func skipString(b []byte) int {
	length, n := uvarint(b)
	if n == 0 || length > uint64(len(b)-n) {
		return -1
	}
	return n + int(length)
}

// skipValue returns the size of the typed value at the start of b, or -1.
func skipValue(b []byte) int {
	if len(b) == 0 {
		return -1
	}
	size := -1
	switch rest := b[1:]; b[0] & 0x0F {
	case typeddata.TypeNull, typeddata.TypeBoolean:
		size = 0
	case typeddata.TypeInt32, typeddata.TypeUInt32, typeddata.TypeInt64, typeddata.TypeUInt64:
		if _, n := uvarint(rest); n > 0 {
			size = n
		}
	case typeddata.TypeIPv4:
		size = 4
	case typeddata.TypeIPv6:
		size = 16
	case typeddata.TypeString, typeddata.TypeBinary:
		size = skipString(rest)
	}
	if size < 0 || size > len(b)-1 {
		return -1
	}
	return 1 + size
}
