package config

import (
	"fmt"
	"strings"
	"testing"
)

// TestEnvironmentStaysUnsaid puts a secret, by way of the environment, where
// every key of the reference has its value. Whatever is wrong with it there,
// no message may say it: a password that was put where the path of its file
// belongs must not end up in a log.
func TestEnvironmentStaysUnsaid(t *testing.T) {
	const value = "hunter2\x1b;:@/ x"
	env := func(string) (string, bool) { return value, true }
	root := &table{reader: &reader{flawed: map[string]bool{}, env: env}}
	readFile(root.newTable("", "", map[string]any{"backend": []any{map[string]any{"maps": map[string]any{}}}}))
	forms := []string{
		`"${S}"`, `"/${S}"`, `"-${S}"`, `["${S}"]`, `["${S}", "${S}"]`, `["tcp:${S}", "tcp:x:${S}", "unix:${S}"]`,
		`{ x = "${S}", "${S}" = 1 }`, `{ load = "${S}", weight = "${S}" }`,
	}
	cases := 0
	for _, table := range root.tables {
		for _, key := range table.known {
			for _, form := range forms {
				header := fmt.Sprintf("[%s]\n", table.name)
				if table.name == "backend" {
					header = "[[backend]]\n"
				}
				if table.name == "" {
					header = ""
				}
				_, err := Parse("weighter.toml", []byte(header+key+" = "+form+"\n"), env)
				if err == nil {
					t.Fatalf("%s%s = %s was accepted", header, key, form)
				}
				cases++
				if strings.Contains(err.Error(), "hunter2") {
					t.Errorf("%s.%s = %s:\n%v", table.name, key, form, err)
				}
			}
		}
	}
	if cases < 300 {
		t.Errorf("only %d cases: the list of keys is not what it was", cases)
	}
}

// TestTwiceTheSameFromTheEnvironment: a name that is there twice is quoted as written.
func TestTwiceTheSameFromTheEnvironment(t *testing.T) {
	env := func(string) (string, bool) { return "hunter2", true }
	text := strings.Replace(Minimal, `name   = "ingest"`, `name = "${S}"`, 1)
	_, err := Parse("weighter.toml", []byte(text+"\n[[backend]]\nname = \"${S}\"\ntarget = \"x\"\nmaps = { load = \"/${S}\", weight = \"/${S}\" }\n"), env)
	if err == nil || strings.Contains(err.Error(), "hunter2") || strings.Count(err.Error(), "${S}") != 2 {
		t.Errorf("%v", err)
	}
}
