//go:build race

package main

// raced tells that the tests have the race detector; the daemon gets it too.
const raced = true
