// Package previous has the last release's server, built from the repository's history.
package previous

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"

	"collab/test/cached"
)

// Release is the newest release that CHANGELOG.md names with its commit.
type Release struct {
	Version string
	Schema  int64
	Dir     string // the release's source, beside which the server is built
}

var release = sync.OnceValues(find)

// Get returns the release. The test is skipped if the repository does not have its commit.
func Get(t testing.TB) Release {
	t.Helper()
	r, err := release()
	switch {
	case err != nil:
		t.Fatal(err)
	case r.Dir == "":
		t.Skipf("this checkout does not have the commit of the release %s: fetch the whole history", r.Version)
	}
	return r
}

// Process returns a process of the release's server, to whose environment its configuration is to be
// added.
func (r Release) Process() (*exec.Cmd, error) {
	return exec.Command(filepath.Join(r.Dir, "collabd")), nil
}

var heading = regexp.MustCompile(`(?m)^## (\S+) \(schema (\d+), commit (\w+)\)$`)

func find() (r Release, err error) {
	module, err := exec.Command("go", "env", "GOMOD").Output()
	if err != nil {
		return r, fmt.Errorf("go env GOMOD: %w", err)
	}
	root := filepath.Dir(string(module))
	text, err := os.ReadFile(filepath.Join(root, "CHANGELOG.md"))
	if err != nil {
		return r, err
	}
	found := heading.FindStringSubmatch(string(text))
	if found == nil {
		return r, fmt.Errorf("CHANGELOG.md names no commit of a release")
	}
	r.Version = found[1]
	if r.Schema, err = strconv.ParseInt(found[2], 10, 64); err != nil {
		return r, err
	}
	commit := found[3]
	if exec.Command("git", "-C", root, "cat-file", "-e", commit+"^{commit}").Run() != nil {
		return r, nil
	}
	r.Dir, err = cached.Directory("release-"+commit+"-"+runtime.Version(), func(dir string) error {
		unpack := exec.Command("sh", "-c", `git -C "$1" archive "$2" | tar -x -C "$3"`, "sh", root, commit, dir)
		if out, err := unpack.CombinedOutput(); err != nil {
			return fmt.Errorf("git archive %s: %w\n%s", commit, err, out)
		}
		build := exec.Command("go", "build", "-o", "collabd", "./cmd/collabd")
		build.Dir, build.Env = dir, append(os.Environ(), "CGO_ENABLED=0", "PWD="+dir)
		if out, err := build.CombinedOutput(); err != nil {
			return fmt.Errorf("go build of %s: %w\n%s", commit, err, strings.TrimSpace(string(out)))
		}
		return nil
	})
	return r, err
}
