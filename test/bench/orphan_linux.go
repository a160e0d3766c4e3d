package main

import "syscall"

// withParent makes a process end when the one that started it does.
func withParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
