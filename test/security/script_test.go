package security

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/haproxy-weighter/haproxy-weighter/lua"
)

// TestScriptsReachNothing: what a script tries beyond its sums gives nil, an
// error, or an effect on itself alone.
func TestScriptsReachNothing(t *testing.T) {
	for name, body := range map[string]string{
		"metatable of texts":            `local m = getmetatable("") if m then m.__index.rep = error end out("" .. tostring(m))`,
		"library of texts by a method":  `string.rep = function() return "taken over" end out(("x"):rep(2))`,
		"metatable of the globals":      `setmetatable(_G, {__index = function() return "made up" end}) out(tostring(nothing))`,
		"environment by a name":         `out(tostring(_ENV) .. tostring(getfenv and pcall(getfenv, 0)))`,
		"the operator by its name":      `out(tostring(rawget(_G, "\0..") == nil))`,
		"error object with __tostring":  `local e = setmetatable({}, {__tostring = function() return os.getenv("HOME") end}) out(tostring(select(2, pcall(error, e))))`,
		"libraries that are not there":  `for _, l in ipairs({"os", "io", "debug", "package", "coroutine"}) do local ok = pcall(function() return _G[l].x end) if ok then out(l) end end`,
		"metatable of such a library":   `out(tostring(getmetatable(os) and getmetatable(os).__index and pcall(getmetatable(os).__index, os, "execute")))`,
		"raw reading of such a library": `for k, v in pairs(os) do out(tostring(k)) end for k, v in next, io do out(tostring(k)) end`,
		"view that is written to":       `out(tostring(pcall(function() for k, s in pairs(tables or {}) do s.weight = 1 end end)))`,
		"view by rawset":                `out(tostring(pcall(rawset, servers[1], "weight", 1)))`,
		"metatable of a server":         `out(tostring(getmetatable(servers[1])) .. tostring(getmetatable(servers)))`,
		"a fallback for calls":          `out(tostring(pcall(setmetatable(_G, {__call = print}))))`,
		"closing what is not open":      `out(tostring(pcall(function() return io.stdout:close() end)))`,
		"a userdata from nothing":       `out(tostring(pcall(newproxy)))`,
	} {
		t.Run(name, func(t *testing.T) {
			said, err := weigh(t, `local said = {} function out(x) print(x) end function weigh(servers, backend) `+body+` local s = {} for i = 1, #servers do s[servers[i].name] = 1 end return s end`)
			if err != nil {
				t.Logf("it ends: %v", err)
			}
			for _, line := range said {
				for _, escape := range []string{"/root", "/home", "root:"} {
					if strings.Contains(line, escape) {
						t.Errorf("it got %q", line)
					}
				}
			}
			// Another script of the process is as it always was.
			if _, err := weigh(t, `function weigh(servers) assert(("x"):rep(3) == "xxx" and nothing == nil and "a" .. 1 == "a1") return {s1 = 1, s2 = 2} end`); err != nil {
				t.Errorf("the next script: %v", err)
			}
		})
	}
}

func weigh(t *testing.T, text string) (printed []string, err error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "weigh.lua")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := lua.Load(path, lua.Options{})
	if err != nil {
		return nil, err
	}
	_, printed, err = s.NewWeigher().Weigh([]lua.Server{
		{Name: "s1", Load: 1, Capacity: 1, Weight: 100, State: "ready"}, {Name: "s2", Load: 2, Capacity: 1, Weight: 100, State: "ready"},
	}, lua.Backend{Name: "ingest"})
	return printed, err
}

// TestModulesComeFromTheFolderOnly: neither a path nor a link leads out of it.
func TestModulesComeFromTheFolderOnly(t *testing.T) {
	outside, folder := t.TempDir(), t.TempDir()
	const secret = `return "from outside"`
	if err := errors.Join(
		os.WriteFile(filepath.Join(outside, "m.lua"), []byte(secret), 0o600),
		os.Symlink(filepath.Join(outside, "m.lua"), filepath.Join(folder, "link.lua")),
		os.Symlink(outside, filepath.Join(folder, "linked")),
		os.WriteFile(filepath.Join(folder, "text.lua"), []byte("root:x:0:0"), 0o600),
	); err != nil {
		t.Fatal(err)
	}
	script := filepath.Join(folder, "weigh.lua")
	for _, name := range []string{
		"link", "linked.m", "../m", "..", "/etc/passwd", outside + "/m", "m\\0", "link\\0.lua", ".", "", "linked/../m", "m;x", "?", "text", "weigh",
	} {
		text := `m = require("` + name + `") function weigh() return {} end`
		if err := os.WriteFile(script, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := lua.Load(script, lua.Options{})
		if err == nil || s != nil {
			t.Errorf("require(%q) has found something", name)
		} else if strings.Contains(err.Error(), "from outside") {
			t.Errorf("require(%q) tells what is in the file: %v", name, err)
		}
	}
}
