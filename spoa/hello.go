package spoa

import (
	"strings"

	"github.com/negasus/haproxy-spoe-go/frame"
	"github.com/negasus/haproxy-spoe-go/payload/kv"
	"github.com/negasus/haproxy-spoe-go/typeddata"
)

// version is the one that we speak; a peer has to know the same major one.
const (
	version      = "2.0"
	majorVersion = "2"
)

const capabilityPipelining = "pipelining"

// hello is what HAPROXY-HELLO asks for and what we agree to.
type hello struct {
	frameSize   int // the agreed max-frame-size, bytes
	pipelining  bool
	healthCheck bool
	engineID    string
}

// readHello negotiates: the smaller frame size, pipelining if HAProxy has it.
func readHello(payload []byte, ownFrameSize int) (hello, *ending) {
	items, fault := readItems(payload)
	if fault != nil {
		return hello{}, fault
	}
	versions, ok := item[string](items, "supported-versions")
	if !ok {
		return hello{}, refuse(statusNoVersion, "a HELLO without supported-versions")
	}
	if !knowsVersion(versions) {
		return hello{}, refuse(statusBadVersion, "a HELLO without version "+version)
	}
	size, ok := item[uint32](items, "max-frame-size")
	if !ok {
		return hello{}, refuse(statusNoFrameSize, "a HELLO without max-frame-size")
	}
	if size < minAgreedSize {
		return hello{}, refuse(statusBadFrameSize, "a HELLO with a max-frame-size below 256")
	}
	capabilities, ok := item[string](items, "capabilities")
	if !ok {
		return hello{}, refuse(statusNoCapability, "a HELLO without capabilities")
	}
	h := hello{frameSize: int(min(int64(size), int64(ownFrameSize)))}
	for name := range strings.SplitSeq(capabilities, ",") {
		h.pipelining = h.pipelining || strings.TrimSpace(name) == capabilityPipelining
	}
	h.healthCheck, _ = item[bool](items, "healthcheck")
	h.engineID, _ = item[string](items, "engine-id")
	return h, nil
}

func refuse(status uint32, text string) *ending {
	return &ending{status: status, reason: ReasonHello, text: text}
}

// readItems decodes the payload of a HELLO or DISCONNECT frame.
func readItems(payload []byte) (*kv.KV, *ending) {
	if fault := checkItems(payload); fault != nil {
		return nil, fault
	}
	items := kv.NewKV()
	if err := items.Unmarshal(payload[:len(payload):len(payload)]); err != nil {
		return nil, malformed("a list of items that does not decode: %v", err)
	}
	return items, nil
}

// item is the value of a name; not ok when it is missing or of another type.
func item[T any](items *kv.KV, name string) (value T, ok bool) {
	v, _ := items.Get(name)
	value, ok = v.(T)
	return value, ok
}

// knowsVersion looks for our major version in a list such as "1.0, 2.0".
func knowsVersion(list string) bool {
	for v := range strings.SplitSeq(list, ",") {
		if major, _, _ := strings.Cut(strings.TrimSpace(v), "."); major == majorVersion {
			return true
		}
	}
	return false
}

// appendHello appends the AGENT-HELLO that answers h.
func appendHello(b []byte, h hello) []byte {
	capabilities := ""
	if h.pipelining {
		capabilities = capabilityPipelining
	}
	start := len(b)
	b = appendHeader(b, frame.TypeAgentHello, 0, 0)
	b = appendString(b, "version")
	b = append(b, typeddata.TypeString)
	b = appendString(b, version)
	b = appendString(b, "max-frame-size")
	b = append(b, typeddata.TypeUInt32)
	b = appendUvarint(b, uint64(h.frameSize))
	b = appendString(b, "capabilities")
	b = append(b, typeddata.TypeString)
	b = appendString(b, capabilities)
	endFrame(b, start)
	return b
}
