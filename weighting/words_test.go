package weighting

import "testing"

// TestShort has numbers in words: three digits, and never an exponent.
func TestShort(t *testing.T) {
	for v, want := range map[float64]string{
		0: "0", 0.004: "0", 3.97979: "3.98", 5: "5", 34.1571: "34.2", 99.96: "100", 190.909: "191", 86400.4: "86400", 12345678: "12345678",
	} {
		var w words
		if got := w.short(v).end(); got != want {
			t.Errorf("short(%v): %q, want %q", v, got, want)
		}
	}
}
