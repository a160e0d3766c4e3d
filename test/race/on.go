//go:build race

package race

// Enabled reports whether the race detector watches the tests, and the servers that
// they start.
const Enabled = true
