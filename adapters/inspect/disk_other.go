//go:build !linux

package inspect

// disk returns how many bytes this process may use where a directory is, and the name of
// the file system if it is on another machine; ok is false where that is not
// known.
func disk(string) (free uint64, network string, ok bool) { return 0, "", false }
