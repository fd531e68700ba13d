package simulate

import (
	"encoding/xml"
	"errors"
	"io"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// wellFormed reads all of the picture as XML and returns its texts.
func wellFormed(t *testing.T, picture string) []string {
	t.Helper()
	var texts []string
	d := xml.NewDecoder(strings.NewReader(picture))
	inText := false
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return texts
		}
		if err != nil {
			t.Fatalf("not well-formed: %v\n%s", err, picture)
		}
		switch e := token.(type) {
		case xml.StartElement:
			inText = e.Name.Local == "text"
			for _, a := range e.Attr {
				if strings.Contains(a.Value, "NaN") || strings.Contains(a.Value, "Inf") {
					t.Fatalf("attribute %s=%q", a.Name.Local, a.Value)
				}
			}
		case xml.CharData:
			if inText {
				texts = append(texts, string(e))
			}
		case xml.EndElement:
			inText = false
		}
	}
}

func TestSVGIsWellFormed(t *testing.T) {
	picture := DrawSVG(`<"&> title`, []Panel{
		{Title: "a & b", XLabel: "x <h>", YLabel: "y", Lines: []Line{
			{Name: `p"1"<`, Colour: "#000", Width: 1, X: []float64{0, 1, 2}, Y: []float64{1.2, 1500, 1.1}},
			{Colour: "#000", Width: 1},
		}},
		{Title: "empty"},
		{Title: "up to 9 million", YTo: 9e6, Height: 200},
		{Title: "flat", Lines: []Line{{Name: "one", X: []float64{3}, Y: []float64{0}}}},
	})
	texts := wellFormed(t, picture)
	for _, want := range []string{`<"&> title`, "a & b", "x <h>", `p"1"<`, "1\u2009000", "500", "8\u2009000\u2009000"} {
		found := false
		for _, got := range texts {
			found = found || got == want
		}
		if !found {
			t.Errorf("no text %q in %q", want, texts)
		}
	}
}

func TestTicks(t *testing.T) {
	for _, test := range []struct {
		from, to float64
		n        int
		want     []string
	}{
		{1, 1.73, 6, []string{"1.0", "1.2", "1.4", "1.6"}},
		{0, 4, 8, []string{"0.0", "0.5", "1.0", "1.5", "2.0", "2.5", "3.0", "3.5", "4.0"}},
		{0, 78_000, 6, []string{"0", "20\u2009000", "40\u2009000", "60\u2009000"}},
		{0, 0.004, 4, []string{"0.000", "0.001", "0.002", "0.003", "0.004"}},
		{-1, 1, 4, []string{"-1.0", "-0.5", "0.0", "0.5", "1.0"}},
	} {
		all := ticks(test.from, test.to, test.n)
		var got []string
		for _, x := range all {
			got = append(got, tickLabel(x, all))
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("ticks(%v, %v, %d) (-want +got):\n%s", test.from, test.to, test.n, diff)
		}
	}
}

func TestTicksAreRoundAndInside(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		from := rapid.Float64Range(-1e6, 1e6).Draw(t, "from")
		width := math.Pow(10, rapid.Float64Range(-2, 6).Draw(t, "log width"))
		all := ticks(from, from+width, 6)
		if len(all) < 2 || len(all) > 14 {
			t.Fatalf("%d ticks", len(all))
		}
		step := all[1] - all[0]
		for i, x := range all {
			if x < from-1e-6*width || x > from+width*(1+1e-6) {
				t.Fatalf("tick %v outside of %v..%v", x, from, from+width)
			}
			if i > 0 && math.Abs(x-all[i-1]-step) > 1e-6*step {
				t.Fatalf("ticks %v are not evenly apart", all)
			}
		}
		lead := step / math.Pow(10, math.Floor(math.Log10(step*1.0001)))
		if len(all) > 2 && math.Abs(lead-1) > 0.01 && math.Abs(lead-2) > 0.02 && math.Abs(lead-5) > 0.05 {
			t.Fatalf("step %v is no round number", step)
		}
	})
}
