package docs

import (
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// measured are the sections that tell what was measured, and the words in them that name
// what measures it: commands, targets of make, tests.
func measured() map[string][]string {
	return map[string][]string{
		"README.md: How it compares":                                    {"`make convergence`", "CONVERGENCE_FLAGS='--seeds 10"},
		"docs/tuning.md: Which function":                                {"`haproxy-weighter simulate`", "`haproxy-weighter simulate --lifetime 5m`"},
		"docs/tuning.md: roundrobin or random(1)":                       {"`simulate --balancers 16`", "`simulate --haproxy 3.2`"},
		"docs/tuning.md: Interval, window, aggregate":                   {"`simulate --interval 2m`", "`simulate --step 60s --lag 50s`"},
		"docs/tuning.md: When only moving connections can help":         {"`simulate --model b`"},
		"docs/tuning.md: Limits":                                        {"`simulate --max-share 29 --min-weight 1`"},
		"docs/tuning.md: Where it is worst":                             {"`simulate --grid --seeds 1`"},
		"docs/spoe.md: When the agent fails":                            {"`make spoe-faults`"},
		"docs/lua.md: What it costs":                                    {"`go test -v -run TestRequestsBesideManyServers ./test/luahaproxy`"},
		"docs/reliability.md: What can go wrong, and what happens then": {"`make faults`"},
		"docs/reliability.md: The matrix":                               {"make faults"},
		"docs/reliability.md: The walk":                                 {"make faults"},
		"docs/reliability.md: The soak":                                 {"make soak"},
		"docs/security.md: A Graphite that lies":                        {"`test/security.TestDocumentedBounds`"},
		"docs/install.md: The socket unit":                              {"`go test -v -run TestRestartRefusesNothing ./test/packaging`"},
	}
}

// figure is a measured number: with a fraction, or of time or size; in words that say so.
var (
	fraction = regexp.MustCompile(`(^|[\s*+(])\d+\.\d+`)
	saysSo   = regexp.MustCompile(`\bMeasured\b|was\s+measured|in a row under`)
)

// TestFiguresNameTheirCommand holds that each section with measured figures says what
// prints them. A section has such figures when a table in it has four or more cells that
// are fractions, or when its words say so.
func TestFiguresNameTheirCommand(t *testing.T) {
	found, known := fields{}, fields{}
	for _, d := range documents(t) {
		for _, s := range d.sections {
			n := 0
			for _, cells := range rows(s.text) {
				for _, c := range cells[1:] {
					if fraction.MatchString(c) {
						n++
					}
				}
			}
			key := d.name + ": " + s.heading
			commands, ok := measured()[key]
			if n >= 4 || saysSo.MatchString(span.ReplaceAllString(s.text, "")) || ok {
				found[key] = true
			}
			for _, c := range commands {
				known[key] = true
				if !strings.Contains(strings.Join(strings.Fields(s.text), " "), c) {
					t.Errorf("%s: the figures do not name %s", key, c)
				}
			}
		}
	}
	if diff := cmp.Diff(known, found); diff != "" {
		t.Errorf("sections with figures (-in this test +in the documents):\n%s", diff)
	}
}
