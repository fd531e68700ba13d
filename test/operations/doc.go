// Package operations holds docs/operations.md against the program: each message
// in its table is provoked on a real daemon beside a real HAProxy, or, where
// that can't be done, found in the source; each warning and error that the
// source can log is in the table; its metrics show what they are said to show,
// its alerts exist, and its commands run.
package operations
