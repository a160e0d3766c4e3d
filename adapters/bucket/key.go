package bucket

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"mime"
	"strings"
	"unicode/utf8"

	"collab/domain/fault"
)

// Bounds of names in bytes, and of what stores and file systems take.
const (
	maxName       = 1024
	maxSegment    = 255
	maxKey        = 1024 // Google and Amazon
	maxKeySegment = 254  // Azure; file systems take 255
	maxKeyDepth   = 250  // Azure
)

// check decides whether it is a name.
func check(name string) error {
	switch {
	case name == "":
		return fault.Field("name", "must not be empty")
	case len(name) > maxName:
		return fault.Field("name", "must be at most %d bytes", maxName)
	case !utf8.ValidString(name):
		return fault.Field("name", "must be valid UTF-8")
	}
	for i := range len(name) {
		if name[i] < ' ' || name[i] == 0x7f {
			return fault.Field("name", "must not contain control characters")
		}
	}
	for segment := range strings.SplitSeq(name, "/") {
		switch {
		case segment == "":
			return fault.Field("name", "must be relative, without empty segments")
		case segment == "." || segment == "..":
			return fault.Field("name", "must not have the segments . and ..")
		case len(segment) > maxSegment:
			return fault.Field("name", "must have segments of at most %d bytes", maxSegment)
		}
	}
	return nil
}

// begun decides whether a call may begin.
func begun(ctx context.Context, name string) error {
	if err := check(name); err != nil {
		return err
	}
	return ctx.Err()
}

// checkType decides whether it is a media type, or nothing.
func checkType(mimeType string) error {
	if mimeType == "" {
		return nil
	}
	if _, _, err := mime.ParseMediaType(mimeType); err != nil {
		return fault.Field("mimeType", "must be a media type")
	}
	return nil
}

// A key is a name as every store and file system takes it, and stays readable:
//
//   - bytes that some of them treat as something else are ! and two hexadecimal
//     digits, as is ! itself;
//   - folders have no @, and what lies in them has one (where the name has none,
//     !@ follows), so that the name a/b never stands where the name a/b/c has a
//     folder;
//   - segments that became too long go on in a folder: !+ ends such a part.
//
// No two names have one key.
func keyOf(name string) string {
	var key strings.Builder
	key.Grow(len(name) + 8)
	for rest := name; rest != ""; {
		segment, after, more := strings.Cut(rest, "/")
		rest = after
		escaped := escape(segment, more)
		if !more && !strings.Contains(escaped, "@") {
			escaped += "!@"
		}
		for len(escaped) > maxKeySegment {
			cut := maxKeySegment - len("!+")
			for !utf8.RuneStart(escaped[cut]) {
				cut--
			}
			key.WriteString(escaped[:cut])
			key.WriteString("!+/")
			escaped = escaped[cut:]
		}
		key.WriteString(escaped)
		if more {
			key.WriteByte('/')
		}
	}
	return key.String()
}

// escape returns a segment of a key.
func escape(segment string, folder bool) string {
	plain := true
	for i := range len(segment) {
		plain = plain && !escaped(segment, i, folder)
	}
	if plain {
		return segment
	}
	var key strings.Builder
	for i := range len(segment) {
		if escaped(segment, i, folder) {
			key.WriteByte('!')
			key.WriteByte(digits[segment[i]>>4])
			key.WriteByte(digits[segment[i]&15])
		} else {
			key.WriteByte(segment[i])
		}
	}
	return key.String()
}

const digits = "0123456789ABCDEF"

func escaped(segment string, i int, folder bool) bool {
	switch c := segment[i]; c {
	case '!', '"', '#', '%', '?', '\\', ':', '*', '<', '>', '|':
		return true
	case '@':
		return folder
	case '.', ' ': // Windows drops them at the end, and .. leads elsewhere
		return i == len(segment)-1
	case '_': // how clients of object stores write characters that a store does not take
		return strings.HasPrefix(segment[i:], "__0x")
	default:
		return c < ' ' || c == 0x7f
	}
}

// nameOf returns the name that has the key. What no name has is somebody
// else's.
func nameOf(key string) (name string, ok bool) {
	text := strings.TrimSuffix(strings.ReplaceAll(key, "!+/", ""), "!@")
	if strings.Contains(text, "!") {
		var plain strings.Builder
		for i := 0; i < len(text); i++ {
			if text[i] != '!' {
				plain.WriteByte(text[i])
				continue
			}
			b, err := hex.DecodeString(text[i+1 : min(i+3, len(text))])
			if err != nil || len(b) != 1 {
				return "", false
			}
			plain.Write(b)
			i += 2
		}
		text = plain.String()
	}
	return text, check(text) == nil && keyOf(text) == key
}

// objectKey returns the key of a name below a prefix in an object store. Names
// whose keys are too long or too deep have their hash in its place, after the
// first segment, which is the organisation; the name is in the object's
// metadata then.
func objectKey(prefix, name string) (key string, hashed bool) {
	key = prefix + keyOf(name)
	if len(key) <= maxKey && strings.Count(key, "/") < maxKeyDepth {
		return key, false
	}
	hash := sha256.Sum256([]byte(name))
	key = hex.EncodeToString(hash[:])
	if first, _, more := strings.Cut(name, "/"); more {
		return prefix + escape(first, true) + "/!" + key, true
	}
	return prefix + "!" + key, true
}

// isHashed reports whether the key is of the form that stands for a hash.
func isHashed(key string) bool {
	last := key[strings.LastIndexByte(key, '/')+1:]
	return len(last) == 1+2*sha256.Size && last[0] == '!' && strings.Trim(last[1:], "0123456789abcdef") == ""
}

// FileOf returns where the content of a name lies below the folder of a file://
// store, with slashes. The name must be one that Put takes.
func FileOf(name string) string { return keyOf(name) }

// NameOfFile returns the name whose content lies there; ok is false where that
// is none's, as of a path that leads out of the folder.
func NameOfFile(path string) (name string, ok bool) { return nameOf(path) }
