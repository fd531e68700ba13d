package lua

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/haproxy-weighter/haproxy-weighter/test/corpus"
)

// results are expressions for what a function may return, to begin with.
var results = []string{
	`nil`, `1`, `"s1"`, `{}`, `{s1 = 1, s2 = 2}`, `{s1 = 0/0, s2 = 1/0}`, `{s1 = -1, s2 = 1e308}`, `{s1 = 5e-324, s2 = 0}`,
	`{1, 2, s1 = 1, s2 = 1}`, `{[1.5] = 1}`, `{[true] = false, s1 = {}}`, `setmetatable({}, {__index = {s1 = 1, s2 = 1}})`,
	`{s1 = "1", s2 = print}`, `{["a b"] = 1}`, `{x = ("y"):rep(60000)}`, `{x = 2^63}`, `{x = -2^63}`, `servers`, `unpack({}, 1, 100)`,
	`{s1 = 1, s2 = 1}, 5, nil`, `(function() return {s1 = 1, s2 = 1} end)()`, `function() end`, `{s1 = 1 .. 2, s2 = #"x"}`,
	`("x"):gsub("(x)", "%1%1")`, `("a.b"):find(".", 1, true)`, `string.format("%5.1f", 1)`, `...`, `error({})`, `_G`, `{s1 = 1, s2 = 1, s1 = nil}`,
}

// FuzzResults has functions return whatever an expression gives.
func FuzzResults(f *testing.F) {
	corpus.Add(f)
	for _, r := range results {
		f.Add(r)
	}
	path := filepath.Join(f.TempDir(), "main.lua")
	f.Fuzz(func(t *testing.T, expression string) {
		text := "function weigh(servers, backend, ...)\nreturn " + expression + "\nend\nanswer = weigh\n"
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := Load(path, Options{Now: patient()})
		if err != nil {
			located(t, err, path)
			return
		}
		if s.Need("weigh") != nil {
			return
		}
		shares, _, err := s.NewWeigher().Weigh(twoServers, Backend{})
		if err != nil {
			located(t, err, path)
		} else if len(shares) != 2 || !(shares[0]+shares[1] > 0) || !(min(shares[0], shares[1]) >= 0) || math.IsInf(max(shares[0], shares[1]), 0) {
			t.Errorf("shares %v", shares)
		}
		set, _, err := s.NewAnswerer().Answer("m", []Arg{{"a", int64(1)}}, library)
		if err != nil {
			located(t, err, path)
			return
		}
		for _, v := range set {
			switch v.Value.(type) {
			case bool, int64, string:
			default:
				t.Errorf("%s is a %T", v.Name, v.Value)
			}
		}
	})
}

// located wants an error that names the file.
func located(t *testing.T, err error, path string) {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) || e.File != path || e.Text == "" || strings.Contains(e.Text, "engine failed") {
		t.Errorf("error %#v", err)
	}
}

// FuzzPatterns has any pattern find, replace and iterate in any text: it ends,
// with an error of its own if the pattern is a wrong one.
func FuzzPatterns(f *testing.F) {
	corpus.Add(f)
	for _, p := range []string{"", "a", "^a*$", "(a-)(b+)", "%b()", "%f[%w]%w+", "[^a-z%d]", "()(x)%1", "%", "[", "[]", "(", ")", ".-.-.-b", "[%", "%f", "[a-]", "[\xff-\x00]"} {
		f.Add("aab(x)b 12", p, "%0%1")
	}
	path := filepath.Join(f.TempDir(), "main.lua")
	text := `
		function answer(message, args)
			local s, p, r = args.s, args.p, args.r
			local from, to = s:find(p)
			if from and (from < 1 or to > #s or from > to + 1) then error("impossible: found at " .. from .. " to " .. to) end
			pcall(string.match, s, p)
			pcall(string.gsub, s, p, r)
			pcall(string.gsub, s, p, function(x) return x end)
			local n = 0
			for _ in s:gmatch(p) do n = n + 1 end
			if n > #s + 1 then error("impossible: " .. n .. " matches") end
		end`
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, subject, pattern, replacement string) {
		s, err := Load(path, Options{Now: patient()})
		if err != nil {
			t.Fatal(err)
		}
		_, _, err = s.NewAnswerer().Answer("m", []Arg{{"s", subject}, {"p", pattern}, {"r", replacement}}, nil)
		if err != nil && (strings.Contains(err.Error(), "impossible") || strings.Contains(err.Error(), "engine failed")) {
			t.Error(err)
		}
	})
}
