package cli

import (
	"errors"
	"fmt"
	"os"
	"strings"
)

// failure is an error with an exit code, and what the operator can do.
type failure struct {
	code  int
	err   error // nil: all has been said already, only the exit code is left
	hints []string
}

func (f *failure) Error() string {
	if f.err == nil {
		return fmt.Sprintf("exit code %d", f.code)
	}
	return f.err.Error()
}

func (f *failure) Unwrap() error { return f.err }

// failed is exit code 1.
func failed(err error, hints ...string) error {
	return &failure{code: exitFailed, err: err, hints: hints}
}

// usage is exit code 2.
func usage(err error, hints ...string) error {
	return &failure{code: exitUsage, err: err, hints: hints}
}

// silent ends with a code after the command has shown what is wrong.
func silent(code int) error { return &failure{code: code} }

// badConfig is exit code 2 for what config.Load refuses. Its lines begin with
// file:line and are printed as they are, so that editors can follow them.
func badConfig(file string, err error) error {
	if errors.Is(err, os.ErrNotExist) {
		return usage(fmt.Errorf("no configuration at %s", file), hintFile)
	}
	return usage(&configError{file, err}, hintReference)
}

// configError is a refused configuration.
type configError struct {
	file string
	err  error
}

func (e *configError) Error() string { return e.err.Error() }
func (e *configError) Unwrap() error { return e.err }

// explain prints f on stderr.
func (p *Program) explain(f *failure) {
	if f.err == nil {
		return
	}
	var c *configError
	if errors.As(f.err, &c) {
		lines := strings.Split(strings.TrimRight(c.err.Error(), "\n"), "\n")
		for _, line := range lines {
			fmt.Fprintln(p.Stderr, line)
		}
		p.errorf("%s", wordsConfigRefused(c.file, len(lines)))
	} else {
		p.errorf("%s", f.err)
	}
	for _, h := range f.hints {
		p.hintf("%s", h)
	}
}
