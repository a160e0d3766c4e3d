package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"collab/adapters/apiclient"
	"collab/adapters/atomicfile"
	"collab/adapters/localdisk"
	"collab/adapters/mirrorstate"
	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/mirror"
	"collab/domain/object"
)

// maxStartDelay is the longest wait before a server that cannot be reached is asked again at the start.
const maxStartDelay = time.Minute

// acceptTimeout is how soon a process takes what another one accepts for it.
const acceptTimeout = 10 * time.Second

func (a *app) syncCommand() *cobra.Command {
	var at place
	var once, dry, accept bool
	c := command("sync DIR...", "Keep directories in step with the server", 1, -1, func(c *cobra.Command, args []string) error {
		var all []*syncedDir
		opened := map[string]mirror.Binding{}
		defer func() {
			for _, s := range all {
				s.close()
			}
		}()
		if a.wantsJSON() {
			return usage("sync takes no --json and --jq: it prints lines of JSON, for jq, where its output is no terminal")
		}
		if err := checkDistinct(args); err != nil {
			return err
		}
		for _, dir := range args {
			if !accept {
				if err := a.checkMounted(dir); err != nil {
					return err
				}
			}
			f, err := a.waitForFolder(c.Context(), dir, at, once || dry)
			if err != nil {
				return syncError(err)
			}
			s, err := a.openSynced(c.Context(), dir, f, at == place{}, opened)
			if accept && !dry && !once && s.disk == nil && fault.Is(err, fault.Conflict) {
				if err = a.acceptElsewhere(c.Context(), dir, err); err == nil {
					continue
				}
			}
			if err != nil {
				return err
			}
			all = append(all, s)
		}
		results := make(chan error, len(all))
		for _, s := range all {
			if accept {
				s.mirror.AcceptDeletions()
			}
			go func() {
				if once || dry {
					results <- s.once(c.Context(), dry)
				} else {
					results <- s.recordEnd(s.mirror.Run(c.Context(), s.recordRound), len(all) > 1)
				}
			}()
		}
		var errs []error
		for range all {
			errs = append(errs, <-results)
		}
		return syncError(errors.Join(errs...))
	})
	at.addFlags(c)
	c.Flags().BoolVar(&once, "once", false, "end when both sides are equal")
	c.Flags().BoolVar(&dry, "dry-run", false, "print what would be done")
	c.Flags().BoolVar(&accept, "accept-deletions", false, "make the deletions before which it has stopped")
	c.Long = `sync keeps each directory in step with a place of the server: the files that the organisation
shares, or those that a flag names. The directory remembers the place, also while another organisation
is in use. On a terminal it prints what
changes, elsewhere a line of JSON for each change. docs/client.md says what happens when.`
	c.AddCommand(a.syncStatus(), a.syncConflicts(), a.syncLog(), a.syncPause(), a.syncResume())
	return c
}

// acceptedName is the file in mirror.StateDirectory that accepts deletions for the process that synchronises the directory.
const acceptedName = "accepted"

// acceptElsewhere accepts deletions for the process that has locked the directory. It returns the error of the lock if that
// does not take the file, as one that makes a single round, or an earlier version.
func (a *app) acceptElsewhere(ctx context.Context, dir string, locked error) error {
	state, err := mirrorstate.OpenDirectory(dir)
	if err != nil {
		return err
	}
	defer state.Close()
	if p, err := a.pauseOf(state); p != nil || err != nil {
		return cmp.Or(err, a.pausedError(state, dir))
	}
	if err := atomicfile.ReplaceIn(state, acceptedName, atomicfile.Content(nil)); err != nil {
		return err
	}
	for range acceptTimeout / time.Second {
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), state.Remove(acceptedName))
		}
		if _, err := state.Lstat(acceptedName); errors.Is(err, fs.ErrNotExist) {
			a.printErrf("%s is synchronised by another process, which makes the deletions", dir)
			return nil
		}
	}
	return errors.Join(locked, state.Remove(acceptedName))
}

