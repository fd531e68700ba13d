package memgraphite

import (
	"fmt"
	"math"
	"strings"
)

// window is the time that a request is about: the seconds of (from, until].
type window struct{ from, until int64 }

// function computes one call. The series of every argument that is a path or
// a call come in lists; the other arguments as they are.
type function func(call expression, lists []list, rest []expression) ([]list, error)

// functions returns every function that is known.
func functions() map[string]function {
	return map[string]function{
		"alias":         alias,
		"aliasByNode":   aliasByNode,
		"averageSeries": combine(func(sum float64, n int) float64 { return sum / float64(n) }),
		"integral":      integral,
		"scale":         scale,
		"sum":           combine(func(sum float64, _ int) float64 { return sum }),
		"sumSeries":     combine(func(sum float64, _ int) float64 { return sum }),
	}
}

// evaluate computes a target.
func (s *Store) evaluate(e expression, w window) ([]list, error) {
	switch e.kind {
	case isPath:
		return s.fetch(e.text, w.from, w.until)
	case isCall:
	default:
		return nil, errorf("%s is not a target", e.source)
	}
	f, ok := functions()[e.text]
	if !ok {
		return nil, errorf("this in-memory Graphite does not know the function %q", e.text)
	}
	var lists []list
	var rest []expression
	series := false
	for _, arg := range e.args {
		if arg.kind != isPath && arg.kind != isCall {
			rest = append(rest, arg)
			continue
		}
		more, err := s.evaluate(arg, w)
		if err != nil {
			return nil, err
		}
		lists, series = append(lists, more...), true
	}
	if !series {
		return nil, errorf("%s: %s needs series", e.source, e.text)
	}
	return f(e, lists, rest)
}

// alias renames all series.
func alias(call expression, lists []list, rest []expression) ([]list, error) {
	if len(rest) != 1 || rest[0].kind != isText {
		return nil, errorf("%s: alias needs a name in quotes", call.source)
	}
	for i := range lists {
		lists[i].name = rest[0].text
	}
	return lists, nil
}

// aliasByNode renames each series to the given nodes of the path in its name;
// a node that is not there counts as nothing, as in graphite-web.
func aliasByNode(call expression, lists []list, rest []expression) ([]list, error) {
	if len(rest) == 0 {
		return nil, errorf("%s: aliasByNode needs the numbers of nodes", call.source)
	}
	for i := range lists {
		nodes := strings.Split(pathIn(lists[i].name), ".")
		var parts []string
		for _, arg := range rest {
			if arg.kind != isNumber || arg.number != math.Trunc(arg.number) {
				return nil, errorf("%s: node %s is not a whole number", call.source, arg.source)
			}
			n := int(arg.number)
			if n < 0 {
				n += len(nodes)
			}
			if n >= 0 && n < len(nodes) {
				parts = append(parts, nodes[n])
			}
		}
		lists[i].name = strings.Join(parts, ".")
	}
	return lists, nil
}

// pathIn finds the path in a name like "integral(a.b.c)" or "scale(a.b,2)".
func pathIn(name string) string {
	name = name[strings.LastIndexByte(name, '(')+1:]
	if end := strings.IndexAny(name, ",)"); end >= 0 {
		name = name[:end]
	}
	return name
}

// combine makes a function that turns all series into one. Nulls are left
// out; where all are null the result is null.
func combine(finish func(sum float64, n int) float64) function {
	return func(call expression, lists []list, _ []expression) ([]list, error) {
		if len(lists) == 0 {
			return nil, nil
		}
		out := list{start: lists[0].start, values: make([]float64, len(lists[0].values))}
		var arguments []string
		for _, arg := range call.args {
			arguments = append(arguments, arg.source)
		}
		out.name = strings.TrimSuffix(call.text, "Series") + "Series(" + strings.Join(arguments, ",") + ")"
		for at := range out.values {
			sum, n := 0.0, 0
			for _, l := range lists {
				if v := l.values[at]; !math.IsNaN(v) {
					sum += v
					n++
				}
			}
			out.values[at] = math.NaN()
			if n > 0 {
				out.values[at] = finish(sum, n)
			}
		}
		return []list{out}, nil
	}
}

// integral replaces each value by the sum since the start of the window; a
// null stays null and adds nothing.
func integral(_ expression, lists []list, _ []expression) ([]list, error) {
	for i := range lists {
		sum := 0.0
		for at, v := range lists[i].values {
			if !math.IsNaN(v) {
				sum += v
				lists[i].values[at] = sum
			}
		}
		lists[i].name = "integral(" + lists[i].name + ")"
	}
	return lists, nil
}

// scale multiplies each value.
func scale(call expression, lists []list, rest []expression) ([]list, error) {
	if len(rest) != 1 || rest[0].kind != isNumber {
		return nil, errorf("%s: scale needs a factor", call.source)
	}
	factor := rest[0].number
	for i := range lists {
		for at := range lists[i].values {
			lists[i].values[at] *= factor
		}
		lists[i].name = "scale(" + lists[i].name + "," + fmt.Sprintf("%g", factor) + ")"
	}
	return lists, nil
}
