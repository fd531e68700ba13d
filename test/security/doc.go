// Package security tries the claims of docs/security.md: that nobody can do
// more than it says, over each of the interfaces. It has tests only.
package security
