//go:build !race

package gormdb

// slowed: see race_on_test.go.
const slowed = false
