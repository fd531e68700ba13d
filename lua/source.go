package lua

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"unicode/utf8"

	engine "github.com/yuin/gopher-lua"
	"github.com/yuin/gopher-lua/ast"
	"github.com/yuin/gopher-lua/parse"
)

// source is one compiled file.
type source struct {
	name  string // path as messages show it
	proto *engine.FunctionProto
}

// folder is where a script lives. Nothing outside of it is reached, by ".." or
// by a symbolic link.
type folder struct {
	root *os.Root
	path string
}

func openFolder(path string) (*folder, error) {
	root, err := os.OpenRoot(path)
	if err != nil {
		return nil, err
	}
	return &folder{root: root, path: path}, nil
}

// Close releases the folder.
func (f *folder) Close() { f.root.Close() }

// read compiles a file of the folder; shown is how messages name it.
func (f *folder) read(name, shown string) (*source, error) {
	fault := func(text string) error { return &Error{File: shown, Text: text} }
	info, err := f.root.Stat(name)
	switch {
	case err != nil:
		return nil, fault("can't read the script: " + reason(err))
	case info.IsDir():
		return nil, fault("is a folder; a script is a file")
	case !info.Mode().IsRegular(): // reading a pipe could last for ever
		return nil, fault("is not a regular file")
	}
	file, err := f.root.Open(name)
	if err != nil {
		return nil, fault("can't read the script: " + reason(err))
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxSource+1))
	if err != nil {
		return nil, fault("can't read the script: " + reason(err))
	}
	proto, err := compile(text, shown)
	if err != nil {
		return nil, err
	}
	return &source{name: shown, proto: proto}, nil
}

// reason is why a file can't be read, without its path.
func reason(err error) string {
	var path *fs.PathError
	if errors.As(err, &path) {
		return path.Err.Error()
	}
	return err.Error()
}

// moduleName is what require takes: names with dots between them for folders.
var moduleName = regexp.MustCompile(`^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*$`)

// module compiles the file of a module.
func (f *folder) module(name string) (*source, error) {
	if !moduleName.MatchString(name) {
		return nil, fmt.Errorf("require: %q can't be a module; a module is named by letters, digits, _ and -, with dots for folders, and lies in the script's own folder", clip(name, 100))
	}
	path := strings.ReplaceAll(name, ".", "/") + ".lua"
	return f.read(path, filepath.Join(f.path, filepath.FromSlash(path)))
}

const byteOrderMark = "\ufeff"

// compile turns a text into what the engine runs, with its dangerous
// operators replaced.
func compile(text []byte, name string) (proto *engine.FunctionProto, err error) {
	fault := func(line int, text string) error { return &Error{File: name, Line: line, Text: text} }
	defer func() { // the compiler has panics that are not its own error type
		if r := recover(); r != nil {
			proto, err = nil, fault(0, fmt.Sprintf("can't be compiled: %v", r))
		}
	}()
	if len(text) > maxSource {
		return nil, fault(0, fmt.Sprintf("is larger than %d KiB", maxSource>>10))
	}
	if !utf8.Valid(text) {
		return nil, fault(invalidLine(text), "is not UTF-8; save it as UTF-8")
	}
	if i := strings.IndexByte(string(text), 0); i >= 0 {
		return nil, fault(1+strings.Count(string(text[:i]), "\n"), "has a NUL byte in it; a script is a text")
	}
	plain := strings.TrimPrefix(string(text), byteOrderMark)
	chunk, err := parse.Parse(strings.NewReader(plain), name)
	if err != nil {
		return nil, syntaxFault(err, plain, fault)
	}
	r := rewriter{}
	if r.block(chunk, 0); r.deep > 0 {
		return nil, fault(r.deep, fmt.Sprintf("is nested more than %d deep", maxDepth))
	}
	proto, err = engine.Compile(chunk, name)
	var compiling *engine.CompileError
	if errors.As(err, &compiling) {
		return nil, fault(compiling.Line, compiling.Message)
	}
	if err == nil {
		sparing(proto)
	}
	return proto, err
}

// sparing has all tables begin with room for a few names. The engine gives them
// room for as many as the constructor has, be they nil, or for 32 with the first
// one, which are two KiB; and nobody could tell later whether a table has that.
func sparing(proto *engine.FunctionProto) {
	const opcode, shift, mask, few = 26, 9, 0x1ff, 8
	for i := 0; i < len(proto.Code); i++ {
		instruction := proto.Code[i]
		names := instruction >> shift & mask
		switch int(instruction >> opcode) {
		case engine.OP_NEWTABLE:
			proto.Code[i] = instruction&^(mask<<shift) | min(max(names, 1), few)<<shift
		case engine.OP_SETLIST:
			if names == 0 {
				i++ // the next word is a number
			}
		}
	}
	for _, inner := range proto.FunctionPrototypes {
		sparing(inner)
	}
}

// syntaxFault words what the parser says in its own form.
func syntaxFault(err error, text string, fault func(int, string) error) error {
	var syntax *parse.Error
	if !errors.As(err, &syntax) {
		return fault(0, strings.TrimSpace(err.Error()))
	}
	if syntax.Pos.Line < 0 {
		lines := strings.Count(strings.TrimRight(text, "\r\n"), "\n") + 1
		return fault(lines, "the script ends in the middle of something: "+syntax.Message)
	}
	return fault(syntax.Pos.Line, fmt.Sprintf("%s near %q", syntax.Message, clip(syntax.Token, 50)))
}

