//go:build race

package script

const race = true
