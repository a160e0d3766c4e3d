//go:build race

package httpapi

// slowed says that the race detector is on, under which every byte that is
// looked at takes ten times as long.
const slowed = true
