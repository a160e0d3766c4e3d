//go:build !linux

package main

import "syscall"

// withParent keeps a process out of the terminal's reach; on this system it
// stays when the benchmark is killed.
func withParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
