// Package release holds the versions of the desktop application: which of them
// there are, in which order, and which device is offered which.
package release

import (
	"strconv"
	"strings"

	"github.com/Masterminds/semver/v3"

	"collab/domain/fault"
)

// maxVersion is how long a version can be, in bytes.
const maxVersion = 128

// Version is a semantic version. The zero value is none.
type Version struct {
	parsed *semver.Version
	text   string // in its full form, without a v
	key    string // and without build metadata
}

// ParseVersion reads the field version: a semantic version, with or without a leading v, in
// which the third part can be missing. Invalid for anything else.
func ParseVersion(s string) (Version, error) {
	if len(s) > maxVersion {
		return Version{}, fault.Field("version", "must be at most %d characters", maxVersion)
	}
	t := s
	if t != "" && (t[0] == 'v' || t[0] == 'V') {
		t = t[1:]
	}
	core, rest := t, ""
	if i := strings.IndexAny(t, "-+"); i >= 0 {
		core, rest = t[:i], t[i:]
	}
	if strings.Count(core, ".") == 1 {
		t = core + ".0" + rest
	}
	v, err := semver.StrictNewVersion(t)
	if err != nil || !ordered(v.Prerelease()) {
		return Version{}, fault.Field("version", "must be a semantic version such as 1.4.2")
	}
	key, _, _ := strings.Cut(t, "+")
	return Version{v, t, key}, nil
}

// ordered reports whether all numbers of a prerelease have 64 bits: the order
// of greater ones would be that of texts.
func ordered(prerelease string) bool {
	for part := range strings.SplitSeq(prerelease, ".") {
		if part == "" || strings.Trim(part, digits) != "" {
			continue
		}
		if _, err := strconv.ParseUint(part, 10, 64); err != nil {
			return false
		}
	}
	return true
}

// String returns the version in its full form, without a v.
func (v Version) String() string { return v.text }

// Key returns the version without its build metadata, which is the same text for all versions of
// the same precedence.
func (v Version) Key() string { return v.key }

// Compare returns -1, 0 or 1 as v comes before w, is of the same precedence, or
// comes after it. None comes before all others.
func (v Version) Compare(w Version) int {
	switch {
	case v.parsed == nil && w.parsed == nil:
		return 0
	case v.parsed == nil:
		return -1
	case w.parsed == nil:
		return 1
	}
	return v.parsed.Compare(w.parsed)
}
