package tempdir

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"collab/test/must"
)

func TestDirectoriesOfEndedProcessesAreRemoved(t *testing.T) {
	ended := exec.Command("true")
	must.NoError(t, ended.Run())
	parent, pid := t.TempDir(), os.Getpid()
	kept := map[string]bool{
		fmt.Sprintf("%s%d-%s-1", prefix, pid, started(pid)):         true,
		fmt.Sprintf("%s%d-%s1-1", prefix, pid, started(pid)):        false, // an earlier process of the same number
		fmt.Sprintf("%s%d-123-1", prefix, ended.ProcessState.Pid()): false,
		prefix + "a-b-c": true,
		"other":          true,
	}
	for name := range kept {
		must.NoError(t, os.MkdirAll(filepath.Join(parent, name, "data"), 0o700))
	}
	remove(parent)
	for name, want := range kept {
		if _, err := os.Stat(filepath.Join(parent, name)); (err == nil) != want {
			t.Errorf("%s: kept %t, want %t", name, err == nil, want)
		}
	}
}
