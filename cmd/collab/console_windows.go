package main

import (
	"os"

	"golang.org/x/sys/windows"
)

// takesSequences has a console interpret the sequences of terminals, and reports whether it does.
func takesSequences(console *os.File) bool {
	var mode uint32
	if err := windows.GetConsoleMode(windows.Handle(console.Fd()), &mode); err != nil {
		return false
	}
	return windows.SetConsoleMode(windows.Handle(console.Fd()), mode|windows.ENABLE_VIRTUAL_TERMINAL_PROCESSING) == nil
}
