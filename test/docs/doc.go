// Package docs holds the documents against the program, as far as the tests of
// single documents do not: each fenced block of each document is tried by some
// test; what the documents name (commands, flags, keys, fields of JSON, metrics,
// alerts, messages, targets of make) exists, and the other way round; links lead
// somewhere; figures say which command prints them.
package docs
