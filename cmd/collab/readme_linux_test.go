package main

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"collab/test/collabd"
	"collab/test/must"
	"collab/test/pages"
)

// pseudoTerminal returns the two ends of a new pseudo-terminal.
func pseudoTerminal(t *testing.T) (screen, program *os.File) {
	t.Helper()
	screen, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(screen.Fd()), unix.TIOCSPTLCK, 0)
	}
	var n uint32
	if err == nil {
		n, err = unix.IoctlGetUint32(int(screen.Fd()), unix.TIOCGPTN)
	}
	if err == nil {
		program, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	}
	must.NoError(t, err)
	return screen, program
}

// TestTheFoldersOfTheReadmeAreInStep runs the README's lines but the sign-in, which a script tests.
func TestTheFoldersOfTheReadmeAreInStep(t *testing.T) {
	section := regexp.MustCompile("(?s)\n## Two folders in step\n.*?```sh\n(.*?)```\n(.*?)\n##").FindStringSubmatch(pages.Read(t, "README.md"))
	if section == nil {
		t.Fatal("the README has no such section")
	}
	lines := strings.Split(strings.TrimSpace(section[1]), "\n")
	shown := regexp.MustCompile("`((?:up|down)load) +([^`]+)`").FindAllStringSubmatch(section[2], -1)
	if len(lines) != 5 || !strings.HasPrefix(lines[0], "bin/collab login --server http://localhost:8080 ") || len(shown) != 2 {
		t.Fatalf("the lines are %q, and they show %q", lines, shown)
	}
	owner := collabd.Start(t).SignIn(t, "ada@example.com", t.Name(), "owner")
	dir := t.TempDir()
	shell := func(line string) *exec.Cmd {
		c := exec.Command("sh", "-c", "exec "+strings.TrimPrefix(line, "bin/"))
		c.Dir, c.Env = dir, append(os.Environ(), "COLLAB_SERVER="+owner.Base, "COLLAB_TOKEN="+owner.Token, "COLLAB_CONFIG_DIR="+dir, "NO_COLOR=1")
		return c
	}
	run := func(line string) {
		if out, err := exec.Command("sh", "-c", "cd "+dir+" && "+line).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", line, err, out)
		}
	}
	run(lines[1])
	var screens []*bufio.Scanner
	for _, line := range lines[2:4] {
		screen, program := pseudoTerminal(t)
		c := shell(line)
		c.Stdout, c.Stderr = program, program
		must.NoError(t, c.Start())
		program.Close()
		t.Cleanup(func() {
			_ = c.Process.Kill()
			_ = c.Wait()
			screen.Close()
		})
		screens = append(screens, bufio.NewScanner(screen))
	}
	run(lines[4])
	for i, want := range shown {
		for screens[i].Scan() && !strings.HasSuffix(strings.TrimSpace(screens[i].Text()), want[1]+"  "+want[2]) {
			t.Logf("terminal %d: %q", i+1, screens[i].Text())
		}
		if screens[i].Err() != nil {
			t.Errorf("terminal %d never shows %q: %v", i+1, want[0], screens[i].Err())
		}
	}
}
