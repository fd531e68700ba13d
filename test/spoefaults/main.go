// Command spoefaults measures what each fault of the SPOE agent costs a new
// connection, in every version of HAProxy that there is to test with, and prints
// a table in Markdown. The configuration is the shipped example tcp-pick with its
// timeouts as they are.
//
//	go run ./test/spoefaults                      print it
//	go run ./test/spoefaults -write docs/spoe.md  put it into the document, between the two marks
package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/haproxy-weighter/haproxy-weighter/test/haproxyproc"
	"github.com/haproxy-weighter/haproxy-weighter/test/spoe"
)

// The marks in the document around what is replaced.
const (
	beginMark = "<!-- make spoe-faults writes from here -->\n"
	endMark   = "<!-- to here -->\n"
)

func main() {
	n := flag.Int("n", 60, "connections for each cell")
	write := flag.String("write", "", "put the table into this `FILE`")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *n, *write); err != nil {
		fmt.Fprintln(os.Stderr, "spoefaults:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, n int, write string) error {
	if n < 1 {
		return fmt.Errorf("-n is %d; at least one connection is needed", n)
	}
	binaries, err := haproxyproc.Binaries()
	if err != nil {
		return err
	}
	missing, err := haproxyproc.Missing()
	if err != nil {
		return err
	}
	if len(missing) > 0 {
		fmt.Fprintf(os.Stderr, "spoefaults: without the HAProxy of Debian's %s: test/deps/haproxy-versions gets them\n", strings.Join(missing, ", "))
	}
	text, err := table(ctx, binaries, n)
	if err != nil {
		return err
	}
	fmt.Print(text)
	if write == "" {
		return nil
	}
	return replace(write, text)
}

// table measures all there is, a version after the other.
func table(ctx context.Context, binaries []haproxyproc.Binary, n int) (string, error) {
	faults := spoe.Faults()
	head, rule := "| what happens |", "|---|"
	none := "| no SPOE filter: a connection takes |"
	rows := make([]string, len(faults))
	for i, f := range faults {
		rows[i] = "| " + f.Words + " |"
	}
	for _, b := range binaries {
		head += " " + b.Version + " |"
		rule += "---|"
		outcomes, err := spoe.Baseline(ctx, b, n)
		if err != nil {
			return "", err
		}
		base := spoe.Summarise(outcomes)
		none += fmt.Sprintf(" %s (%s) |", ms(base.Median), ms(base.P90))
		for i, f := range faults {
			fmt.Fprintf(os.Stderr, "HAProxy %s: %s\n", b.Version, f.Words)
			outcomes, err := f.Measure(ctx, b, n, true)
			if err != nil {
				return "", err
			}
			rows[i] += " " + words(spoe.Summarise(outcomes), base) + " |"
		}
	}
	return strings.Join(append([]string{head, rule, none}, rows...), "\n") + "\n", nil
}

// words is one cell: what is added to a median connection, what to nine of ten at
// most, and the errors.
func words(s, base spoe.Summary) string {
	cell := fmt.Sprintf("+%s (+%s)", ms(s.Median-base.Median), ms(s.P90-base.Median))
	for _, e := range slices.SortedFunc(maps.Keys(s.Errors), byNumber) {
		cell += "; " + e
		if s.Errors[e] < s.Connections {
			cell += fmt.Sprintf(" in %d of %d", s.Errors[e], s.Connections)
		}
	}
	if s.Lost > 0 {
		cell += fmt.Sprintf("; **%d LOST**", s.Lost)
	}
	return cell
}

// byNumber sorts 2 before 257.
func byNumber(a, b string) int { return cmp.Or(len(a)-len(b), strings.Compare(a, b)) }

// ms is a duration in milliseconds; what is less than nothing is noise.
func ms(d time.Duration) string {
	return fmt.Sprintf("%.1f", float64(max(0, d).Microseconds())/1000)
}

// replace puts text between the marks of a file.
func replace(file, text string) error {
	old, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	before, rest, begun := strings.Cut(string(old), beginMark)
	_, after, ended := strings.Cut(rest, endMark)
	if !begun || !ended {
		return fmt.Errorf("%s has not the lines %q and %q", file, strings.TrimSpace(beginMark), strings.TrimSpace(endMark))
	}
	return os.WriteFile(file, []byte(before+beginMark+text+endMark+after), 0o644)
}
