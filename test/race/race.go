// Package race tells tests whether the race detector watches them.
package race

import "testing"

// Skip skips a test under the race detector, which has nothing to find in it for the
// reason that is given, or too much to do.
func Skip(t testing.TB, reason string) {
	t.Helper()
	if Enabled {
		t.Skip("with the race detector: " + reason)
	}
}
