// Package debian installs the distribution's packages for tests that need them.
package debian

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

// Install installs packages with apt-get unless there says that all is there
// already. It says so on standard error. Where that cannot be, because somebody else
// than root asks or there is no apt-get, the error tells what to install.
func Install(ctx context.Context, there func() bool, packages ...string) (err error) {
	if there() {
		return nil
	}
	names := strings.Join(packages, " ")
	apt, err := exec.LookPath("apt-get")
	if err != nil || os.Geteuid() != 0 {
		return fmt.Errorf("these tests need what is in the packages %s: install them (Debian, Ubuntu: apt-get install %s)", names, names)
	}
	// Tests of other packages may be at it as well, and apt-get does not wait.
	lock, err := os.OpenFile(filepath.Join(os.TempDir(), "collab-debian.lock"), os.O_RDONLY|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return err
	}
	if there() {
		return nil
	}
	for _, args := range [][]string{{"update"}, append([]string{"install", "--yes", "--no-install-recommends"}, packages...)} {
		fmt.Fprintf(os.Stderr, "%s missing: running apt-get %s\n", names, strings.Join(args, " "))
		c := exec.CommandContext(ctx, apt, args...)
		// Run level 1 keeps packages from starting servers of their own.
		c.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive", "RUNLEVEL=1")
		if out, err := c.CombinedOutput(); err != nil {
			return fmt.Errorf("apt-get %s: %w\n%s", strings.Join(args, " "), err, out)
		}
	}
	if !there() {
		return fmt.Errorf("the packages %s are installed, but what the tests need is not there", names)
	}
	return nil
}

// Program returns the path of a program, which it installs with a package where it
// is missing.
func Program(ctx context.Context, name, from string) (path string, err error) {
	err = Install(ctx, func() bool {
		path, _ = exec.LookPath(name)
		return path != ""
	}, from)
	return path, err
}
