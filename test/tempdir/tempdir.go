// Package tempdir makes directories for what tests write and nobody needs after them.
// They are in memory where the system has room for it, as databases that wait for
// a disk make tests several times slower. Tests that are about the disk use
// testing.T.TempDir.
package tempdir

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"collab/test/must"
)

// prefix begins the name of each directory. The process that made it follows.
const prefix = "collab-test-"

// Make makes a directory that the caller removes.
func Make() (string, error) {
	pid := os.Getpid()
	return os.MkdirTemp(parent(), fmt.Sprintf("%s%d-%s-", prefix, pid, started(pid)))
}

// New returns a directory that is removed at the end of the test.
func New(t testing.TB) string {
	t.Helper()
	dir := must.Do(Make()).Or(t)
	t.Cleanup(func() {
		must.Succeed(t, os.RemoveAll(dir))
	})
	return dir
}

// remove removes the directories in parent whose process has ended. Those of other users stay.
func remove(parent string) {
	dirs, _ := filepath.Glob(filepath.Join(parent, prefix+"*-*-*"))
	for _, dir := range dirs {
		var pid int
		var start string
		name := strings.ReplaceAll(strings.TrimPrefix(filepath.Base(dir), prefix), "-", " ")
		if _, err := fmt.Sscan(name, &pid, &start); err == nil && started(pid) != start {
			_ = os.RemoveAll(dir)
		}
	}
}

// started returns when a process was started, in ticks since the machine's start, which tells it
// from a later process of the same number; "0" if there is no such process, or no /proc.
func started(pid int) string {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "0"
	}
	// The name of the program, in parentheses, may contain spaces.
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	return fields[19]
}
