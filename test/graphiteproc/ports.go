package graphiteproc

import (
	"fmt"
	"math/rand/v2"
	"net"
)

// Below the range that Linux gives to outgoing connections (32768 and up), so
// that a port which is free now is unlikely to be gone when Python binds it, or
// while graphite-web is stopped on purpose.
const (
	lowestPort  = 18000
	highestPort = 31999
)

// freePorts returns n different loopback ports on which nobody listens.
func freePorts(n int) ([]int, error) {
	var ports []int
	taken := make(map[int]bool)
	for range 500 {
		port := lowestPort + rand.IntN(highestPort-lowestPort+1)
		if taken[port] {
			continue
		}
		l, err := net.Listen("tcp4", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			continue
		}
		l.Close()
		taken[port] = true
		if ports = append(ports, port); len(ports) == n {
			return ports, nil
		}
	}
	return nil, fmt.Errorf("no %d free ports on 127.0.0.1 between %d and %d", n, lowestPort, highestPort)
}
