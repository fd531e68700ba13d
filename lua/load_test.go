package lua

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

const good = "function weigh() end\n"

func TestLoadTells(t *testing.T) {
	for name, c := range map[string]struct {
		files map[string]string
		want  string // after the folder's path
	}{
		"syntax":                 {map[string]string{"main.lua": "x = 1\nfunction weigh(\n"}, "main.lua:2: the script ends in the middle of something: syntax error"},
		"syntax in a line":       {map[string]string{"main.lua": "x = 1\ny = = 2\n"}, `main.lua:2: syntax error near "="`},
		"unfinished string":      {map[string]string{"main.lua": "x = 1\ny = \"abc\n"}, "main.lua:3: unterminated string"},
		"latin-1":                {map[string]string{"main.lua": "x = 1\n\n-- Gr\xfc\xdfe\n"}, "main.lua:3: is not UTF-8; save it as UTF-8"},
		"NUL":                    {map[string]string{"main.lua": "x = 1\n\x00"}, "main.lua:2: has a NUL byte in it; a script is a text"},
		"too large":              {map[string]string{"main.lua": strings.Repeat("-- x\n", 40_000)}, "main.lua: is larger than 128 KiB"},
		"nested too deep":        {map[string]string{"main.lua": "\nx = " + strings.Repeat("-", 1) + strings.Repeat("{", 2000) + strings.Repeat("}", 2000)}, "main.lua:2: is nested more than 500 deep"},
		"parentheses":            {map[string]string{"main.lua": "x = " + strings.Repeat("(", 60_000) + "1" + strings.Repeat(")", 60_000)}, "main.lua: it"},
		"nested operators":       {map[string]string{"main.lua": "x = 1" + strings.Repeat(" + 1", 20_000)}, "main.lua:1: is nested more than 500 deep"},
		"nested nots":            {map[string]string{"main.lua": "x = " + strings.Repeat("not ", 20_000) + "1"}, "main.lua:1: is nested more than 500 deep"},
		"nested functions":       {map[string]string{"main.lua": strings.Repeat("function f() ", 3000) + strings.Repeat("end ", 3000)}, "main.lua:1: is nested more than 500 deep"},
		"nested blocks":          {map[string]string{"main.lua": strings.Repeat("do ", 9000) + strings.Repeat("end ", 9000)}, "main.lua:1: is nested more than 500 deep"},
		"long elseif":            {map[string]string{"main.lua": "if x then " + strings.Repeat("elseif x then ", 3000) + "end"}, "main.lua:1: is nested more than 500 deep"},
		"nested calls":           {map[string]string{"main.lua": "f" + strings.Repeat("()", 20_000)}, "main.lua:1: is nested more than 500 deep"},
		"nested comparisons":     {map[string]string{"main.lua": "x = 1" + strings.Repeat(" < 1", 20_000)}, "main.lua:1: is nested more than 500 deep"},
		"nested and":             {map[string]string{"main.lua": "x = 1" + strings.Repeat(" and 1", 20_000)}, "main.lua:1: is nested more than 500 deep"},
		"nested fields":          {map[string]string{"main.lua": "x = a" + strings.Repeat(".b", 40_000)}, "main.lua:1: is nested more than 500 deep"},
		"concatenations":         {map[string]string{"main.lua": "x = 1" + strings.Repeat(" .. 1", 24_000)}, "main.lua: register overflow"},
		"too many variables":     {map[string]string{"main.lua": strings.Repeat("local a = 1\n", 300)}, "main.lua"},
		"break outside":          {map[string]string{"main.lua": "x = 1\nbreak\n"}, "main.lua:2: no loop to break"},
		"goto nowhere":           {map[string]string{"main.lua": "goto x\n"}, "main.lua:"},
		"error at load":          {map[string]string{"main.lua": "\nerror('no')\n"}, "main.lua:2: no"},
		"endless at load":        {map[string]string{"main.lua": "\nwhile true do end\n"}, "main.lua:2: it ran longer than 100ms"},
		"memory at load":         {map[string]string{"main.lua": "t = {}\nwhile true do t = {t} end\n"}, "main.lua:2: it "},
		"no weigh":               {map[string]string{"main.lua": "x = 1\n"}, "main.lua: it defines no function weigh"},
		"answer only":            {map[string]string{"main.lua": "function answer() end\n"}, "main.lua: it defines no function weigh, though it has answer"},
		"weigh is a number":      {map[string]string{"main.lua": "weigh = 1\n"}, "main.lua: it defines no function weigh"},
		"local weigh":            {map[string]string{"main.lua": "local function weigh() end\n"}, "main.lua: it defines no function weigh"},
		"module missing":         {map[string]string{"main.lua": "\nrequire('m')\n"}, "main.lua:2: FOLDER/m.lua: can't read the script: no such file or directory"},
		"module with a mistake":  {map[string]string{"main.lua": "require('m')\n", "m.lua": "\n\n=\n"}, `main.lua:1: FOLDER/m.lua:3: syntax error near "="`},
		"module that fails":      {map[string]string{"main.lua": "\nrequire('m')\n", "m.lua": "\n\nerror('no')\n"}, "m.lua:3: no"},
		"module that is endless": {map[string]string{"main.lua": "\nrequire('m')\n", "m.lua": "while true do end\n"}, "m.lua:1: it ran longer than 100ms"},
		"module in a circle":     {map[string]string{"main.lua": "require('a')", "a.lua": "require('b')", "b.lua": "\nrequire('a')"}, "b.lua:2: module a requires itself, by way of others or not"},
		"module above":           {map[string]string{"main.lua": "require('../x')"}, `main.lua:1: require: "../x" can't be a module`},
		"module by a path":       {map[string]string{"main.lua": "require('/etc/passwd')"}, `main.lua:1: require: "/etc/passwd" can't be a module`},
		"module with dots":       {map[string]string{"main.lua": "require('..x')"}, `main.lua:1: require: "..x" can't be a module`},
		"module is a folder":     {map[string]string{"main.lua": "require('m')", "m.lua/x": ""}, "main.lua:1: FOLDER/m.lua: is a folder; a script is a file"},
		"many modules": {func() map[string]string {
			files := map[string]string{"main.lua": "for i = 1, 40 do require('m' .. i) end"}
			for i := range 40 {
				files["m"+string(rune('0'+(i+1)/10))+string(rune('0'+(i+1)%10))+".lua"] = ""
			}
			files["main.lua"] = "for i = 1, 40 do require(string.format('m%02d', i)) end"
			return files
		}(), "main.lua:1: require: a script has at most 32 modules"},
	} {
		t.Run(name, func(t *testing.T) {
			path := write(t, c.files)
			s, err := Load(path, Options{})
			if err == nil {
				err = s.Need("weigh")
			}
			if err == nil {
				t.Fatal("it is loaded")
			}
			folder := filepath.Dir(path)
			if want := folder + "/" + strings.ReplaceAll(c.want, "FOLDER", folder); !strings.HasPrefix(err.Error(), want) {
				t.Errorf("error %q, want it to begin with %q", err, want)
			}
		})
	}
}

