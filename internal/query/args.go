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
	first, form := "backend", plainForm
	if k == kindChoose {
		first, form = "backends", listForm
	}
	if a.backend, fault = stringArg(m, first, form); fault != "" {
		return a, fault
	}
	if k == kindServer {
		if a.server, fault = stringArg(m, "server", plainForm); fault != "" {
			return a, fault
		}
	}
	if k == kindChoose && strings.Trim(a.backend, ", \t") == "" {
		return a, "the arg backends names none; write backends=" + listForm
	}
	if _, there := m.KV.Get("as"); !there {
		return a, ""
	}
	as, fault := stringArg(m, "as", plainForm)
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

// How arguments are written in a SPOE file. A comma would end str's own
// argument, hence the quotes, which HAProxy 2.6 to 3.4 all want like this.
const (
	plainForm = "str(NAME)"
	listForm  = `'str("NAME,NAME")'`
)

func stringArg(m *message.Message, name, form string) (value, fault string) {
	raw, there := m.KV.Get(name)
	if !there {
		return "", "the arg " + name + " is missing; write " + name + "=" + form
	}
	value, ok := raw.(string)
	if !ok {
		return "", "the arg " + name + " has no value, or one that is not a string; write " + name + "=" + form
	}
	return value, ""
}
