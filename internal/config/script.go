package config

import (
	"strings"

	"github.com/haproxy-weighter/haproxy-weighter/internal/script"
	"github.com/haproxy-weighter/haproxy-weighter/lua"
	"github.com/haproxy-weighter/haproxy-weighter/weighting"
)

// script reads a key that names a Lua script, and loads the script; nil
// without one, and after a mistake.
func (t *table) script(key string) *lua.Script {
	name := t.fileName(key)
	if name.path == "" {
		return nil
	}
	t.cautionWritable(joinPath(t.path, key), joinPath(t.name, key), name)
	s, err := lua.Load(name.path, lua.Options{})
	if err != nil {
		t.wrongScript(key, name, err)
		return nil
	}
	return s
}

func (t *table) wrongScript(key string, name fileName, err error) {
	t.wrong(key, "%s", strings.ReplaceAll(err.Error(), name.path, name.shown))
}

// weighScript reads the script of a backend and has it weigh.
func (t *table) weighScript(key string, b *Backend) {
	t.usedBy(key, b.Weighting.Function, weighting.Lua)
	s := t.script(key)
	switch {
	case b.Weighting.Function != weighting.Lua:
	case !t.given(key):
		t.wrong("function", `"lua" needs %s, the path of a script with a function weigh`, joinPath(t.name, key))
	case s != nil:
		if err := script.Weighing(&b.Weighting, s, b.Name); err != nil {
			t.wrongScript(key, t.fileName(key), err)
		}
	}
}

// answerScript reads the script of the agent.
func (t *table) answerScript(key string) *lua.Script {
	s := t.script(key)
	if s == nil {
		return nil
	}
	if err := s.Need("answer"); err != nil {
		t.wrongScript(key, t.fileName(key), err)
	}
	return s
}
