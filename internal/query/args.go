package query

import (
	"strings"

	"github.com/negasus/haproxy-spoe-go/message"
)

// args are the arguments of a message.
type args struct {
	backend string // or the list of them
	server  string
	as      string // with an underscore at its end; empty without one
}

// maxPrefix keeps the names of variables within what HAProxy takes.
const maxPrefix = 64

// readArgs reads the arguments by their names. fault says what is wrong.
func readArgs(k kind, m *message.Message) (a args, fault string) {
	first := "backend"
	if k == kindChoose {
		first = "backends"
	}
	if a.backend, fault = stringArg(m, first); fault != "" {
		return a, fault
	}
	if k == kindServer {
		if a.server, fault = stringArg(m, "server"); fault != "" {
			return a, fault
		}
	}
	if k == kindChoose && strings.Trim(a.backend, ", \t") == "" {
		return a, "the arg backends names none; write backends=str(a,b)"
	}
	if _, there := m.KV.Get("as"); !there {
		return a, ""
	}
	as, fault := stringArg(m, "as")
	switch {
	case fault != "":
		return a, fault
	case as == "" || len(as) > maxPrefix || strings.ContainsFunc(as, notInName):
		return a, "the arg as can't begin a variable's name: it takes letters, digits, _ and ., at most 64"
	}
	a.as = as + "_"
	return a, ""
}

// notInName is HAProxy's rule for names of variables.
func notInName(r rune) bool {
	return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '.')
}

func stringArg(m *message.Message, name string) (value, fault string) {
	raw, there := m.KV.Get(name)
	if !there {
		return "", "the arg " + name + " is missing; write " + name + "=str(NAME)"
	}
	value, ok := raw.(string)
	if !ok {
		return "", "the arg " + name + " has no value, or one that is not a string; write " + name + "=str(NAME)"
	}
	return value, ""
}
