// Package updater has stock updaters read the feeds of a real collabd:
// electron-updater under Node.
package updater

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// patience bounds what one command may take.
const patience = 3 * time.Minute

// node returns the paths of node and npm, having installed them where they are
// missing and that is possible.
var node = sync.OnceValues(func() (paths [2]string, err error) {
	find := func() (err error) {
		for i, name := range []string{"node", "npm"} {
			if paths[i], err = exec.LookPath(name); err != nil {
				return err
			}
		}
		return nil
	}
	if find() == nil {
		return paths, nil
	}
	if _, err := exec.LookPath("apt-get"); err != nil || os.Geteuid() != 0 {
		return paths, fmt.Errorf("the tests of updaters need Node: install the packages nodejs and npm, or set COLLAB_SKIP_NODE to go without these tests")
	}
	fmt.Fprintln(os.Stderr, "Node is missing: installing the packages nodejs and npm")
	for _, arguments := range [][]string{{"update", "-q"}, {"install", "-q", "-y", "--no-install-recommends", "nodejs", "npm"}} {
		command := exec.Command("apt-get", arguments...)
		command.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
		command.Stdout, command.Stderr = os.Stderr, os.Stderr
		if err := command.Run(); err != nil {
			return paths, fmt.Errorf("apt-get %s: %w", strings.Join(arguments, " "), err)
		}
	}
	return paths, find()
})

// updaters are electron-updater, installed, and the script that runs it.
type updaters struct {
	*testing.T
	node string
	dir  string
}

func install(t *testing.T) updaters {
	t.Helper()
	if os.Getenv("COLLAB_SKIP_NODE") != "" {
		t.Skip("COLLAB_SKIP_NODE is set: electron-updater does not read the feeds in this run")
	}
	paths, err := node()
	if err != nil {
		t.Fatal(err)
	}
	u := updaters{t, paths[0], t.TempDir()}
	for _, name := range []string{"package.json", "package-lock.json", "check.js"} {
		content, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(u.dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	u.run(nil, paths[1], "ci", "--ignore-scripts", "--no-audit", "--no-fund")
	return u
}

// run runs a command in the folder and returns its output.
func (u updaters) run(input []byte, name string, args ...string) []byte {
	u.Helper()
	ctx, over := context.WithTimeout(u.Context(), patience)
	defer over()
	command := exec.CommandContext(ctx, name, args...)
	command.Dir, command.Stdin = u.dir, bytes.NewReader(input)
	var problems bytes.Buffer
	command.Stderr = &problems
	output, err := command.Output()
	if err != nil {
		u.Fatalf("%s %s: %v\n%s%s", name, strings.Join(args, " "), err, output, problems.Bytes())
	}
	return output
}

// device is one that checks for an update.
type device struct {
	Platform  string `json:"platform"`
	Arch      string `json:"arch"`
	Version   string `json:"version"`
	ID        string `json:"id"`
	URL       string `json:"url"`
	Channel   string `json:"channel"`   // which the application sets; empty: it does not
	Everybody bool   `json:"everybody"` // the application thinks itself in every rollout
	Download  bool   `json:"download"`
}

// told is what an updater makes of the feed.
type told struct {
	Available      bool
	Version        string
	Notes          *string
	Date           string
	File           string // that it would download
	Content        string // of the file that it has downloaded
	AllowDowngrade bool
	Error          string
}

// check has devices check for updates.
func (u updaters) check(all ...device) []told {
	u.Helper()
	input, err := json.Marshal(all)
	if err != nil {
		u.Fatal(err)
	}
	var answers []told
	output := u.run(input, u.node, "check.js")
	if err := json.Unmarshal(output, &answers); err != nil || len(answers) != len(all) {
		u.Fatalf("%v: %s", err, output)
	}
	return answers
}
