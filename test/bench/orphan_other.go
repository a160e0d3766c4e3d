//go:build !linux

package main

import "syscall"

// withParent returns attributes of a process in a group of its own. On this system it survives its parent.
func withParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
