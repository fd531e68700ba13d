package spoe

import (
	"fmt"
	"net"
	"strings"
	"time"
)

// logs receives what HAProxy logs about connections, by UDP.
type logs struct {
	conn    net.PacketConn
	pending map[string]string // by the client's host:port
}

func startLogs() (*logs, error) {
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	// HAProxy does not wait: what does not fit is lost.
	if err := conn.(*net.UDPConn).SetReadBuffer(4 << 20); err != nil {
		conn.Close()
		return nil, err
	}
	return &logs{conn: conn, pending: map[string]string{}}, nil
}

func (l *logs) address() string { return l.conn.LocalAddr().String() }

// line waits for the line of one client's connection or request. HAProxy writes it when that
// has ended.
func (l *logs) line(client string) (string, error) {
	if err := l.conn.SetReadDeadline(time.Now().Add(patience)); err != nil {
		return "", err
	}
	buffer := make([]byte, 64<<10)
	for {
		if line, ok := l.pending[client]; ok {
			delete(l.pending, client)
			return line, nil
		}
		n, _, err := l.conn.ReadFrom(buffer)
		if err != nil {
			return "", fmt.Errorf("no line of %s in HAProxy's log: %w", client, err)
		}
		line := strings.TrimRight(string(buffer[:n]), "\n\x00")
		if from, _, ok := strings.Cut(line, " "); ok {
			l.pending[from] = line
		}
	}
}

// variable finds name=VALUE in a log line; HAProxy writes "-" for a variable
// that is not set.
func variable(line, name string) string {
	for _, word := range strings.Fields(line) {
		if value, ok := strings.CutPrefix(word, name+"="); ok {
			return value
		}
	}
	return ""
}
