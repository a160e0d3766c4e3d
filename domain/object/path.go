package object

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"collab/domain/fault"
	"collab/domain/words"
)

// Bounds of paths, in bytes of their composed form.
const (
	MaxPath    = 1024
	MaxSegment = 255
)

// ForbiddenCharacters are those that no path has, beside control characters and those that change the
// direction of text.
const ForbiddenCharacters = `\:*?"<>|`

// ForbiddenEndings are the characters with which no segment of a path ends.
var ForbiddenEndings = []string{".", " "}

// ForbiddenNames are the names that no segment of a path has before its first dot, in any case and
// with spaces after them: those of devices on Windows.
var ForbiddenNames = func() []string {
	names := []string{"CON", "PRN", "AUX", "NUL", "CONIN$", "CONOUT$"}
	for _, digit := range "0123456789¹²³" {
		names = append(names, "COM"+string(digit), "LPT"+string(digit))
	}
	return names
}()

// ParsePath returns a logical path in its composed form (NFC). It refuses what some
// client's file system cannot store: paths must be relative, with / between segments, none
// of which is . or .. or a name that Windows refuses. Field names the path in messages.
func ParsePath(field, s string) (string, error) {
	invalid := func(format string, args ...any) (string, error) { return "", fault.Field(field, format, args...) }
	if !utf8.ValidString(s) {
		return invalid("must be valid UTF-8")
	}
	if len(s) > 4*MaxPath { // before the work of composing it
		return invalid("must be at most %d bytes", MaxPath)
	}
	s = norm.NFC.String(s)
	switch {
	case s == "":
		return invalid("must not be empty")
	case len(s) > MaxPath:
		return invalid("must be at most %d bytes", MaxPath)
	case s[0] == '/':
		return invalid("must be relative")
	}
	for _, r := range s {
		switch {
		case unicode.IsControl(r) || isBidi(r):
			return invalid("must not contain control characters")
		case strings.ContainsRune(ForbiddenCharacters, r):
			return invalid("must not contain any of \\ : * ? \" < > |")
		}
	}
	for segment := range strings.SplitSeq(s, "/") {
		switch {
		case segment == "":
			return invalid("must not have empty segments")
		case segment == "." || segment == "..":
			return invalid("must not have the segments . and ..")
		case len(segment) > MaxSegment:
			return invalid("must have segments of at most %d bytes", MaxSegment)
		case slices.ContainsFunc(ForbiddenEndings, func(end string) bool { return strings.HasSuffix(segment, end) }):
			return invalid("must not have segments that end with a dot or a space")
		case isDevice(segment):
			return invalid("must not have a segment that is a device's name on Windows")
		}
	}
	return s, nil
}

// isBidi reports whether r changes the direction of the text around it, which
// makes a name read as another.
func isBidi(r rune) bool {
	return r >= '\u202a' && r <= '\u202e' || r >= '\u2066' && r <= '\u2069' || r == '\u200e' || r == '\u200f' || r == '\u061c'
}

// isDevice reports whether Windows takes a file name for a device, whatever follows its
// first dot.
func isDevice(segment string) bool {
	name, _, _ := strings.Cut(strings.ToUpper(segment), ".")
	return slices.Contains(ForbiddenNames, strings.TrimRight(name, " "))
}

// Fold returns the form in which paths are compared: case-insensitive file systems treat
// paths with the same form as one.
func Fold(path string) string { return words.Fold(path) }

// Ancestors returns the folders that a folded key lies in, the topmost first.
func Ancestors(key string) []string {
	var above []string
	for i := range len(key) {
		if key[i] == '/' {
			above = append(above, key[:i])
		}
	}
	return above
}

// mimeTypes are the media types of common extensions; other files have the client's, or
// OctetStream.
var mimeTypes = map[string]string{
	"md": "text/markdown", "markdown": "text/markdown", "txt": "text/plain", "log": "text/plain", "csv": "text/csv",
	"html": "text/html", "htm": "text/html", "css": "text/css", "js": "text/javascript", "mjs": "text/javascript",
	"json": "application/json", "xml": "application/xml", "yaml": "application/yaml", "yml": "application/yaml",
	"pdf": "application/pdf", "zip": "application/zip", "gz": "application/gzip",
	"png": "image/png", "jpg": "image/jpeg", "jpeg": "image/jpeg", "gif": "image/gif", "webp": "image/webp",
	"svg": "image/svg+xml", "ico": "image/vnd.microsoft.icon", "avif": "image/avif",
	"mp3": "audio/mpeg", "wav": "audio/wav", "mp4": "video/mp4", "webm": "video/webm",
	"woff": "font/woff", "woff2": "font/woff2", "ttf": "font/ttf", "otf": "font/otf",
	"docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
	"xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
	"pptx": "application/vnd.openxmlformats-officedocument.presentationml.presentation",
}

// OctetStream is the media type of unknown content.
const OctetStream = "application/octet-stream"

// mimeTypeOf returns the media type of a path's extension.
func mimeTypeOf(path string) string {
	if dot := strings.LastIndexByte(path, '.'); dot >= 0 {
		if t, ok := mimeTypes[strings.ToLower(path[dot+1:])]; ok {
			return t
		}
	}
	return OctetStream
}