func invalidLine(text []byte) int {
	line := 1
	for len(text) > 0 {
		r, size := utf8.DecodeRune(text)
		if r == utf8.RuneError && size <= 1 {
			break
		}
		if r == '\n' {
			line++
		}
		text = text[size:]
	}
	return line
}

// concatName is the global that stands for the operator "..". A script can't
// write it as a name; one that takes it out of _G has no operator any more.
const concatName = "\x00.."

// rewriter replaces the operator "..", with which a script would double a
// string in one instruction as often as it likes, by calls of a function that
// has a limit. And it refuses nesting that the recursive compiler could not
// bear: a Go stack that overflows ends the process.
type rewriter struct {
	deep int // line of a nesting that is too deep; 0: none
}

func (r *rewriter) block(list []ast.Stmt, depth int) {
	for _, s := range list {
		r.statement(s, depth+1)
	}
}

func (r *rewriter) tooDeep(at ast.PositionHolder, depth int) bool {
	if depth > maxDepth && r.deep == 0 {
		r.deep = max(at.Line(), 1)
	}
	return r.deep > 0
}

func (r *rewriter) statement(s ast.Stmt, depth int) {
	if r.tooDeep(s, depth) {
		return
	}
	switch s := s.(type) {
	case *ast.AssignStmt:
		r.list(s.Lhs, depth)
		r.list(s.Rhs, depth)
	case *ast.LocalAssignStmt:
		r.list(s.Exprs, depth)
	case *ast.FuncCallStmt:
		s.Expr = r.expression(s.Expr, depth)
	case *ast.DoBlockStmt:
		r.block(s.Stmts, depth)
	case *ast.WhileStmt:
		s.Condition = r.expression(s.Condition, depth)
		r.block(s.Stmts, depth)
	case *ast.RepeatStmt:
		s.Condition = r.expression(s.Condition, depth)
		r.block(s.Stmts, depth)
	case *ast.IfStmt:
		s.Condition = r.expression(s.Condition, depth)
		r.block(s.Then, depth)
		r.block(s.Else, depth)
	case *ast.NumberForStmt:
		s.Init, s.Limit, s.Step = r.expression(s.Init, depth), r.expression(s.Limit, depth), r.expression(s.Step, depth)
		r.block(s.Stmts, depth)
	case *ast.GenericForStmt:
		r.list(s.Exprs, depth)
		r.block(s.Stmts, depth)
	case *ast.FuncDefStmt:
		s.Name.Func, s.Name.Receiver = r.expression(s.Name.Func, depth), r.expression(s.Name.Receiver, depth)
		r.expression(s.Func, depth)
	case *ast.ReturnStmt:
		r.list(s.Exprs, depth)
	}
}

func (r *rewriter) list(list []ast.Expr, depth int) {
	for i := range list {
		list[i] = r.expression(list[i], depth)
	}
}

// expression returns what stands in the place of e.
func (r *rewriter) expression(e ast.Expr, depth int) ast.Expr {
	if e == nil || r.tooDeep(e, depth) {
		return e
	}
	depth++
	switch e := e.(type) {
	case *ast.StringConcatOpExpr:
		return r.concat(e, depth)
	case *ast.AttrGetExpr:
		e.Object, e.Key = r.expression(e.Object, depth), r.expression(e.Key, depth)
	case *ast.TableExpr:
		for _, f := range e.Fields {
			f.Key, f.Value = r.expression(f.Key, depth), r.expression(f.Value, depth)
		}
	case *ast.FuncCallExpr:
		e.Func, e.Receiver = r.expression(e.Func, depth), r.expression(e.Receiver, depth)
		r.list(e.Args, depth)
	case *ast.LogicalOpExpr:
		e.Lhs, e.Rhs = r.expression(e.Lhs, depth), r.expression(e.Rhs, depth)
	case *ast.RelationalOpExpr:
		e.Lhs, e.Rhs = r.expression(e.Lhs, depth), r.expression(e.Rhs, depth)
	case *ast.ArithmeticOpExpr:
		e.Lhs, e.Rhs = r.expression(e.Lhs, depth), r.expression(e.Rhs, depth)
	case *ast.UnaryMinusOpExpr:
		e.Expr = r.expression(e.Expr, depth)
	case *ast.UnaryNotOpExpr:
		e.Expr = r.expression(e.Expr, depth)
	case *ast.UnaryLenOpExpr:
		e.Expr = r.expression(e.Expr, depth)
	case *ast.FunctionExpr:
		r.block(e.Stmts, depth)
	}
	return e
}

// maxOperands keeps a call within the registers of a function.
const maxOperands = 50

// concat makes one call of a .. b .. c, which the parser nests to the right.
func (r *rewriter) concat(e *ast.StringConcatOpExpr, depth int) ast.Expr {
	var operands []ast.Expr
	last := ast.Expr(e)
	for len(operands) < maxOperands {
		next, more := last.(*ast.StringConcatOpExpr)
		if !more {
			break
		}
		operands = append(operands, r.expression(next.Lhs, depth))
		last = next.Rhs
	}
	last = r.expression(last, depth)
	switch last := last.(type) { // an operand is one value
	case *ast.FuncCallExpr:
		last.AdjustRet = true
	case *ast.Comma3Expr:
		last.AdjustRet = true
	}
	name := &ast.IdentExpr{Value: concatName}
	call := &ast.FuncCallExpr{Func: name, Args: append(operands, last)}
	for _, node := range []ast.PositionHolder{name, call} {
		node.SetLine(e.Line())
		node.SetLastLine(max(e.LastLine(), e.Line()))
	}
	return call
}
