package config

import (
	"context"
	"os"

	"github.com/BurntSushi/toml"
)

// ControlPath reads nothing but admin.control from the file, for the commands
// that talk to a running daemon: they must work while the file has mistakes
// elsewhere, or names secrets that this user may not read. Empty means that
// there is no control socket. The error is an Errors, or one of package os.
func ControlPath(ctx context.Context, file string) (string, error) {
	data, err := readLimited(ctx, file, largestFile)
	if err != nil {
		return "", unreadable(file, err)
	}
	data = cutMark(data)
	var values map[string]any
	if _, err := toml.Decode(string(data), &values); err != nil {
		return "", Errors{syntaxMistake(file, data, err)}
	}
	r := &reader{file: file, env: os.LookupEnv, lines: locate(data), flawed: map[string]bool{}}
	path := r.newTable("", "", values).sub("admin").pathOrOff("control", DefaultControl)
	if len(r.mistakes) > 0 {
		sortMistakes(r.mistakes)
		return "", r.mistakes
	}
	return path, nil
}
