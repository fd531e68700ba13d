package child

import (
	"fmt"
	"math/rand/v2"
	"net"
)

// Free ports are taken from below Linux's ephemeral range, so that an outgoing
// connection of the tests does not sit on one before its program binds it.
const (
	lowestPort  = 12000
	highestPort = 32000
)

// FreePort returns a TCP port on 127.0.0.1 that nobody listened on just now.
func FreePort() (int, error) {
	ports, err := FreePorts(1)
	if err != nil {
		return 0, err
	}
	return ports[0], nil
}

// FreePorts returns n distinct ports, held until all are chosen. HAProxy binds with SO_REUSEPORT: two of
// them on one port would share its connections without a word.
func FreePorts(n int) ([]int, error) {
	ports := make([]int, 0, n)
	for tries := 0; len(ports) < n; tries++ {
		port := lowestPort + rand.IntN(highestPort-lowestPort)
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			if tries > 1000+10*n {
				return nil, fmt.Errorf("no %d free ports: %w", n, err)
			}
			continue
		}
		defer l.Close() // held until all are chosen
		ports = append(ports, port)
	}
	return ports, nil
}

// Listen listens on such a port: it can be closed and opened again at the same
// address, and no outgoing connection sits on it meanwhile.
func Listen() (net.Listener, error) {
	port, err := FreePort()
	if err != nil {
		return nil, err
	}
	return net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
}
