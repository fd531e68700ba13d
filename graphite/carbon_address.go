package graphite

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
)

// CarbonAddress is where something takes plaintext lines: carbon itself (port
// 2003 as a rule), a relay before it, or a hosted service. ParseCarbonAddress
// makes one.
type CarbonAddress struct {
	HostPort string
	TLS      bool
}

// CarbonAddressForms says what ParseCarbonAddress reads, for messages.
const CarbonAddressForms = `"host:port", "tcp://host:port", "tls://host:port"`

// ParseCarbonAddress reads "host:port", "tcp://host:port", which is the same,
// or "tls://host:port". Its errors don't quote s, which may hold a secret.
func ParseCarbonAddress(s string) (CarbonAddress, error) {
	var a CarbonAddress
	scheme, rest, ok := strings.Cut(s, "://")
	switch {
	case !ok:
		a.HostPort = s
	case scheme == "tcp" || scheme == "tls":
		a.HostPort, a.TLS = rest, scheme == "tls"
	default:
		return CarbonAddress{}, errors.New("only tcp:// and tls:// are known")
	}
	host, port, err := net.SplitHostPort(a.HostPort)
	switch {
	case err != nil && !strings.Contains(a.HostPort, ":"):
		return CarbonAddress{}, errors.New("a port is missing; carbon's for plaintext lines is 2003")
	case err != nil:
		return CarbonAddress{}, errors.New("this form is not known")
	case host == "":
		return CarbonAddress{}, errors.New("a host is missing before the port")
	case !isHost(host):
		return CarbonAddress{}, errors.New("what is before the port is not a host")
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return CarbonAddress{}, errors.New("the port is not a number from 1 to 65535")
	}
	return a, nil
}

// isHost tells whether s can be an address or a host's name.
func isHost(s string) bool {
	if _, err := netip.ParseAddr(s); err == nil {
		return true
	}
	return !strings.ContainsFunc(s, func(r rune) bool { return r != '.' && !isNameByte(r) })
}

// Loopback tells whether what is sent there stays on this machine.
func (a CarbonAddress) Loopback() bool {
	host, _, err := net.SplitHostPort(a.HostPort)
	if err != nil {
		return false
	}
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

// String gives a form that ParseCarbonAddress reads.
func (a CarbonAddress) String() string {
	if a.TLS {
		return fmt.Sprintf("tls://%s", a.HostPort)
	}
	return a.HostPort
}
