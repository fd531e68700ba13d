package config

import (
	"fmt"
	"strings"
)

// closest returns the candidate that word is most likely a slip of, or "".
func closest(word string, candidates []string) string {
	best, bestDistance := "", 1+min(3, max(1, len(word)/3))
	for _, c := range candidates {
		if strings.EqualFold(word, c) {
			return c
		}
		if d := distance(word, c); d < bestDistance {
			best, bestDistance = c, d
		}
	}
	return best
}

// didYouMean returns `did you mean "x"? `, or "" when nothing is close.
func didYouMean(word string, candidates []string) string {
	if c := closest(word, candidates); c != "" {
		return fmt.Sprintf("did you mean %q? ", c)
	}
	return ""
}

// distance counts the letters to insert, delete, replace or swap with their
// neighbour to turn a into b (the optimal string alignment distance).
func distance(a, b string) int {
	if max(len(a), len(b)) > 100 {
		return max(len(a), len(b)) // nobody's slip; keeps hostile files cheap
	}
	x, y := []rune(a), []rune(b)
	before, last, row := make([]int, len(y)+1), make([]int, len(y)+1), make([]int, len(y)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(x); i++ {
		row[0] = i
		for j := 1; j <= len(y); j++ {
			cost := 1
			if x[i-1] == y[j-1] {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && x[i-1] == y[j-2] && x[i-2] == y[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(y)]
}
