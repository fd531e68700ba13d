package main

import "slices"

func main() {}

func rows() []row { return slices.Concat(graphiteRows(), haproxyRows()) }
