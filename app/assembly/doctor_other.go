//go:build !linux

package assembly

// disk says how many bytes are free for us where a folder lies, and the name of
// the file system if that is of another machine; ok is false where that cannot be
// told.
func disk(string) (free uint64, network string, ok bool) { return 0, "", false }

// maxFiles says how many files the process may have open.
func maxFiles() (n uint64, ok bool) { return 0, false }
