//go:build race

package gormdb

// slowed says that the race detector is on, under which SQLite, being Go, takes
// minutes to load what the plans are about.
const slowed = true
