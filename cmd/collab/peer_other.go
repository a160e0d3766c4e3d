//go:build !linux

package main

// ofThisUser returns true: these systems do not list the users of connections.
func ofThisUser(_, _ string) bool { return true }
