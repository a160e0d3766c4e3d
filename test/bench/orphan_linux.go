package main

import "syscall"

// withParent returns attributes of a process that is killed when its parent ends.
func withParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
