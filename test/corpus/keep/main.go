// Command keep puts what a fuzz test has found interesting, and Go has in its
// cache, into the corpus of the repository:
//
//	keep PACKAGE TARGET
//
// PACKAGE is an import path. It is run in the root of the module.
package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/haproxy-weighter/haproxy-weighter/test/corpus"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: keep PACKAGE TARGET")
		os.Exit(2)
	}
	if err := keep(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "keep:", err)
		os.Exit(1)
	}
}

func keep(importPath, target string) error {
	dir, err := ask("list", "-f", "{{.Dir}}", importPath)
	if err != nil {
		return err
	}
	cache, err := ask("env", "GOCACHE")
	if err != nil {
		return err
	}
	n, err := corpus.Keep(filepath.Join(dir, corpus.Dir, target), filepath.Join(cache, "fuzz", importPath, target))
	if err != nil {
		return err
	}
	fmt.Printf("%s: %d inputs are kept\n", target, n)
	return nil
}

// ask is the output of a go command.
func ask(args ...string) (string, error) {
	out, err := exec.Command("go", args...).Output()
	if err != nil {
		return "", fmt.Errorf("go %s: %w", strings.Join(args, " "), err)
	}
	return strings.TrimSpace(string(out)), nil
}
