//go:build !windows

package main

import "os"

// takesSequences reports that terminals interpret sequences.
func takesSequences(*os.File) bool { return true }
