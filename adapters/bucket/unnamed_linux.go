package bucket

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// isOrdered reports whether the directory is on a file system with unnamed files where the sync
// of a file makes the links durable that were made to it before: ext4, with or without a journal
// but not with fast commits, and XFS; a tmpfs keeps nothing. Other file systems may ignore the sync
// of a file without a name, or sync no links.
func isOrdered(dir string) bool {
	var s unix.Stat_t
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil || unix.Stat(dir, &s) != nil {
		return false
	}
	device := fmt.Sprintf("%d:%d", unix.Major(s.Dev), unix.Minor(s.Dev))
	for line := range strings.Lines(string(mounts)) {
		mount, source, _ := strings.Cut(line, " - ")
		if fields := strings.Fields(mount); len(fields) < 3 || fields[2] != device {
			continue
		}
		switch kind, _, _ := strings.Cut(source, " "); kind {
		case "ext4":
			return !hasFastCommits(dir, device)
		case "xfs", "tmpfs":
			return true
		}
		return false
	}
	return false
}

// hasFastCommits reports whether ext4 on the device may have fast commits. The kernel tells only
// how many there were, so it syncs a file before it looks.
func hasFastCommits(dir, device string) bool {
	if _, err := os.Stat("/sys/fs/ext4/features/fast_commit"); errors.Is(err, fs.ErrNotExist) {
		return false
	}
	file, err := createUnnamed(dir)
	if err != nil {
		return true
	}
	_, err = file.Write([]byte{0})
	if errors.Join(err, file.Sync(), file.Close()) != nil {
		return true
	}
	block, err := os.Readlink("/sys/dev/block/" + device)
	if err != nil {
		return true
	}
	counts, err := os.ReadFile("/proc/fs/ext4/" + filepath.Base(block) + "/fc_info")
	return err != nil || !strings.Contains(string(counts), "\n0 commits\n0 ineligible\n")
}

// createUnnamed creates a file without a name on the file system of the directory.
func createUnnamed(directory string) (*os.File, error) {
	return os.OpenFile(directory, unix.O_TMPFILE|os.O_WRONLY, 0o600)
}

// linkUnnamed links the file to path. It uses /proc, which needs no privileges.
func linkUnnamed(file *os.File, path string) error {
	open := fmt.Sprintf("/proc/self/fd/%d", file.Fd())
	if err := unix.Linkat(unix.AT_FDCWD, open, unix.AT_FDCWD, path, unix.AT_SYMLINK_FOLLOW); err != nil {
		return &os.LinkError{Op: "linkat", Old: open, New: path, Err: err}
	}
	return nil
}
