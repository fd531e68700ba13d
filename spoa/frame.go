package spoa

import (
	"encoding/binary"
	"fmt"

	"github.com/negasus/haproxy-spoe-go/frame"
)

// Sizes of frames in bytes, without the four of the length in front.
const (
	// minFrameSize is what the smallest frame has: type, flags and the two ids.
	minFrameSize = 1 + 4 + 1 + 1
	// minAgreedSize is the least max-frame-size that SPOP allows.
	minAgreedSize = 256
	lengthSize    = 4
)

const (
	flagFin   = 1
	flagAbort = 2
)

// typeUnset is the frame that continues a fragmented payload.
const typeUnset = frame.TypeUnset

// rawFrame is a frame whose payload is not looked at yet. The payload points
// into the connection's buffer.
type rawFrame struct {
	kind              frame.Type
	flags             uint32
	streamID, frameID uint64
	payload           []byte
}

// splitFrame cuts the first frame off b. It returns size 0 when b has no whole
// frame yet; the length of the frame is compared with limit as soon as it is
// there. size includes the length field.
func splitFrame(b []byte, limit int) (f rawFrame, size int, fault *ending) {
	if len(b) < lengthSize {
		return rawFrame{}, 0, nil
	}
	length := binary.BigEndian.Uint32(b)
	if int64(length) > int64(limit) {
		return rawFrame{}, 0, &ending{status: statusTooBig, reason: ReasonFrameTooBig,
			text: fmt.Sprintf("a frame of %d bytes, above the agreed max-frame-size of %d", length, limit)}
	}
	if length < minFrameSize {
		return rawFrame{}, 0, malformed("a frame of %d bytes, below the least of %d", length, minFrameSize)
	}
	size = lengthSize + int(length)
	if len(b) < size {
		return rawFrame{}, 0, nil
	}
	body := b[lengthSize:size:size]
	f.kind, f.flags = frame.Type(body[0]), binary.BigEndian.Uint32(body[1:])
	body = body[5:]
	var n int
	if f.streamID, n = uvarint(body); n == 0 {
		return rawFrame{}, 0, malformed("a frame with a cut or overlong stream-id")
	}
	body = body[n:]
	if f.frameID, n = uvarint(body); n == 0 {
		return rawFrame{}, 0, malformed("a frame with a cut or overlong frame-id")
	}
	f.payload = body[n:]
	return f, size, nil
}

// appendHeader begins a frame that is whole; endFrame puts in its length.
func appendHeader(b []byte, kind frame.Type, streamID, frameID uint64) []byte {
	b = append(b, 0, 0, 0, 0, byte(kind), 0, 0, 0, flagFin)
	b = appendUvarint(b, streamID)
	return appendUvarint(b, frameID)
}

// endFrame sets the length of the frame that begins at b[start] and ends b.
func endFrame(b []byte, start int) {
	binary.BigEndian.PutUint32(b[start:], uint32(len(b)-start-lengthSize))
}
