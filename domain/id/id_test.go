package id_test

import (
	"regexp"
	"testing"

	"collab/domain/id"
	"collab/test/must"
)

var canonical = regexp.MustCompile(`\A[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\z`)

func TestDigestIsSHA256InHexadecimal(t *testing.T) {
	must.Is(t, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad", id.Digest("abc"))
}

// FuzzParse holds what counts as an id in paths, bodies and queries to the
// canonical form of a UUID.
func FuzzParse(f *testing.F) {
	for _, s := range []string{
		"0198a1b2-c3d4-7e5f-8a6b-7c8d9e0f1a2b", "0198A1B2-C3D4-7E5F-8A6B-7C8D9E0F1A2B", "{0198a1b2-c3d4-7e5f-8a6b-7c8d9e0f1a2b}",
		"urn:uuid:0198a1b2-c3d4-7e5f-8a6b-7c8d9e0f1a2b", "0198a1b2c3d47e5f8a6b7c8d9e0f1a2b", "0198a1b2-c3d4-7e5f-8a6b-7c8d9e0f1a2b\n",
		"0198a1b2-c3d4-7e5f-8a6b-7c8d9e0f1a2g", "0198a1b2_c3d4-7e5f-8a6b-7c8d9e0f1a2b", "", "1", "null", "../tasks", "' OR 1=1 --",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got, ok := id.Parse[id.Task](s)
		if want := canonical.MatchString(s); ok != want {
			t.Fatalf("%q is an id: %v, want %v", s, ok, want)
		}
		if ok && string(got) != s || !ok && got != "" {
			t.Fatalf("%q became %q", s, got)
		}
	})
}
