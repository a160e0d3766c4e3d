//go:build !linux

package main

// ofThisUser returns true: these systems do not tell whose a connection is.
func ofThisUser(_, _ string) bool { return true }
