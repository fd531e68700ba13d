package cli

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/haproxy-weighter/haproxy-weighter/internal/config"
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

// flagError says of a number that is none what a person would say.
func flagError(err error) error {
	var value *pflag.InvalidValueError
	var number *strconv.NumError
	if errors.As(err, &value) && errors.As(err, &number) {
		kind := "number"
		if strings.Contains(value.GetFlag().Value.Type(), "int") {
			kind = "whole number"
		}
		return fmt.Errorf("--%s takes a %s, not %q", value.GetFlag().Name, kind, value.GetValue())
	}
	return err
}

// badConfig is exit code 2 for what config.Load refuses.
func badConfig(file string, err error) error {
	var mistakes config.Errors
	switch {
	case errors.As(err, &mistakes):
		return usage(err, hintReference)
	case errors.Is(err, os.ErrNotExist):
		return usage(fmt.Errorf("no configuration at %s", file), hintFile)
	case errors.Is(err, os.ErrPermission):
		return usage(err, hintUnreadable)
	}
	return usage(err)
}

// explain prints f on stderr. The mistakes of a configuration begin with
// file:line and are printed as they are, so that editors can follow them.
func (p *Program) explain(f *failure) {
	if f.err == nil {
		return
	}
	var mistakes config.Errors
	if errors.As(f.err, &mistakes) {
		for _, m := range mistakes {
			fmt.Fprintln(p.Stderr, printable(m.String()))
		}
		p.errorf("%s", wordsConfigRefused(mistakes[0].File, len(mistakes)))
	} else {
		for line := range strings.Lines(f.err.Error()) { // joined errors have several
			p.errorf("%s", strings.TrimSuffix(line, "\n"))
		}
	}
	for _, h := range f.hints {
		p.hintf("%s", h)
	}
}
