package memgraphite

import (
	"fmt"
	"strconv"
	"strings"
)

// badRequest is a mistake of the one who asked; it is answered with status 400.
type badRequest string

func (e badRequest) Error() string { return string(e) }

func errorf(format string, a ...any) error { return badRequest(fmt.Sprintf(format, a...)) }

// expression is a parsed target: a path pattern, a call, a number or a text.
type expression struct {
	kind   kind
	text   string // as written: the pattern, the name of the function, the text
	number float64
	args   []expression
	source string // the whole expression as written
}

type kind int

const (
	isPath kind = iota
	isCall
	isNumber
	isText
)

// parser walks over one target.
type parser struct {
	source string
	at     int
}

// parse reads a whole target.
func parse(target string) (expression, error) {
	p := parser{source: target}
	e, err := p.expression()
	if err != nil {
		return e, err
	}
	if p.space(); p.at < len(p.source) {
		return e, p.fault("unexpected %q", p.source[p.at:])
	}
	return e, nil
}

func (p *parser) fault(format string, a ...any) error {
	return errorf("target %q, character %d: %s", p.source, p.at+1, fmt.Sprintf(format, a...))
}

func (p *parser) space() {
	for p.at < len(p.source) && p.source[p.at] == ' ' {
		p.at++
	}
}

// peek returns the next byte, 0 at the end.
func (p *parser) peek() byte {
	if p.at < len(p.source) {
		return p.source[p.at]
	}
	return 0
}

func (p *parser) expression() (expression, error) {
	p.space()
	start := p.at
	if quote := p.peek(); quote == '"' || quote == '\'' {
		end := strings.IndexByte(p.source[start+1:], quote)
		if end < 0 {
			return expression{}, p.fault("text without a closing %c", quote)
		}
		p.at = start + end + 2
		return expression{kind: isText, text: p.source[start+1 : p.at-1], source: p.source[start:p.at]}, nil
	}
	word := p.word()
	if word == "" {
		return expression{}, p.fault("a path, a function, a number or a text is missing")
	}
	if p.peek() != '(' {
		if n, err := strconv.ParseFloat(word, 64); err == nil {
			return expression{kind: isNumber, number: n, source: word}, nil
		}
		return expression{kind: isPath, text: word, source: word}, nil
	}
	e := expression{kind: isCall, text: word}
	if err := p.arguments(&e); err != nil {
		return e, err
	}
	e.source = p.source[start:p.at]
	return e, nil
}

// word reads up to a bracket, a space, or a comma outside of braces.
func (p *parser) word() string {
	start, braces := p.at, 0
	for ; p.at < len(p.source); p.at++ {
		switch c := p.source[p.at]; {
		case c == '{':
			braces++
		case c == '}':
			braces--
		case strings.IndexByte("() \"'", c) >= 0, c == ',' && braces == 0:
			return p.source[start:p.at]
		}
	}
	return p.source[start:]
}

// arguments reads the bracketed list of a call.
func (p *parser) arguments(e *expression) error {
	p.at++ // the opening bracket
	for {
		arg, err := p.expression()
		if err != nil {
			return err
		}
		e.args = append(e.args, arg)
		p.space()
		switch p.peek() {
		case ',':
			p.at++
		case ')':
			p.at++
			return nil
		default:
			return p.fault("a comma or a closing bracket is missing")
		}
	}
}
