package main

import "slices"

func main() {}

// rows are the whole matrix.
func rows() ([]row, error) {
	large, err := largeRows()
	return slices.Concat(graphiteRows(), haproxyRows(), carbonRows(), spoeRows(), stateRows(), daemonRows(), large), err
}
