package bucket

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"mime"
	"strings"
	"unicode/utf8"

	"collab/domain/fault"
)

// Limits of names in bytes, and of the keys of stores and file systems.
const (
	maxName       = 1024
	maxSegment    = 255
	maxKey        = 1024 // Google and Amazon
	maxKeySegment = 254  // Azure; 255 on file systems
	maxKeyDepth   = 250  // Azure
)

// checkName returns an error if name is not a valid name of content.
func checkName(name string) error {
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

// checkCall returns the error of an invalid name or of a context that has ended.
func checkCall(ctx context.Context, name string) error {
	return cmp.Or(checkName(name), ctx.Err())
}

// checkPut returns an error for a call of Put with these arguments, as checkCall does.
func checkPut(ctx context.Context, name, mimeType string) error {
	return cmp.Or(checkCall(ctx, name), checkType(mimeType))
}

// checkOpen returns an error for a call of Open with these arguments, as checkCall does.
func checkOpen(ctx context.Context, name string, offset int64) error {
	err := checkCall(ctx, name)
	if err == nil && offset < 0 {
		err = fault.Field("offset", "must not be negative")
	}
	return err
}

// checkType returns an error if mimeType is neither empty nor a media type.
func checkType(mimeType string) error {
	if mimeType == "" {
		return nil
	}
	if _, _, err := mime.ParseMediaType(mimeType); err != nil {
		return fault.Field("mimeType", "must be a media type")
	}
	return nil
}

// KeyOf returns the key of a name, which is the path of its content in the directory of a file:// store. A
// key is valid in every store and file system, and readable. Two names never have the same key:
//
//   - bytes that are special in some store, and !, are escaped as ! and two hexadecimal
//     digits;
//   - directories have no @ and the last segment has one (!@ is appended to a name
//     without), so the key of a/b is never a directory of the key of a/b/c;
//   - a segment that is too long is split into directories whose names end with !+.
func KeyOf(name string) string {
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

// escape returns the key's form of a segment; directory says whether others follow.
func escape(segment string, directory bool) string {
	plain := true
	for i := range len(segment) {
		plain = plain && !mustEscape(segment, i, directory)
	}
	if plain {
		return segment
	}
	var key strings.Builder
	for i := range len(segment) {
		if mustEscape(segment, i, directory) {
			key.WriteByte('!')
			key.WriteByte(hexDigits[segment[i]>>4])
			key.WriteByte(hexDigits[segment[i]&15])
		} else {
			key.WriteByte(segment[i])
		}
	}
	return key.String()
}

const hexDigits = "0123456789ABCDEF"

// mustEscape reports whether the byte at i is escaped.
func mustEscape(segment string, i int, directory bool) bool {
	switch c := segment[i]; c {
	case '!', '"', '#', '%', '?', '\\', ':', '*', '<', '>', '|':
		return true
	case '@':
		return directory
	case '.', ' ': // Windows drops them at the end; .. is the parent directory
		return i == len(segment)-1
	case '_': // __0x is the escape of gocloud.dev
		return strings.HasPrefix(segment[i:], "__0x")
	default:
		return c < ' ' || c == 0x7f
	}
}

// NameOf returns the name of a key. It returns false for a key that no name has.
func NameOf(key string) (name string, ok bool) {
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
	return text, checkName(text) == nil && KeyOf(text) == key
}

// objectKey returns the key of a name below a prefix in an object store. If the key would
// be too long or too deep, it is the first segment, the organisation, and the hash of the
// name; the object's metadata then has the name.
func objectKey(prefix, name string) (key string, hashed bool) {
	key = prefix + KeyOf(name)
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

// isHashed reports whether the key ends with a hash of objectKey.
func isHashed(key string) bool {
	last := key[strings.LastIndexByte(key, '/')+1:]
	return len(last) == 1+2*sha256.Size && last[0] == '!' && strings.Trim(last[1:], "0123456789abcdef") == ""
}
