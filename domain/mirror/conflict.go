package mirror

import (
	"path"
	"regexp"
	"strings"
	"time"
	"unicode/utf8"

	"collab/domain/object"
)

// maxDevice is the longest name of a device in a conflict copy's name, in bytes.
const maxDevice = 32

// suffix is what conflictSuffix writes.
var suffix = regexp.MustCompile(` \(conflict [^()/]+ \d{4}-\d{2}-\d{2} [0-9a-f]{6,64}\)$`)

// IsConflict reports whether a path is named as conflict copies are.
func IsConflict(p string) bool { return withoutSuffix(p) != p }

// withoutSuffix returns the path of the file that a conflict copy is of, and any other path as it is.
func withoutSuffix(p string) string {
	directory, base := path.Split(p)
	stem, extension := splitExtension(base)
	return directory + suffix.ReplaceAllString(stem, "") + extension
}

// ConflictPath returns the path of the copy of a file that lost its path: NAME (conflict DEVICE
// DATE HASH).EXT, of the file's modification time and the first digits of its checksum, so that
// the same content gets the same name whenever it is made. A suffix that the name already has is
// replaced. ok is false if the directory's path leaves no room.
func ConflictPath(p, device string, modTime int64, checksum string, digits int) (copied string, ok bool) {
	directory, base := path.Split(withoutSuffix(p))
	stem, extension := splitExtension(base)
	added := conflictSuffix(device, modTime, checksum, digits) + extension
	room := min(object.MaxSegment, object.MaxPath-len(directory)) - len(added)
	if room < 1 {
		return "", false
	}
	if stem = cut(stem, room); stem == "" {
		return "", false
	}
	copied, err := object.ParsePath("path", directory+stem+added)
	return copied, err == nil
}

func conflictSuffix(device string, modTime int64, checksum string, digits int) string {
	return " (conflict " + cleanDevice(device) + " " + time.Unix(0, modTime).UTC().Format(time.DateOnly) + " " + checksum[:min(digits, len(checksum))] + ")"
}

// cleanDevice returns the part of a device's name that a path can have.
func cleanDevice(device string) string {
	device = strings.Map(func(r rune) rune {
		if strings.ContainsRune(`/\:*?"<>|()`, r) {
			return -1
		}
		return r
	}, device)
	device = strings.TrimSpace(cut(device, maxDevice))
	if _, err := object.ParsePath("device", "x"+device+"x"); err != nil || device == "" {
		return "device"
	}
	return device
}

// splitExtension splits a name before its last dot, unless that begins the name or what
// follows is too long for an extension.
func splitExtension(name string) (stem, extension string) {
	if dot := strings.LastIndexByte(name, '.'); dot > 0 && len(name)-dot <= 32 {
		return name[:dot], name[dot:]
	}
	return name, ""
}

// cut returns the first characters of s that are at most n bytes.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}
