package admin

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// mostNames is how many names a refusal lists.
const mostNames = 10

// nearNames says which names there are: all when they are few, else those that
// are most like the one that was given. kind is the plural of what they name.
func nearNames(given string, names []string, kind string) string {
	if len(names) <= mostNames {
		return "there are the " + kind + " " + strings.Join(names, ", ")
	}
	near := slices.Clone(names)
	far := make(map[string]int, len(names))
	for _, name := range names {
		far[name] = distance(strings.ToLower(given), strings.ToLower(name))
	}
	slices.SortStableFunc(near, func(a, b string) int { return cmp.Compare(far[a], far[b]) })
	return fmt.Sprintf("did you mean one of %s? There are %d %s", strings.Join(near[:5], ", "), len(names), kind)
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
