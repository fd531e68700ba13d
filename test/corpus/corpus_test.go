package corpus

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestKeep(t *testing.T) {
	dir := t.TempDir()
	file, cache := filepath.Join(dir, "kept", "FuzzX"), filepath.Join(dir, "cache")
	if n, err := Keep(file, cache); n != 0 || err != nil {
		t.Errorf("nothing was found: %d, %v", n, err)
	}
	if err := os.Mkdir(cache, 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(cache, "1"), header+"string(\"bb\")\nbool(true)\n")
	write(t, filepath.Join(cache, "2"), header+"string(\"\\xff\\n\")\nbool(false)\n")
	write(t, filepath.Join(cache, "3"), header+"string(\""+strings.Repeat("x", mostBytes)+"\")\nbool(true)\n")
	for range 2 { // the second time there is nothing new
		if n, err := Keep(file, cache); n != 2 || err != nil {
			t.Fatalf("%d inputs, %v", n, err)
		}
	}
	inputs, err := read(file)
	if err != nil {
		t.Fatal(err)
	}
	var got [][]any
	for _, input := range inputs {
		values, err := decode(input)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, values)
	}
	if diff := cmp.Diff([][]any{{"bb", true}, {"\xff\n", false}}, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	write(t, filepath.Join(cache, "4"), "no input\n")
	if _, err := Keep(file, cache); err == nil {
		t.Error("a file that is no input was taken")
	}
}

func TestDecode(t *testing.T) {
	got, err := decode("[]byte(\"a\\x00(\")\nuint16(65535)\nuint64(18446744073709551615)\nint64(-75)\nbyte('\\x02')\nbyte('K')\nbyte('\\'')\n")
	if diff := cmp.Diff([]any{[]byte("a\x00("), uint16(65535), uint64(math.MaxUint64), int64(-75), byte(2), byte('K'), byte('\'')}, got); diff != "" || err != nil {
		t.Errorf("%v, -want +got:\n%s", err, diff)
	}
	for _, wrong := range []string{"string(1", "\"a\"", "string(\"a\", \"b\")", "float64(1)", "uint16(65536)", "byte('ü'+1)", "byte('\u0100')", "bool(maybe)", "string(f())"} {
		if got, err := decode(wrong + "\n"); err == nil {
			t.Errorf("%s is taken as %v", wrong, got)
		}
	}
}
