package postgres

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"

	"collab/test/debian"
)

// binaries returns the folder of the newest installed server, which it
// installs when there is none and that is possible.
func binaries(ctx context.Context) (bin string, err error) {
	err = debian.Install(ctx, func() (ok bool) {
		bin, ok = installed()
		return ok
	}, "postgresql")
	if err != nil {
		return "", fmt.Errorf("%w; or set COLLAB_TEST_POSTGRES_URL to a server where databases may be created", err)
	}
	return bin, nil
}

func installed() (string, bool) {
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin")
	best, bestVersion := "", -1
	for _, bin := range found {
		version, err := strconv.Atoi(filepath.Base(filepath.Dir(bin)))
		if err == nil && version > bestVersion && complete(bin) {
			best, bestVersion = bin, version
		}
	}
	if best != "" {
		return best, true
	}
	path, err := exec.LookPath("initdb")
	if err != nil {
		return "", false
	}
	if path, err = filepath.EvalSymlinks(path); err != nil {
		return "", false
	}
	bin := filepath.Dir(path)
	return bin, complete(bin)
}

func complete(bin string) bool {
	for _, name := range []string{"initdb", "postgres"} {
		if _, err := exec.LookPath(filepath.Join(bin, name)); err != nil {
			return false
		}
	}
	return true
}

// unprivileged returns the credential of the server, nil unless the process is root: Postgres refuses
// to run as root.
func unprivileged() (*syscall.Credential, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err := strconv.ParseUint(u.Uid, 10, 32)
		if err != nil {
			return nil, err
		}
		gid, err := strconv.ParseUint(u.Gid, 10, 32)
		if err != nil {
			return nil, err
		}
		return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
	}
	return nil, errors.New("a Postgres server does not run as root, and there is no user postgres or nobody to run it as")
}
