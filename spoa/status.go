package spoa

import (
	"fmt"

	"github.com/negasus/haproxy-spoe-go/frame"
	"github.com/negasus/haproxy-spoe-go/typeddata"
)

// Status codes of DISCONNECT frames (doc/SPOE.txt of HAProxy, "Errors &
// timeouts"). HAProxy shows them, plus 256, in the variable of "option
// set-on-error".
const (
	statusNormal       = 0
	statusTimeout      = 2
	statusTooBig       = 3
	statusInvalid      = 4
	statusNoVersion    = 5
	statusNoFrameSize  = 6
	statusNoCapability = 7
	statusBadVersion   = 8
	statusBadFrameSize = 9
	statusFragmented   = 10
	statusResources    = 13
)

// ending is how a connection ends. Its text is for the operator and goes to
// HAProxy in the DISCONNECT frame as well.
type ending struct {
	status uint32
	reason Reason
	text   string
	silent bool // nobody is there to read a DISCONNECT, or it is not called for
}

// silently ends a connection without a DISCONNECT frame.
func silently(reason Reason, text string) *ending {
	return &ending{reason: reason, text: text, silent: true}
}

func malformed(format string, args ...any) *ending {
	return &ending{status: statusInvalid, reason: ReasonMalformed, text: fmt.Sprintf(format, args...)}
}

// maxText keeps a DISCONNECT frame below the least frame size that can be agreed.
const maxText = 128

// appendDisconnect appends an AGENT-DISCONNECT frame.
func appendDisconnect(b []byte, status uint32, text string) []byte {
	start := len(b)
	b = appendHeader(b, frame.TypeAgentDisconnect, 0, 0)
	b = appendString(b, "status-code")
	b = append(b, typeddata.TypeUInt32)
	b = appendUvarint(b, uint64(status))
	b = appendString(b, "message")
	b = append(b, typeddata.TypeString)
	b = appendString(b, text[:min(len(text), maxText)])
	endFrame(b, start)
	return b
}

// appendString appends a name: its length and its bytes.
func appendString(b []byte, s string) []byte {
	return append(appendUvarint(b, uint64(len(s))), s...)
}
