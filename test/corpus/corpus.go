// Package corpus keeps what fuzzers have found interesting, so that every run of
// the tests tries it again and the next fuzzing begins where the last one ended.
//
// A fuzz test Name of a package has the file testdata/corpus/Name there: inputs in
// the encoding of Go's own corpus files, one behind the other. "make fuzz" writes
// it. An input that failed is kept by Go itself, in testdata/fuzz.
package corpus

import (
	"bytes"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// header begins each input.
const header = "go test fuzz v1\n"

// mostBytes is the length of the largest input that is kept: large ones say
// little that a small one does not, and take long.
const mostBytes = 4 << 10

// Dir is where a package keeps its corpora.
const Dir = "testdata/corpus"

// Add adds the inputs that are kept of f; none when there is no file yet.
func Add(f *testing.F) {
	f.Helper()
	inputs, err := read(filepath.Join(Dir, f.Name()))
	if err != nil {
		f.Fatal(err)
	}
	for _, input := range inputs {
		values, err := decode(input)
		if err != nil {
			f.Fatalf("%s/%s: %v", Dir, f.Name(), err)
		}
		f.Add(values...)
	}
}

// Keep adds the files of a folder, one input each, to a corpus, without those
// that it has and those that are large. It returns how many inputs there are.
// A folder that does not exist has none.
func Keep(corpus, folder string) (int, error) {
	all, err := read(corpus)
	if err != nil {
		return 0, err
	}
	files, err := os.ReadDir(folder)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, err
	}
	for _, file := range files {
		found, err := read(filepath.Join(folder, file.Name()))
		if err != nil {
			return 0, err
		}
		all = append(all, found...)
	}
	all = slices.DeleteFunc(all, func(input string) bool { return len(input) > mostBytes })
	if len(all) == 0 {
		return 0, nil
	}
	slices.SortFunc(all, func(a, b string) int {
		if len(a) != len(b) {
			return len(a) - len(b)
		}
		return strings.Compare(a, b)
	})
	all = slices.Compact(all)
	for _, input := range all {
		if _, err := decode(input); err != nil { // Add would fail later
			return 0, fmt.Errorf("%s: %w", folder, err)
		}
	}
	if err := os.MkdirAll(filepath.Dir(corpus), 0o755); err != nil {
		return 0, err
	}
	return len(all), os.WriteFile(corpus, []byte(header+strings.Join(all, header)), 0o644)
}

// read splits a file into its inputs, without their headers.
func read(file string) ([]string, error) {
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	text, ok := bytes.CutPrefix(text, []byte(header))
	if !ok {
		return nil, fmt.Errorf("%s does not begin with %q", file, strings.TrimSpace(header))
	}
	return strings.Split(string(text), header), nil
}

// decode reads the values of an input, one a line: []byte("..."), string("..."),
// bool(true), byte('x'), int64(-7), uint64(7). Other types are added here when a fuzz test has them.
func decode(input string) ([]any, error) {
	var values []any
	for line := range strings.Lines(input) {
		v, err := value(strings.TrimSpace(line))
		if err != nil {
			return nil, fmt.Errorf("the value %.60q: %w", line, err)
		}
		values = append(values, v)
	}
	return values, nil
}

func value(line string) (any, error) {
	e, err := parser.ParseExpr(line)
	if err != nil {
		return nil, err
	}
	call, ok := e.(*ast.CallExpr)
	if !ok || len(call.Args) != 1 {
		return nil, errors.New("not a conversion of one literal")
	}
	text, err := literal(call.Args[0])
	if err != nil {
		return nil, err
	}
	switch kind := line[:call.Lparen-1]; kind {
	case "[]byte":
		return []byte(text), nil
	case "string":
		return text, nil
	case "bool":
		return strconv.ParseBool(text)
	case "uint16":
		n, err := strconv.ParseUint(text, 10, 16)
		return uint16(n), err
	case "uint64":
		return strconv.ParseUint(text, 10, 64)
	case "int64":
		return strconv.ParseInt(text, 10, 64)
	case "byte":
		r, _, rest, err := strconv.UnquoteChar(strings.TrimPrefix(text, "'"), '\'')
		if err == nil && (r > math.MaxUint8 || rest != "'") {
			err = strconv.ErrRange
		}
		return byte(r), err
	default:
		return nil, fmt.Errorf("the type %s is not known here", kind)
	}
}

// literal is the text of a string, a number with its sign, a character in its
// quotes, or true and false.
func literal(e ast.Expr) (string, error) {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name, nil
	case *ast.UnaryExpr:
		text, err := literal(e.X)
		return e.Op.String() + text, err
	case *ast.BasicLit:
		if e.Kind == token.STRING {
			return strconv.Unquote(e.Value)
		}
		return e.Value, nil
	}
	return "", errors.New("no literal")
}
