package inspect

import "syscall"

// networked has the file systems of other machines, by their magic numbers
// (statfs(2)).
var networked = map[uint32]string{
	0x6969: "NFS", 0x517B: "SMB", 0xFE534D42: "SMB", 0xFF534D42: "CIFS", 0x01021997: "9P", 0x00C36400: "Ceph", 0x5346414F: "AFS",
}

// disk returns how many bytes this process may use where a directory is, and the name of
// the file system if it is on another machine; ok is false where that is not
// known.
func disk(directory string) (free uint64, network string, ok bool) {
	var s syscall.Statfs_t
	if syscall.Statfs(directory, &s) != nil {
		return 0, "", false
	}
	return s.Bavail * uint64(s.Bsize), networked[uint32(s.Type)], true
}