func TestLoadTellsOfWhatIsNoFile(t *testing.T) {
	folder := t.TempDir()
	pipe := filepath.Join(folder, "pipe.lua")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		folder:                               "is a folder; a script is a file",
		pipe:                                 "is not a regular file",
		filepath.Join(folder, "none.lua"):    "can't read the script: no such file or directory",
		filepath.Join(folder, "no", "x.lua"): "can't read the script: no such file or directory",
	} {
		if _, err := Load(path, Options{}); err == nil || err.Error() != path+": "+want {
			t.Errorf("%s: error %v, want %s", path, err, want)
		}
	}
}

// TestScriptMayBeALink: then its modules are where it leads.
func TestScriptMayBeALink(t *testing.T) {
	link := filepath.Join(t.TempDir(), "link.lua")
	if err := os.Symlink(write(t, map[string]string{"main.lua": "require('m')\n" + good, "m.lua": ""}), link); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(link, Options{}); err != nil {
		t.Error(err)
	}
}

func TestModulesStayInTheFolder(t *testing.T) {
	path := write(t, map[string]string{"main.lua": "require('m')"})
	secret := write(t, map[string]string{"main.lua": "return 1"})
	if err := os.Symlink(secret, filepath.Join(filepath.Dir(path), "m.lua")); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(path, Options{}); err == nil || !strings.Contains(err.Error(), "path escapes from parent") {
		t.Errorf("error %v", err)
	}
	if err := os.Symlink(filepath.Dir(secret), filepath.Join(filepath.Dir(path), "away")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("require('away.main')"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(path, Options{}); err == nil || !strings.Contains(err.Error(), "path escapes from parent") {
		t.Errorf("through a folder: error %v", err)
	}
}

func TestModules(t *testing.T) {
	path := write(t, map[string]string{
		"main.lua": `
			local m, again, deep, nothing = require("m"), require("m"), require("lib.deep"), require("nothing")
			assert(m == again and m.x == 1 and m.name == "m" and deep == "deep" and nothing == true)
			function weigh() return {s1 = m.x, s2 = 2} end`,
		"m.lua":        `local name = ... return {x = 1, name = name}`,
		"lib/deep.lua": `return "deep"`,
		"nothing.lua":  ``,
	})
	s, err := Load(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	// What is loaded later has the modules as they were.
	if err := os.RemoveAll(filepath.Dir(path)); err != nil {
		t.Fatal(err)
	}
	shares, _, err := s.NewWeigher().Weigh(twoServers, Backend{})
	if err != nil || shares[0] != 1 || shares[1] != 2 {
		t.Errorf("shares %v, error %v", shares, err)
	}
}

func TestSourceBeginsWithAByteOrderMark(t *testing.T) {
	load(t, byteOrderMark+good)
}

func TestErrorsNameTheirLine(t *testing.T) {
	for body, want := range map[string]string{
		"\n\nerror('x')":    ":4: x",
		"\n\nerror('x', 0)": ":4: x",
		"\n\nerror({})":     ":4: the error is a table instead of a text",
		"local function f()\nerror('x', 2)\nend\nf()":                       ":5: x",
		"local t = {}\n\nt.x.y = 1":                                         ":4: ",
		"\nlocal x = 1 ..\n{}":                                              ":3: attempt to concatenate a table value",
		"\ntable.sort({3, 2, 1}, function(a, b)\nreturn a < nil\nend)":      ":4: attempt to compare number with nil",
		"\nstring.rep()":                                                    ":3: bad argument #1 to rep (string expected, got nil)",
		"\nlocal ok, m = pcall(error, 'x')\nerror(m)":                       ":4: x",
		"\nassert(false, 'x')":                                              ":3: x",
		"\nassert(nil)":                                                     ":3: assertion failed!",
		"error(setmetatable({}, {__tostring = function() return 'x' end}))": ":2: the error is a table instead of a text",
		"error('" + strings.Repeat("x", 2000) + "')":                        ":2: xxx",
		"\nlocal f = function() return nil + 1 end\nreturn f()":             ":3: cannot perform add operation between nil and number",
	} {
		s := load(t, "function weigh(servers)\n"+body+"\nend")
		_, _, err := s.NewWeigher().Weigh(twoServers, Backend{})
		if err == nil || !strings.HasPrefix(err.Error(), s.Name()+want) || len(err.Error()) > 1000 {
			t.Errorf("%q: error %v, want %s", body, err, want)
		}
	}
}
