package spoa

// SPOP's variable-length integers (doc/SPOE.txt and doc/peers.txt of HAProxy):
// values below 240 are one byte; else the first byte has four bits of value and the next
// ones seven each, the least significant first, and each byte is *added*, so
// that every value has one encoding only.

// maxVarint is the longest encoding of 64 bits, in bytes.
const maxVarint = 10

// uvarint decodes the integer at the start of b and tells how many bytes it
// takes: 0 when b is cut, or when the value does not fit into 64 bits.
func uvarint(b []byte) (value uint64, n int) {
	if len(b) > 0 && b[0] < 240 {
		return uint64(b[0]), 1 // nearly always; short enough to be inlined
	}
	return longUvarint(b)
}

func longUvarint(b []byte) (value uint64, n int) {
	if len(b) == 0 {
		return 0, 0
	}
	value = uint64(b[0])
	for i, shift := 1, 4; i < len(b) && i < maxVarint; i, shift = i+1, shift+7 {
		part := uint64(b[i])
		sum := value + part<<shift
		if part<<shift>>shift != part || sum < value {
			return 0, 0
		}
		value = sum
		if part < 128 {
			return value, i + 1
		}
	}
	return 0, 0
}

// appendUvarint appends the encoding of value, at most [maxVarint] bytes.
func appendUvarint(b []byte, value uint64) []byte {
	if value < 240 {
		return append(b, byte(value))
	}
	return appendLongUvarint(b, value)
}

func appendLongUvarint(b []byte, value uint64) []byte {
	b = append(b, byte(value)|0xF0)
	for value = (value - 240) >> 4; value >= 128; value = (value - 128) >> 7 {
		b = append(b, byte(value)|0x80)
	}
	return append(b, byte(value))
}
