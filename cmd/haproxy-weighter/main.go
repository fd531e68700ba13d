// Command haproxy-weighter evens out the load of the servers behind HAProxy.
package main

import (
	"os"

	"github.com/haproxy-weighter/haproxy-weighter/internal/cli"
)

// version is set by the linker (see the Makefile); when empty, what the Go
// toolchain recorded about the build is shown instead.
var version string

func main() { os.Exit(cli.Main(version)) }
