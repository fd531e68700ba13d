// Package logbook keeps what a program under test prints.
package logbook

import (
	"bytes"
	"strings"
	"sync"
)

// Book is written by the program and read by the test, at the same time. The
// zero value is an empty one.
type Book struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

// Write implements io.Writer; its error is always nil.
func (b *Book) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

// String returns all that was written.
func (b *Book) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// Count tells how often text occurs.
func (b *Book) Count(text string) int { return strings.Count(b.String(), text) }
