package config

import (
	"fmt"
	"strings"
)

// lookup finds an environment variable, as os.LookupEnv does.
type lookup func(name string) (string, bool)

// expand replaces each ${NAME} by the environment variable NAME. "$${" is a
// plain "${"; every other "$" stays as it is. What is wrong comes back in
// words, one string a mistake.
func expand(s string, env lookup) (string, []string) {
	var b strings.Builder
	var wrong []string
	for {
		i := strings.Index(s, "${")
		if i < 0 {
			b.WriteString(s)
			return b.String(), wrong
		}
		if i > 0 && s[i-1] == '$' {
			b.WriteString(s[:i-1] + "${")
			s = s[i+2:]
			continue
		}
		b.WriteString(s[:i])
		name, rest, closed := strings.Cut(s[i+2:], "}")
		if !closed {
			return "", append(wrong, `"${" without "}"; allowed: ${NAME} for the environment variable NAME, $${ for a plain ${`)
		}
		value, set := "", false
		if isVariable(name) {
			value, set = env(name)
		}
		switch {
		case !isVariable(name):
			wrong = append(wrong, fmt.Sprintf("%q is not the name of an environment variable; allowed: ${NAME} of letters, digits and _, or $${ for a plain ${", "${"+name+"}"))
		case !set:
			wrong = append(wrong, fmt.Sprintf("the environment variable %s is not set; set it for this program, or write $${ for a plain ${", name))
		case value == "":
			wrong = append(wrong, fmt.Sprintf("the environment variable %s is empty; allowed: any other value", name))
		}
		b.WriteString(value)
		s = rest
	}
}

// filled lists what the environment puts into s.
func filled(s string, env lookup) []string {
	var all []string
	expand(s, func(name string) (string, bool) {
		value, set := env(name)
		if set {
			all = append(all, value)
		}
		return value, set
	})
	return all
}

func isVariable(name string) bool {
	for i := range len(name) {
		if c := name[i]; c == '-' || !isBareByte(c) || i == 0 && c >= '0' && c <= '9' {
			return false
		}
	}
	return name != ""
}
