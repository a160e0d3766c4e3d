// Package soak scales how much tests repeat: a tenth of it usually, all of it where
// the environment asks for a soak. It also seeds the tests that draw what they try.
package soak

import (
	"os"
	"strconv"
	"testing"
	"time"
)

// env names the variable that asks for tests at full scale.
const env = "COLLAB_SOAK"

// EnvSeed names the variable with the seed of an earlier run.
const EnvSeed = "COLLAB_SEED"

// envSeeds names the variable with how many seeds a simulation has in a soak.
const envSeeds = "COLLAB_SEEDS"

// Seeds returns how many seeds a simulation has in a soak: the number of the environment, or else all.
func Seeds(t testing.TB, all uint64) uint64 {
	t.Helper()
	return number(t, envSeeds, all)
}

// Full reports whether tests run at full scale.
func Full() bool { return os.Getenv(env) != "" }

// Count returns n at full scale, and a tenth of it, at least 1, otherwise.
func Count(n int) int {
	if Full() {
		return n
	}
	return max(1, n/10)
}

// Seed returns the seed of an earlier run where the environment has one, and a new one otherwise.
func Seed(t testing.TB) uint64 {
	t.Helper()
	return number(t, EnvSeed, uint64(time.Now().UnixNano()))
}

// number returns the number of an environment variable, or otherwise if that is empty.
func number(t testing.TB, name string, otherwise uint64) uint64 {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}
