package api

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// mostNames is how many names NearNames lists.
const mostNames = 10

// NearNames is the hint for a name that is not there: which ones there are, all
// when they are few, and those that are most like the one that was given. kind
// is the plural of what they name.
func NearNames(given string, names []string, kind string) string {
	near := slices.Clone(names)
	far := make(map[string]int, len(names))
	for _, name := range names {
		far[name] = distance(strings.ToLower(given), strings.ToLower(name))
	}
	slices.SortStableFunc(near, func(a, b string) int { return cmp.Compare(far[a], far[b]) })
	switch list := strings.Join(names, ", "); {
	case len(names) == 0:
		return "there are no " + kind
	case len(names) > mostNames:
		return fmt.Sprintf("did you mean one of %s? There are %d %s", strings.Join(near[:5], ", "), len(names), kind)
	case far[near[0]] <= len(given)/3: // a slip of the pen
		return fmt.Sprintf("did you mean %s? There are the %s %s", near[0], kind, list)
	default:
		return "there are the " + kind + " " + list
	}
}

// distance counts the letters to insert, delete or replace that turn a into b.
func distance(a, b string) int {
	if max(len(a), len(b)) > 100 {
		return max(len(a), len(b)) // nobody's slip; keeps hostile names cheap
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		left := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			left, row[j+1] = row[j+1], min(row[j+1]+1, row[j]+1, left+cost)
		}
	}
	return row[len(b)]
}
