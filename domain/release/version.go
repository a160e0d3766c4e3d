// Package release holds the versions of the desktop application: which of them
// there are, in which order, and which device is offered which.
package release

import (
	"errors"
	"regexp"
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
}

// partial are the versions that lack the third part.
var partial = regexp.MustCompile(`\A([0-9]+\.[0-9]+)([-+].*)?\z`)

// ParseVersion reads a version of the field: a semantic version, with or without a
// leading v, in which the third part can be missing. Invalid for anything else.
func ParseVersion(field, s string) (Version, error) {
	if len(s) > maxVersion {
		return Version{}, fault.Field(field, "must be at most %d characters", maxVersion)
	}
	t := s
	if t != "" && (t[0] == 'v' || t[0] == 'V') {
		t = t[1:]
	}
	if m := partial.FindStringSubmatch(t); m != nil {
		t = m[1] + ".0" + m[2]
	}
	v, err := semver.StrictNewVersion(t)
	if err != nil || !ordered(v.Prerelease()) {
		return Version{}, fault.Field(field, "must be a semantic version such as 1.4.2")
	}
	return Version{v}, nil
}

// ordered reports whether all numbers of a prerelease have 64 bits: the order
// of greater ones would be that of texts.
func ordered(prerelease string) bool {
	for part := range strings.SplitSeq(prerelease, ".") {
		if _, err := strconv.ParseUint(part, 10, 64); errors.Is(err, strconv.ErrRange) && strings.Trim(part, "0123456789") == "" {
			return false
		}
	}
	return true
}

// String returns the version in its full form, without a v.
func (v Version) String() string {
	if v.parsed == nil {
		return ""
	}
	return v.parsed.String()
}

// Key returns what versions of the same precedence have in common: all but the
// build metadata.
func (v Version) Key() string {
	if v.parsed == nil {
		return ""
	}
	core, _ := v.parsed.SetMetadata("") // the empty one is valid
	return core.String()
}

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
