package lua

import (
	"os/exec"
	"testing"
)

// TestLibraryIsThatOfLua runs one file of assertions here and in Lua 5.1.
func TestLibraryIsThatOfLua(t *testing.T) {
	const file = "testdata/library.lua"
	if _, err := Load(file, Options{Now: patient()}); err != nil {
		t.Errorf("in the weighter: %v", err)
	}
	if out, err := exec.Command("lua5.1", file).CombinedOutput(); err != nil {
		t.Errorf("in Lua: %v: %s", err, out)
	}
}
