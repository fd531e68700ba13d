package config

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// serverPlace is what a target has where each server's name belongs.
const serverPlace = "{server}"

// serverName reads the way from the name of a series to the name of a server.
// The regexp is nil when the two are the same.
func (t *table) serverName(target string) (*regexp.Regexp, string) {
	const allowed = `a replacement such as "$1"`
	pattern, givenPattern := t.literal("server_regexp", "a regular expression of Go's kind (RE2)")
	name, givenName := t.literal("server_name", allowed)
	if !givenPattern {
		if t.given("server_name") && !t.given("server_regexp") {
			t.wrong("server_name", "needs backend.server_regexp beside it; allowed: both or neither")
		}
		return nil, ""
	}
	if strings.Contains(target, serverPlace) {
		t.wrong("server_regexp", "has no use, because backend.target has {server} in it and so tells the servers apart; allowed: one of the two")
		return nil, ""
	}
	re, err := regexp.Compile(pattern)
	if err != nil {
		t.wrong("server_regexp", "%v; allowed: a regular expression of Go's kind (RE2)", err)
		return nil, ""
	}
	if !givenName {
		if re.NumSubexp() == 0 {
			t.wrong("server_regexp", "%q marks no part as the server's name; allowed: ( ) around that part, or backend.server_name beside it", pattern)
		}
		return re, "$1"
	}
	t.checkReplacement("server_name", name, re)
	return re, name
}

// checkReplacement finds references to groups that the regexp does not have:
// Go puts nothing in their place, without a word.
func (t *table) checkReplacement(key, name string, re *regexp.Regexp) {
	groups := references(name)
	if len(groups) == 0 {
		t.wrong(key, `%q has no group in it, so that all series would be one server; allowed: a replacement such as "$1"`, name)
	}
	for _, g := range groups {
		n, err := strconv.Atoi(g)
		if err == nil && n <= re.NumSubexp() || slices.Contains(re.SubexpNames(), g) {
			continue
		}
		digits := g[:len(g)-len(strings.TrimLeft(g, "0123456789"))]
		if err != nil && digits != "" {
			t.wrong(key, "%q stands for a group named %q, which backend.server_regexp does not have; did you mean \"${%s}%s\"?", "$"+g, g, digits, g[len(digits):])
			continue
		}
		t.wrong(key, "%q stands for a group that backend.server_regexp does not have; allowed: $0 to $%d, or the name of a group", "$"+g, re.NumSubexp())
	}
}

var reference = regexp.MustCompile(`\$(?:\$|\{(\w+)\}|(\w+))`)

// references lists the groups that a replacement refers to, as
// regexp.Regexp.Expand reads it.
func references(replacement string) []string {
	var groups []string
	for _, m := range reference.FindAllStringSubmatch(replacement, -1) {
		if g := m[1] + m[2]; g != "" {
			groups = append(groups, g)
		}
	}
	return groups
}
