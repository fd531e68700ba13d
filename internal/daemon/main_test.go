package daemon

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if file := os.Getenv(runFile); file != "" {
		os.Exit(runAsDaemon(file))
	}
	goleak.VerifyTestMain(m)
}
