//go:build !linux

package doctor

// disk says how many bytes are free for us where a folder lies, and the name of
// the file system if that is of another machine; ok is false where that cannot be
// told.
func disk(string) (free uint64, network string, ok bool) { return 0, "", false }
