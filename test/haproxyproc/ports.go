package haproxyproc

import "github.com/haproxy-weighter/haproxy-weighter/test/child"

// FreePort returns a TCP port on 127.0.0.1 that nobody listened on just now.
func FreePort() (int, error) { return child.FreePort() }

// FreePorts returns n distinct ports. HAProxy binds with SO_REUSEPORT: two of
// them on one port would share its connections without a word.
func FreePorts(n int) ([]int, error) { return child.FreePorts(n) }
