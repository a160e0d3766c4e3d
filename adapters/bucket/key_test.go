package bucket_test

import (
	"path"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"collab/adapters/bucket"
	"collab/test/must"
)

// nameGenerator draws names in which characters that keys escape are frequent.
func nameGenerator() *rapid.Generator[string] {
	letters := rapid.OneOf(rapid.SampledFrom([]rune("ab.@!+_ /%0x2e4EF")), rapid.SampledFrom([]rune("#\\:?*é名🦉\u0301")), rapid.Rune())
	return rapid.Custom(func(t *rapid.T) string {
		if rapid.Bool().Draw(t, "long") {
			return strings.Repeat(rapid.StringOfN(letters, 1, 8, -1).Draw(t, "part"), rapid.IntRange(1, 300).Draw(t, "times"))
		}
		return rapid.StringOfN(letters, 1, 40, -1).Draw(t, "name")
	}).Filter(func(s string) bool { return bucket.Check(s) == nil })
}

func TestKeys(t *testing.T) {
	t.Run("nameOf is the inverse of keyOf", func(t *testing.T) {
		rapid.Check(t, func(t *rapid.T) {
			name := nameGenerator().Draw(t, "name")
			key := bucket.KeyOf(name)
			if got, ok := bucket.NameOf(key); !ok || got != name {
				t.Fatalf("the key %q of %q is read as %q, %v", key, name, got, ok)
			}
		})
	})
	t.Run("a name has no other key", func(t *testing.T) {
		// Slightly changed keys: few random ones are valid.
		rapid.Check(t, func(t *rapid.T) {
			key := bucket.KeyOf(nameGenerator().Draw(t, "name"))
			at := rapid.IntRange(0, len(key)).Draw(t, "at")
			key = key[:at] + rapid.SampledFrom([]string{"!", "!+", "!+/", "!@", "!40", "!4", "!2e", "@", "/", "", "..", "ÿ"}).Draw(t, "put in") + key[at:]
			if name, ok := bucket.NameOf(key); ok && (bucket.Check(name) != nil || bucket.KeyOf(name) != key) {
				t.Fatalf("%q is read as %q", key, name)
			}
		})
	})
	t.Run("keys are valid in every store and file system", func(t *testing.T) {
		rapid.Check(t, func(t *rapid.T) {
			key := bucket.KeyOf(nameGenerator().Draw(t, "name"))
			if path.Clean("/"+key) != "/"+key || strings.ContainsAny(key, "\"#%?\\:*<>|\x7f") || strings.Contains(key, "__0x") {
				t.Fatalf("the key is %q", key)
			}
			for segment := range strings.SplitSeq(key, "/") {
				if segment == "" || len(segment) > 254 || strings.HasSuffix(segment, ".") || strings.HasSuffix(segment, " ") {
					t.Fatalf("the key %q has the segment %q", key, segment)
				}
			}
		})
	})
	t.Run("no blob's key is a directory of another's", func(t *testing.T) {
		rapid.Check(t, func(t *rapid.T) {
			a := nameGenerator().Draw(t, "a")
			b := a + "/" + nameGenerator().Draw(t, "b")
			if bucket.Check(b) != nil {
				t.Skip("too long")
			}
			if strings.HasPrefix(bucket.KeyOf(b), bucket.KeyOf(a)+"/") {
				t.Fatalf("%q lies in %q", bucket.KeyOf(b), bucket.KeyOf(a))
			}
		})
	})
	t.Run("object keys with a prefix are short enough", func(t *testing.T) {
		prefix := strings.Repeat("p", 128) + "/"
		rapid.Check(t, func(t *rapid.T) {
			name := nameGenerator().Draw(t, "name")
			key, _ := bucket.ObjectKey(prefix, name)
			if len(key) > 1024 || strings.Count(key, "/") >= 250 || !strings.HasPrefix(key, prefix) {
				t.Fatalf("%q has the key %q", name, key)
			}
		})
	})
	t.Run("ordinary names are their own keys", func(t *testing.T) {
		for _, name := range []string{
			"0198c0de-0000-7000-8000-000000000000/shared/hub-memory/org-memory.md@12-0198c0de",
			"o/workspaces/w/artifacts/Pläne 2026/Entwurf (2), final_v3.docx@1-x",
		} {
			must.Is(t, name, bucket.KeyOf(name))
		}
	})
}
