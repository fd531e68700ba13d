package security

import (
	"flag"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/haproxy-weighter/haproxy-weighter/internal/cli"
)

// asProgram is the environment variable that makes the test binary the program
// under test.
const asProgram = "HAPROXY_WEIGHTER_TESTED_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		os.Exit(cli.Main(""))
	}
	flag.Parse()
	if err := flag.Set("test.parallel", "8"); err != nil { // most of the time they wait for a pass
		panic(err)
	}
	goleak.VerifyTestMain(m)
}
