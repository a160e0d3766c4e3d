package localdisk

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"

	"github.com/git-pkgs/gitignore"
	"golang.org/x/text/unicode/norm"

	"collab/domain/fault"
	"collab/domain/mirror"
)

// maxPattern is how many bytes a line of patterns may have, with its end. Longer ones, which are no paths, are left
// out: the matcher would read no further.
const maxPattern = bufio.MaxScanTokenSize

// systemFiles are the names of files that systems leave in directories, and systemFilePrefix begins others. They go with
// their directory.
var systemFiles = []string{".DS_Store", "Thumbs.db", "ehthumbs.db", "desktop.ini"}

const systemFilePrefix = "._"

// systemDirectories are what systems keep at the top of a file system, in lower case.
var systemDirectories = []string{
	".spotlight-v100", ".fseventsd", ".trashes", ".temporaryitems", ".documentrevisions-v100", "$recycle.bin",
	"system volume information", "lost+found",
}

// isSystemFile reports whether a name is that of a file that systems leave in directories.
func isSystemFile(name string) bool {
	return strings.HasPrefix(name, systemFilePrefix) || slices.ContainsFunc(systemFiles, func(s string) bool { return strings.EqualFold(s, name) })
}

// isSystemDirectory reports whether a path is that of what systems keep at the top of a file system.
func isSystemDirectory(path string) bool {
	return slices.Contains(systemDirectories, strings.ToLower(path))
}

// rules are which files are ignored.
type rules struct {
	hash    string
	matcher *gitignore.Matcher
}

// Rules reads the patterns of the directory. Scans use those that it returned last. While the file
// is being saved the error is Unavailable.
func (d *Disk) Rules(context.Context) (mirror.Rules, error) {
	r, err := d.readRules()
	beingSaved := func() bool { return errors.Is(err, errChanged) || errors.Is(err, fs.ErrNotExist) }
	for i := 0; i < 2 && beingSaved(); i++ {
		r, err = d.readRules()
	}
	if beingSaved() {
		return mirror.Rules{}, fault.Wrap(fault.Unavailable, err, "%s is being saved", mirror.IgnoreFile)
	}
	if err != nil {
		return mirror.Rules{}, failed(err, "The patterns in %s cannot be read", mirror.IgnoreFile)
	}
	d.rules.Store(r)
	return mirror.Rules{Hash: r.hash, Ignored: r.ignores, Refused: d.refused}, nil
}

// readRules reads the file of patterns. One that is missing or not a regular file has none.
func (d *Disk) readRules() (*rules, error) {
	var content []byte
	info, err := d.top.root.Lstat(mirror.IgnoreFile)
	if err == nil && info.Mode().IsRegular() {
		f, err := openRegular(d.top, info)
		if err != nil {
			return nil, err
		}
		defer discard(f)
		if content, err = io.ReadAll(io.LimitReader(f, mirror.MaxIgnore+1)); err != nil {
			return nil, err
		}
		if len(content) > mirror.MaxIgnore {
			return nil, fault.New(fault.TooLarge, "%s has more than %d bytes", mirror.IgnoreFile, mirror.MaxIgnore)
		}
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	content = bytes.TrimPrefix(content, []byte("\ufeff")) // which editors write at the beginning
	content = norm.NFC.Bytes(content)                     // as paths are
	sum := sha256.Sum256(content)
	r := &rules{hash: hex.EncodeToString(sum[:]), matcher: new(gitignore.Matcher)}
	patterns := content[:0]
	for line := range bytes.Lines(content) {
		if len(line) <= maxPattern {
			patterns = append(patterns, line...)
		}
	}
	r.matcher.AddPatterns(patterns, "")
	return r, nil
}

// ignores reports whether a file, or a directory above it, is ignored.
func (r *rules) ignores(path string) bool {
	parent, _ := split(path)
	return parent != "" && r.ignoresDirectory(parent) || r.ignored(path, false)
}

// ignoresDirectory reports whether a directory, or one above it, is ignored.
func (r *rules) ignoresDirectory(path string) bool {
	for i := range len(path) {
		if path[i] == '/' && r.ignored(path[:i], true) {
			return true
		}
	}
	return r.ignored(path, true)
}

// ignored reports whether the name itself is ignored.
func (r *rules) ignored(path string, isDirectory bool) bool {
	if isSystemDirectory(path) {
		return true
	}
	_, name := split(path)
	return isDirectory && mirror.IsState(name) || // of this directory, or of one inside it that is synchronised too
		!isDirectory && isSystemFile(name) || r.matcher.MatchPath(path, isDirectory)
}

// refused returns why the file system cannot have a path. Names that Windows refuses no server has.
func (d *Disk) refused(path string) string {
	for segment := range strings.SplitSeq(path, "/") {
		if len(segment) > d.maxName {
			return fmt.Sprintf("the file system has no names of more than %d bytes", d.maxName)
		}
	}
	return ""
}