// checkDistinct returns an error if two names are those of one directory.
func checkDistinct(dirs []string) error {
	infos := make([]fs.FileInfo, len(dirs))
	for i, dir := range dirs {
		infos[i], _ = os.Stat(dir) // what is not there is an error of openSynced
		if n := slices.IndexFunc(infos[:i], func(other fs.FileInfo) bool { return os.SameFile(other, infos[i]) }); n >= 0 {
			return usage("%s and %s are the same directory: name it once", dirs[n], dir)
		}
	}
	return nil
}

// waitForFolder is folderFor, repeated unless once is set while the network, the server or the keyring is not there,
// as at the start of a machine.
func (a *app) waitForFolder(ctx context.Context, dir string, at place, once bool) (*folder, error) {
	for wait := time.Second; ; wait = min(2*wait, maxStartDelay) {
		f, err := a.folderFor(ctx, dir, at)
		if once || !isTemporary(err) {
			return f, err
		}
		if wait == time.Second {
			a.printErrf("%s waits for the server, which is tried again: %v", dir, err)
		}
		if errors.Is(err, errKeyring) && !errors.Is(err, errKeyringTimeout) {
			wait = maxStartDelay // each attempt may ask a person to unlock the keyring
		}
		select {
		case <-time.After(wait/2 + rand.N(wait/2)):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// folderFor asks the server for the place of a directory, with the account that the directory is synchronised
// with unless another one is named.
func (a *app) folderFor(ctx context.Context, dir string, at place) (*folder, error) {
	server, org := a.serverAddress(), cmp.Or(a.flags.org, a.env("COLLAB_ORG"))
	var bound mirror.Binding
	if org == "" && a.env("COLLAB_TOKEN") == "" {
		bound, _ = storedBinding(dir) // what cannot be read is an error of openSynced
		if server == "" || server == bound.Server {
			server, org = cmp.Or(bound.Server, server), string(bound.Org)
		}
	}
	account, err := a.accountAt(server, org)
	if exitCode(err) == exitSignIn && org == string(bound.Org) && org != "" {
		return nil, exitError{exitSignIn, fmt.Errorf("%s is synchronised with the organisation %s at %s, to which nobody is signed in: collab login --server %s. If the server has another address now, move %s, which has the trash, out of it",
			dir, bound.Org, bound.Server, bound.Server, filepath.Join(dir, mirror.StateDirectory))}
	}
	if err != nil {
		return nil, err
	}
	client, err := a.clientFor(account)
	if err != nil {
		return nil, err
	}
	return folderOf(ctx, client, at)
}

// isTemporary reports whether what failed at the start may succeed later.
func isTemporary(err error) bool {
	status := apiclient.Status(err)
	return status == http.StatusTooManyRequests || status >= 500 || apiclient.Unanswered(err) || errors.Is(err, errKeyring)
}

// recordsName is the directory, beside the accounts, with a file for each directory that was synchronised.
const recordsName = "directories"

// recordFile returns the name of the file that says that a directory was synchronised, and the directory's path, which it has.
func (a *app) recordFile(dir string) (file, path string, err error) {
	at, err := a.configDirectory()
	if err == nil {
		path, err = realPath(dir)
	}
	sum := sha256.Sum256([]byte(path))
	return filepath.Join(at, recordsName, hex.EncodeToString(sum[:])), path, err
}

// realPath returns the absolute path of a directory, without symbolic links if it exists.
func realPath(dir string) (string, error) {
	path, err := filepath.Abs(dir)
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real, nil
	}
	return path, err
}

// storedBinding returns the place with which a directory is synchronised.
func storedBinding(dir string) (mirror.Binding, error) {
	state, err := mirrorstate.OpenDirectory(dir)
	if err != nil {
		return mirror.Binding{}, err
	}
	defer state.Close()
	return mirrorstate.StoredBinding(state)
}

// isBelow reports whether a path is in the directory of another one.
func isBelow(path, directory string) bool {
	inside, err := filepath.Rel(directory, path)
	return err == nil && inside != "." && filepath.IsLocal(inside)
}

// checkNested returns an error if a directory is in one that is synchronised with the same place, or one that was synchronised
// with it is in the directory: all files of the place would be made in the inner one, and with it in the place, again and again.
// It adds the binding to those of the directories that this process synchronises, by their paths.
func (a *app) checkNested(dir string, b mirror.Binding, opened map[string]mirror.Binding) error {
	path, err := realPath(dir)
	if err != nil {
		return err
	}
	var others []string
	for inner, outer := path, filepath.Dir(path); inner != outer; inner, outer = outer, filepath.Dir(outer) {
		others = append(others, outer)
	}
	others = slices.AppendSeq(others, maps.Keys(opened))
	if at, err := a.configDirectory(); err == nil {
		config := os.DirFS(at)
		records, _ := fs.Glob(config, recordsName+"/*")
		for _, record := range records {
			text, _ := fs.ReadFile(config, record)
			others = append(others, strings.TrimSuffix(string(text), "\n"))
		}
	}
	for _, other := range others {
		relation := "contains"
		if isBelow(path, other) {
			relation = "is in"
		} else if !isBelow(other, path) {
			continue
		}
		bound, ok := opened[other]
		if !ok {
			bound, _ = storedBinding(other)
		}
		if bound.Org == b.Org && bound.Place == b.Place && (bound.User == b.User || b.Place != personalPlace) { // a server can have several addresses
			return usage("%s %s %s, which is synchronised with the same place. If it no longer is, move %s, which has its trash, out of it", dir, relation, other, filepath.Join(other, mirror.StateDirectory))
		}
	}
	opened[path] = b
	return nil
}

// checkMounted returns an error if a directory that was synchronised has nothing in it any more, and no state:
// it may be the place where a disk is to be mounted.
func (a *app) checkMounted(dir string) error {
	record, _, err := a.recordFile(dir)
	if err != nil {
		return nil // there are no records
	}
	if _, err := os.Stat(record); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if vacant, err := localdisk.Vacant(dir); err != nil || !vacant {
		return syncError(err)
	}
	return exitError{exitGuard, fmt.Errorf("%s was synchronised before, and has nothing in it now: is a disk not mounted? Nothing was done. To begin with an empty directory: collab sync %s --accept-deletions", dir, dir)}
}

// syncError returns an error with the exit code for it.
func syncError(err error) error {
	switch {
	case fault.Is(err, fault.Unauthenticated):
		return exitError{exitSignIn, err}
	case fault.Is(err, fault.Conflict):
		return exitError{exitConflict, err}
	case apiclient.Status(err) == http.StatusForbidden && !apiclient.Unanswered(err):
		return exitError{exitSignIn, fmt.Errorf("%w. The organisation is closed to this account; ask an owner of it", err)}
	}
	return err
}

// Places in bindings.
const (
	sharedPlace    = "shared"
	personalPlace  = "personal"
	workspacePlace = "workspace "
)

func placeText(f *folder) string {
	switch {
	case f.workspace != "":
		return workspacePlace + f.workspace
	case f.scope == string(object.Personal):
		return personalPlace
	}
	return sharedPlace
}

func parsePlace(text string) (object.Place, error) {
	where := object.Place{Kind: object.Artifact, Scope: object.Shared}
	workspace, ok := strings.CutPrefix(text, workspacePlace)
	switch {
	case ok:
		where.Workspace = (*id.Workspace)(&workspace)
	case text == personalPlace:
		where.Scope = object.Personal
	case text != sharedPlace:
		return where, fmt.Errorf("the directory is bound to %q, which this version does not know", text)
	}
	return where, nil
}
