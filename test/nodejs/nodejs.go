// Package nodejs runs programs under Node for tests, with packages from npm.
package nodejs

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"collab/test/cached"
	"collab/test/debian"
	"collab/test/must"
)

// patience bounds what one command may take.
const patience = 8 * time.Minute

// programs returns the paths of node and npm, having installed them where they are
// missing and that is possible.
var programs = sync.OnceValues(func() (paths map[string]string, err error) {
	find := func() error {
		paths = map[string]string{}
		for _, name := range []string{"node", "npm"} {
			path, err := exec.LookPath(name)
			if err != nil {
				return err
			}
			paths[name] = path
		}
		return nil
	}
	if err := debian.Install(context.Background(), func() bool { return find() == nil }, "nodejs", "npm"); err != nil {
		return nil, fmt.Errorf("%w; or set COLLAB_SKIP_NODE to go without them", err)
	}
	return paths, nil
})

// Directory is a directory with a program and the packages that its lock file names.
type Directory struct {
	Dir string

	test  testing.TB
	paths map[string]string
}

// Install is InstallFrom for files of the test's own directory.
func Install(t testing.TB, undone string, files ...string) *Directory {
	t.Helper()
	return InstallFrom(t, undone, os.DirFS("."), files...)
}

// InstallFrom copies files into a temporary directory and links the packages there that
// package-lock.json, which is one of them, names. It installs the packages where the
// user's cache directory does not have them. Where COLLAB_SKIP_NODE is set it skips the
// test, saying what is not done then.
func InstallFrom(t testing.TB, undone string, from fs.FS, files ...string) *Directory {
	t.Helper()
	if os.Getenv("COLLAB_SKIP_NODE") != "" {
		t.Skip("COLLAB_SKIP_NODE is set: " + undone)
	}
	paths := must.Do(programs()).Or(t)
	f := &Directory{Dir: t.TempDir(), test: t, paths: paths}
	files = append([]string{"package.json", "package-lock.json"}, files...)
	installed := sha256.New()
	for i, name := range files {
		content := must.Do(fs.ReadFile(from, name)).Or(t)
		f.Write(name, content)
		if i < 2 {
			installed.Write(content)
		}
	}
	kept := must.Do(cached.Directory("npm-"+hex.EncodeToString(installed.Sum(nil)[:8]), func(dir string) error {
		if err := os.CopyFS(dir, os.DirFS(f.Dir)); err != nil {
			return err
		}
		packages := &Directory{Dir: dir, test: t, paths: paths}
		_, err := packages.Try(nil, "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund")
		return err
	})).Or(t)
	must.NoError(t, os.Symlink(filepath.Join(kept, "node_modules"), filepath.Join(f.Dir, "node_modules")))
	return f
}

// Node returns a command that runs a program of the directory under Node.
func (f *Directory) Node(args ...string) *exec.Cmd {
	command := exec.Command(f.paths["node"], args...)
	command.Dir = f.Dir
	return command
}

// Write writes a file into the directory.
func (f *Directory) Write(name string, content []byte) {
	f.test.Helper()
	must.NoError(f.test, os.WriteFile(filepath.Join(f.Dir, name), content, 0o600))
}

// Try runs node or npm in the directory and returns what it has written.
func (f *Directory) Try(input []byte, name string, args ...string) (output []byte, err error) {
	ctx, over := context.WithTimeout(f.test.Context(), patience)
	defer over()
	command := exec.CommandContext(ctx, f.paths[name], args...)
	command.Dir, command.Stdin = f.Dir, bytes.NewReader(input)
	var problems bytes.Buffer
	command.Stderr = &problems
	if output, err = command.Output(); err != nil {
		return output, fmt.Errorf("%s %s: %w\n%s%s", name, strings.Join(args, " "), err, output, problems.Bytes())
	}
	return output, nil
}

// Run is Try for what is to succeed.
func (f *Directory) Run(input []byte, name string, args ...string) []byte {
	f.test.Helper()
	return must.Do(f.Try(input, name, args...)).Or(f.test)
}
