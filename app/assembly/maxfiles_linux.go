package assembly

import "syscall"

// maxFiles returns how many files the process may have open.
func maxFiles() (n uint64, ok bool) {
	var l syscall.Rlimit
	err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l)
	return l.Cur, err == nil
}
