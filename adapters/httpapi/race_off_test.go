//go:build !race

package httpapi

// slowed: see race_on_test.go.
const slowed = false
