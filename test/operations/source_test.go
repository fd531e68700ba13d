package operations

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// repository is where the sources are, seen from here.
const repository = "../.."

// gap stands for what a message has in it that only the running program knows.
const gap = "…"

// said is what the source can say, by where: file and line.
type said map[string]string

func (s said) add(text, where string) {
	if _, ok := s[text]; !ok {
		s[text] = where
	}
}

// source is what the program can log.
type source struct {
	alarms said // of level WARN and ERROR
	overs  said // the ends of faults
	infos  said
	words  said // all other strings of some length
}

// forms of a call that look like those of a logger and are none: receiver and
// method.
var noLogger = []string{
	"l.Error", // raises an error in Lua
	"math.Log",
	"c.Info",        // asks HAProxy
	"client.Info",   // asks HAProxy
	"k.client.Info", // asks HAProxy
}

// carriers are the functions that log what their callers say; the callers are
// looked at instead.
var carriers = []string{"balancer.begin", "balancer.end", "balancer.Set", "spoa.complain"}

// readSource parses all of the program but its tests.
func readSource(t *testing.T) *source {
	t.Helper()
	s := &source{alarms: said{}, overs: said{}, infos: said{}, words: said{}}
	for _, folder := range []string{"cmd", "graphite", "internal", "lua", "spoa", "weighting"} {
		err := filepath.WalkDir(filepath.Join(repository, folder), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			set := token.NewFileSet()
			file, err := parser.ParseFile(set, path, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			r := &reader{t: t, out: s, set: set, file: file}
			r.read()
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// reader reads one file.
type reader struct {
	t    *testing.T
	out  *source
	set  *token.FileSet
	file *ast.File
	in   ast.Node // the function at hand, or the whole file
	name string   // of the function at hand
}

func (r *reader) read() {
	for _, d := range r.file.Decls {
		r.in, r.name = d, r.file.Name.Name+"."
		if f, ok := d.(*ast.FuncDecl); ok {
			r.name += f.Name.Name
		}
		ast.Inspect(d, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CallExpr:
				r.call(n)
			case *ast.CompositeLit:
				r.wording(n)
			case *ast.AssignStmt:
				r.assigned(n)
			case *ast.BasicLit:
				if text, err := strconv.Unquote(n.Value); err == nil && len(text) > 3 {
					r.out.words.add(text, r.where(n))
				}
			}
			return true
		})
	}
}

func (r *reader) where(n ast.Node) string {
	p := r.set.Position(n.Pos())
	return fmt.Sprintf("%s:%d", strings.TrimPrefix(filepath.ToSlash(p.Filename), repository+"/"), p.Line)
}

// call takes what is logged.
func (r *reader) call(c *ast.CallExpr) {
	f, ok := c.Fun.(*ast.SelectorExpr)
	if !ok || len(c.Args) == 0 {
		return
	}
	if slices.Contains(noLogger, spelled(f)) {
		return
	}
	text := 0
	to := r.out.alarms
	switch strings.TrimSuffix(f.Sel.Name, "Context") {
	case "Warn", "Error":
	case "Info":
		to = r.out.infos
	case "complain":
		text = 1
	case "Log", "LogAttrs":
		r.t.Errorf("%s: log with Warn, Error, Info or Debug, which this test can read", r.where(c))
		return
	default:
		return
	}
	if f.Sel.Name != strings.TrimSuffix(f.Sel.Name, "Context") {
		text++
	}
	r.add(to, c.Args[text])
}

// spelled writes a.b.c.
func spelled(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.SelectorExpr:
		return spelled(e.X) + "." + e.Sel.Name
	case *ast.Ident:
		return e.Name
	}
	return "?"
}

// wording takes the words of a fault.
func (r *reader) wording(l *ast.CompositeLit) {
	if l.Type == nil {
		return
	}
	kind := spelled(l.Type)
	if !strings.EqualFold(kind[strings.LastIndex(kind, ".")+1:], "wording") {
		return
	}
	for _, e := range l.Elts {
		kv, ok := e.(*ast.KeyValueExpr)
		if !ok {
			r.t.Errorf("%s: name the fields of a wording", r.where(l))
			return
		}
		r.field(kv.Key.(*ast.Ident).Name, kv.Value)
	}
}

func (r *reader) field(name string, value ast.Expr) {
	switch strings.ToLower(name) {
	case "what":
		r.add(r.out.alarms, value)
	case "over":
		r.add(r.out.overs, value)
	}
}

// assigned takes words that are put into a wording later on: into a variable
// named words.
func (r *reader) assigned(a *ast.AssignStmt) {
	for i, left := range a.Lhs {
		if f, ok := left.(*ast.SelectorExpr); ok && len(a.Rhs) == len(a.Lhs) && spelled(f.X) == "words" {
			r.field(f.Sel.Name, a.Rhs[i])
		}
	}
}

// add notes all that an expression can be.
func (r *reader) add(to said, e ast.Expr) {
	for _, text := range r.fold(e) {
		switch {
		case text != gap:
			to.add(text, r.where(e))
		case !slices.Contains(carriers, r.name):
			r.t.Errorf("%s: what is logged here can't be read from the source: say it as a string, or add %s to the carriers of this test", r.where(e), r.name)
		}
	}
}

// fold works out the strings that an expression can be; gaps stand for what
// is not known.
func (r *reader) fold(e ast.Expr) []string {
	switch e := e.(type) {
	case *ast.BasicLit:
		if text, err := strconv.Unquote(e.Value); err == nil {
			return []string{text}
		}
	case *ast.ParenExpr:
		return r.fold(e.X)
	case *ast.BinaryExpr:
		var all []string
		for _, x := range r.fold(e.X) {
			for _, y := range r.fold(e.Y) {
				all = append(all, x+y)
			}
		}
		return all
	case *ast.Ident:
		if all := r.values(e.Name); len(all) > 0 {
			return all
		}
	}
	return []string{gap}
}

// values lists what a variable of the function at hand is set to.
func (r *reader) values(name string) (all []string) {
	ast.Inspect(r.in, func(n ast.Node) bool {
		a, ok := n.(*ast.AssignStmt)
		if !ok || len(a.Lhs) != len(a.Rhs) {
			return true
		}
		for i, left := range a.Lhs {
			if id, ok := left.(*ast.Ident); ok && id.Name == name {
				all = append(all, r.fold(a.Rhs[i])...)
			}
		}
		return true
	})
	return all
}

// TestSourceAndTable holds that the program can log no warning, no error and
// no end of a fault that the table does not have, and that the table has none
// that the program can't log.
func TestSourceAndTable(t *testing.T) {
	src, d := readSource(t), readDocument(t)
	alarms, overs := map[string]bool{}, map[string]bool{}
	for _, r := range d.rows {
		if r.kind == logged {
			alarms[r.message] = true
			for _, o := range r.overs {
				overs[o] = true
			}
		}
	}
	normal := map[string]bool{}
	for _, line := range d.normal {
		normal[line] = true
	}
	// Not every end is told by the words of its fault.
	for o := range overs {
		if _, ok := src.overs[o]; ok {
			continue
		}
		if where, ok := src.infos[o]; ok {
			src.overs[o] = where
			delete(src.infos, o)
		}
	}
	compare(t, "warnings and errors", "the table", src.alarms, alarms)
	compare(t, "ends of faults", "the table", src.overs, overs)
	compare(t, "lines of level INFO", "the list of what is normal", src.infos, normal)
}

func compare(t *testing.T, what, place string, have said, want map[string]bool) {
	t.Helper()
	if len(have) < 10 {
		t.Errorf("only %d %s were found in the source", len(have), what)
	}
	for _, text := range slices.Sorted(maps.Keys(have)) {
		if !want[text] {
			t.Errorf("%s: %s has no %q; what does it mean for traffic, and what is to be done?", have[text], place, text)
		}
		delete(want, text)
	}
	for _, text := range slices.Sorted(maps.Keys(want)) {
		t.Errorf("%s has %q, which is not among the %s of the program", place, text, what)
	}
}

// TestCausesAreKnown holds that each cause that HAProxy's client can name is in
// the table, up to its first semicolon.
func TestCausesAreKnown(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(repository, "internal/haproxy/errors.go"))
	if err != nil {
		t.Fatal(err)
	}
	var have []string
	for _, m := range regexp.MustCompile(`(Err\w+)\s*= errors\.New\("(.+)"\)|say\("(.+?)"`).FindAllStringSubmatch(string(text), -1) {
		if slices.Contains(neverLogged, m[1]) {
			continue
		}
		cause, _, _ := strings.Cut(m[2]+m[3], ";")
		cause, _, _ = strings.Cut(cause, " (`stats maxconn`")
		have = append(have, cause)
	}
	var want []string
	for _, r := range readDocument(t).rows {
		if r.kind == cause && r.area == areaHAProxy {
			want = append(want, r.message)
		}
	}
	slices.Sort(have)
	slices.Sort(want)
	if diff := cmp.Diff(slices.Compact(have), want); diff != "" {
		t.Errorf("causes (-in internal/haproxy/errors.go +in %s):\n%s", document, diff)
	}
}

// neverLogged are the errors of HAProxy's client that no fault has as its cause.
var neverLogged = []string{
	"ErrNoServer",        // INFO: the servers are read again
	"ErrNoBackend",       // the fault "backend not found"
	"ErrStaticAlgorithm", // the fault "HAProxy refuses weights"
	"ErrTakenOut",        // INFO: the server is left alone
	"ErrWeight",          // no such weight is sent
	"ErrTooManySessions", // the lifetime is taken from counters then
}
