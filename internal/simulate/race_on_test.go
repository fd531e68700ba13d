//go:build race

package simulate

// underRace makes the closed-loop tests smaller: the race detector slows them tenfold.
const underRace = true
