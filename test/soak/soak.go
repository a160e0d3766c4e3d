// Package soak scales how much tests repeat: a tenth of it usually, all of it where
// the environment asks for a soak.
package soak

import "os"

// Env names the variable that asks for tests at full scale.
const Env = "COLLAB_SOAK"

// Full reports whether tests run at full scale.
func Full() bool { return os.Getenv(Env) != "" }

// Count returns n at full scale, and a tenth of it, at least 1, otherwise.
func Count(n int) int {
	if Full() {
		return n
	}
	return max(1, n/10)
}
