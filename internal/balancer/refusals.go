package balancer

import "errors"

var (
	errNoBackend = errors.New("placeholder")
	errNoServer  = errors.New("placeholder")
	errStatic    = errors.New("placeholder")
)

func isNoBackend(err error) bool { return errors.Is(err, errNoBackend) }
func isNoServer(err error) bool  { return errors.Is(err, errNoServer) }
func isStatic(err error) bool    { return errors.Is(err, errStatic) }
