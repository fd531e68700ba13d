package cli

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/haproxy-weighter/haproxy-weighter/internal/config"
)

// probeLimit bounds the look at one listener.
const probeLimit = 2 * time.Second

// place is an address that the daemon will listen on, and what is said of it.
type place struct {
	check string
	at    config.Listener
	taken result // when it can't listen there: warn where it starts all the same
	// ours tells whether it is our own program that has taken the connection.
	ours                        func(context.Context, net.Conn) bool
	isFree, isOurs, isOther     string
	doOther, doFailed, doFolder string
}

// listen looks at a place: free, ours already, or taken.
func (s *survey) listen(ctx context.Context, p place) {
	ctx, cancel := context.WithTimeout(ctx, probeLimit)
	defer cancel()
	subject := p.at.String()
	var d net.Dialer
	conn, err := d.DialContext(ctx, p.at.Network, p.at.Address)
	switch {
	case err == nil:
		defer conn.Close()
		if end, ok := ctx.Deadline(); ok {
			_ = conn.SetDeadline(end)
		}
		if p.ours(ctx, conn) {
			s.add(p.check, subject, ok, p.isOurs, "")
		} else {
			s.add(p.check, subject, p.taken, p.isOther, p.doOther)
		}
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, os.ErrNotExist):
		s.vacant(ctx, p)
	default:
		s.add(p.check, subject, p.taken, err.Error(), p.doFailed)
	}
}

// vacant tells whether one could listen where nobody does.
func (s *survey) vacant(ctx context.Context, p place) {
	subject := p.at.String()
	if p.at.Network == "unix" { // to listen would leave a file
		if info, err := os.Stat(filepath.Dir(p.at.Address)); err != nil || !info.IsDir() {
			s.add(p.check, subject, p.taken, "there is no folder for it", p.doFolder)
			return
		}
		s.add(p.check, subject, ok, p.isFree, "")
		return
	}
	var lc net.ListenConfig
	opened, err := lc.Listen(ctx, p.at.Network, p.at.Address)
	if err != nil {
		s.add(p.check, subject, p.taken, err.Error(), p.doFailed)
		return
	}
	opened.Close()
	s.add(p.check, subject, ok, p.isFree, "")
}
