package object_test

import (
	"errors"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"collab/domain/fault"
	"collab/domain/object"

	"golang.org/x/text/unicode/norm"
	"pgregory.net/rapid"
)

func TestPaths(t *testing.T) {
	segment := strings.Repeat("s", object.MaxSegment)
	for _, c := range []struct{ about, path, kept, problem string }{
		{"a name is a path", "notes.md", "notes.md", ""},
		{"folders are kept", "a/b/c.txt", "a/b/c.txt", ""},
		{"case is kept", "ReadMe.MD", "ReadMe.MD", ""},
		{"space inside a name is kept", "my notes.md", "my notes.md", ""},
		{"space before a name is kept", " notes", " notes", ""},
		{"a name may begin with a dot", ".env/.gitignore", ".env/.gitignore", ""},
		{"three dots before a letter are a name", "...a", "...a", ""},
		{"an escape is a name like others", "%2e%2e/%2fetc", "%2e%2e/%2fetc", ""},
		{"a tilde does not lead home", "~/x", "~/x", ""},
		{"variables are names", "$HOME/%APPDATA%", "$HOME/%APPDATA%", ""},
		{"letters of any script", "отчёт/報告/تقرير.md", "отчёт/報告/تقرير.md", ""},
		{"emoji with joiners", "👩‍👩‍👧.png", "👩‍👩‍👧.png", ""},
		{"what is decomposed is composed", "cafe\u0301", "café", ""},
		{"Hangul is composed", "\u1112\u1161\u11ab", "한", ""},
		{"Kelvin's sign is the letter K", "\u212a", "K", ""},
		{"a full-width slash is a letter", "a\uff0fb", "a\uff0fb", ""},
		{"a leader of one dot is no dot", "\u2024\u2024/x", "\u2024\u2024/x", ""},
		{"the longest segment", segment, segment, ""},
		{"1,024 bytes", strings.Repeat("abc/", 255) + "abcd", strings.Repeat("abc/", 255) + "abcd", ""},
		{"names that only begin as devices do", "CONTEXT/nullable/com10/auxiliary.md/LPT/com", "CONTEXT/nullable/com10/auxiliary.md/LPT/com", ""},

		{"nothing", "", "", "must not be empty"},
		{"from the root", "/etc/passwd", "", "must be relative"},
		{"a slash alone", "/", "", "must be relative"},
		{"another machine's", "//server/share", "", "must be relative"},
		{"up", "../x", "", "must not have the segments . and .."},
		{"up at the end", "a/..", "", "must not have the segments . and .."},
		{"up inside", "a/../../b", "", "must not have the segments . and .."},
		{"here", "./a", "", "must not have the segments . and .."},
		{"here inside", "a/./b", "", "must not have the segments . and .."},
		{"an empty segment", "a//b", "", "must not have empty segments"},
		{"a folder", "a/", "", "must not have empty segments"},
		{"up as Windows writes it", `..\x`, "", `must not contain any of \ : * ? " < > |`},
		{"a drive", "C:x", "", `must not contain any of \ : * ? " < > |`},
		{"a stream beside the file", "a.txt::$DATA", "", `must not contain any of \ : * ? " < > |`},
		{"a pattern", "*.md", "", `must not contain any of \ : * ? " < > |`},
		{"a question mark", "what?", "", `must not contain any of \ : * ? " < > |`},
		{"a quotation mark", `say "x"`, "", `must not contain any of \ : * ? " < > |`},
		{"redirections", "a>b", "", `must not contain any of \ : * ? " < > |`},
		{"a pipe", "a|b", "", `must not contain any of \ : * ? " < > |`},
		{"a null character", "a\x00b", "", "must not contain control characters"},
		{"a line break", "a\nb", "", "must not contain control characters"},
		{"delete", "a\x7f", "", "must not contain control characters"},
		{"the second control block", "a\u0085b", "", "must not contain control characters"},
		{"an override of direction", "a\u202egpj.exe", "", "must not contain control characters"},
		{"an isolate of direction", "a\u2066b", "", "must not contain control characters"},
		{"marks of direction", "a\u200fb", "", "must not contain control characters"},
		{"the Arabic mark of direction", "a\u061cb", "", "must not contain control characters"},
		{"broken UTF-8", "a\xff", "", "must be valid UTF-8"},
		{"a slash in two bytes", "..\xc0\xaf..", "", "must be valid UTF-8"},
		{"half of a surrogate pair", "\xed\xa0\x80", "", "must be valid UTF-8"},
		{"a dot at the end", "a.", "", "must not have segments that end with a dot or a space"},
		{"a dot at the end of a folder", "a./b", "", "must not have segments that end with a dot or a space"},
		{"three dots", "...", "", "must not have segments that end with a dot or a space"},
		{"space at the end", "a ", "", "must not have segments that end with a dot or a space"},
		{"space alone", " ", "", "must not have segments that end with a dot or a space"},
		{"up with space", ".. /x", "", "must not have segments that end with a dot or a space"},
		{"a segment of one byte too many", segment + "s", "", "must have segments of at most 255 bytes"},
		{"bytes of a segment are counted, not letters", strings.Repeat("é", 128), "", "must have segments of at most 255 bytes"},
		{"1,025 bytes", strings.Repeat("abc/", 255) + "abcde", "", "must be at most 1024 bytes"},
		{"far too long", strings.Repeat("e\u0301", 100_000), "", "must be at most 1024 bytes"},
		{"a device", "nul", "", "must not have a segment that is a device's name on Windows"},
		{"a device with an ending", "a/Con.tar.gz", "", "must not have a segment that is a device's name on Windows"},
		{"a device's folder", "aux/x", "", "must not have a segment that is a device's name on Windows"},
		{"a device, a space and an ending", "prn .txt", "", "must not have a segment that is a device's name on Windows"},
		{"a port", "COM1", "", "must not have a segment that is a device's name on Windows"},
		{"a port by a raised digit", "lpt².log", "", "must not have a segment that is a device's name on Windows"},
		{"the console", "CONOUT$", "", "must not have a segment that is a device's name on Windows"},
	} {
		t.Run(c.about, func(t *testing.T) {
			kept, err := object.ParsePath("fileName", c.path)
			if got := problem(t, "fileName", err); got != c.problem || kept != c.kept {
				t.Errorf("kept %q, problem %q; want %q, %q", kept, got, c.kept, c.problem)
			}
		})
	}
}

// problem returns what is wrong with the field, empty when nothing is.
func problem(t *testing.T, field string, err error) string {
	t.Helper()
	if err == nil {
		return ""
	}
	var e *fault.Error
	if !errors.As(err, &e) || e.Kind != fault.Invalid || len(e.Problems) != 1 || e.Problems[0].Field != field {
		t.Fatalf("got %v", err)
	}
	return e.Problems[0].Message
}

// onWindows is where Windows comes to from a folder by a path, segment by
// segment, and whether it stays below the folder: it takes both slashes, leaves
// out dots and spaces at the ends, and goes to devices from anywhere.
func onWindows(p string) (at []string, below bool) {
	if strings.ContainsRune(p, ':') || strings.HasPrefix(p, "/") || strings.HasPrefix(p, `\`) {
		return nil, false
	}
	for _, s := range strings.FieldsFunc(p, func(r rune) bool { return r == '/' || r == '\\' }) {
		if s == ".." {
			return nil, false
		}
		s = strings.TrimRight(s, ". ")
		name, _, _ := strings.Cut(s, ".")
		switch strings.ToUpper(strings.TrimRight(name, " ")) {
		case "CON", "PRN", "AUX", "NUL", "CONIN$", "CONOUT$", "COM1", "COM2", "COM3", "COM9", "COM¹", "LPT1", "LPT9", "LPT³":
			return nil, false
		}
		at = append(at, s)
	}
	return at, true
}

// checkPath checks what must hold for every path, and reports whether it was taken.
func checkPath(t rapid.TB, s string) bool {
	kept, err := object.ParsePath("path", s)
	if err != nil {
		if kept != "" || !fault.Is(err, fault.Invalid) || !utf8.ValidString(err.Error()) {
			t.Fatalf("%q is refused with %q, %v", s, kept, err)
		}
		return false
	}
	for _, form := range []string{kept, norm.NFD.String(s)} {
		if again, err := object.ParsePath("path", form); len(form) <= object.MaxPath && (err != nil || again != kept) {
			t.Fatalf("%q became %q, and %q became %q, %v", s, kept, form, again, err)
		}
	}
	if norm.NFC.String(s) != kept || len(kept) > object.MaxPath {
		t.Fatalf("%q became %q", s, kept)
	}
	if !fs.ValidPath(kept) || kept == "." {
		t.Fatalf("%q became %q", s, kept)
	}
	if at, below := onWindows(kept); !below || !slices.Equal(at, strings.Split(kept, "/")) {
		t.Fatalf("on Windows %q leads to %q, below: %v", kept, at, below)
	}
	// Apple's file systems take letters apart.
	if decomposed := norm.NFD.String(kept); !fs.ValidPath(decomposed) || strings.ContainsFunc(kept, unicode.IsControl) {
		t.Fatalf("decomposed, %q is %q", kept, decomposed)
	}
	return true
}

// awkward are pieces that paths are made of where somebody means harm.
var awkward = []string{
	"a", "B", "é", "e\u0301", "ß", "ẞ", "K", "\u212a", "ſ", "s", "ǰ", "J\u030c", "ι", "\u0345", "α", "\u0301", "İ", "ı", "Σ", "ς", "σ", "ŉ", "한", "\u1112\u1161\u11ab", "Ω", "\u2126", "\u0338", ">",
	"/", "//", "\\", ".", "..", "...", " ", "~", ":", "%2e", "%2f", "\x00", "\n", "\u202e", "\u200b", "\u200d", "\u2024", "\uff0f", "\ufeff", "\xff", "\xc0\xaf",
	"con", "NUL", "com1", "COM¹", "lpt", "conin$", "aux.", ".txt", "profile.json", "@1-", "-", "_", "$", "👩",
}

func awkwardPath() *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		return strings.Join(rapid.SliceOfN(rapid.SampledFrom(awkward), 0, 12).Draw(t, "pieces"), "")
	})
}

func TestAPathThatIsTakenStaysBelowItsFolderOnEverySystem(t *testing.T) {
	taken := 0
	rapid.Check(t, func(t *rapid.T) {
		if checkPath(t, rapid.OneOf(awkwardPath(), rapid.StringN(0, 30, 200)).Draw(t, "path")) {
			taken++
		}
	})
	if taken == 0 {
		t.Error("no path was taken")
	}
}

func FuzzParsePath(f *testing.F) {
	for _, s := range []string{
		"notes.md", "a/b/c.txt", "../x", "a/../b", "/etc/passwd", `..\..\x`, "C:/x", `\\server\share`, "a//b", "a/", "./a", ".", "..", "...", "", " ",
		"nul", "NUL.txt", "com1", "COM¹.log", "conin$", "aux /x", "a.", "a ", "cafe\u0301", "\u1112\u1161\u11ab", "\u212a", "a\u202eb", "a\u061cb", "a\x00b", "\xff", "\xc0\xae\xc0\xae/",
		"%2e%2e%2f", "a\uff0fb", "\u2024\u2024/", ">\u0338", "👩‍👩‍👧.png", strings.Repeat("é", 127), strings.Repeat("e\u0301", 400), strings.Repeat("a/", 512),
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) { checkPath(t, s) })
}

func TestFoldedForms(t *testing.T) {
	for _, c := range []struct {
		about, a, b string
		same        bool
	}{
		{"letters of two cases", "ReadMe.MD", "readme.md", true},
		{"letters with marks", "CAFÉ", "café", true},
		{"composed and not", "café", "cafe\u0301", true},
		{"composed in one case alone", "ǰ", "J\u030c", true},
		{"three cases of a sigma", "ΟΔΟΣ", "οδος", true},
		{"a title-case letter", "ǆ", "ǅ", true},
		{"Kelvin's sign", "\u212a", "k", true},
		{"the long s", "ſ", "S", true},
		{"the sharp s", "ß", "ẞ", true},
		{"an iota below a letter", "\u1fb3", "\u1fbc", true},
		{"an accent on another letter", "μάι", "μαί", false},
		{"a sharp s and two", "ß", "ss", false},
		{"the dotless i", "ı", "i", false},
		{"the dotted I", "İ", "I", false},
		{"full-width letters", "ａ", "a", false},
		{"an accent more", "é", "e", false},
		{"a ligature", "ﬁ", "fi", false},
		{"a space more", "a b", "ab", false},
	} {
		t.Run(c.about, func(t *testing.T) {
			if a, b := object.Fold(c.a), object.Fold(c.b); (a == b) != c.same {
				t.Errorf("%q is %+q, %q is %+q", c.a, a, c.b, b)
			}
		})
	}
}

func TestExactlyTheCasesOfACharacterFoldToOneForm(t *testing.T) {
	forms := map[string]rune{}
	for r := rune(0); r <= unicode.MaxRune; r++ {
		if !utf8.ValidRune(r) {
			continue
		}
		s := string(r)
		f := object.Fold(s)
		if object.Fold(f) != f {
			t.Errorf("%U folds to %+q and that to %+q", r, f, object.Fold(f))
		}
		if other := unicode.SimpleFold(r); object.Fold(string(other)) != f {
			t.Errorf("%U folds to %+q, another case of it, %U, to %+q", r, f, other, object.Fold(string(other)))
		}
		if kept := len(norm.NFC.String(s)); len(f) > 2*kept { // databases bound what they index
			t.Errorf("%U grows from %d bytes to %d", r, kept, len(f))
		}
		if strings.ContainsAny(f, "/") != (r == '/') {
			t.Errorf("%U folds to %+q", r, f)
		}
		first, seen := forms[f]
		if !seen {
			forms[f] = r
			continue
		}
		if a, b := norm.NFD.String(s), norm.NFD.String(string(first)); !strings.EqualFold(a, b) {
			t.Errorf("%U and %U fold to %+q", r, first, f)
		}
	}
}

func FuzzFold(f *testing.F) {
	for _, s := range []string{"ReadMe", "cafe\u0301", "ǰ", "J\u030c", "\u1fb3", "αι\u0301", "ᾼ", "İ", "ı", "\u0345\u0301", "\xff/x", "\u1e9b\u0323", "한", "ŉ", "ΐ", "ᾂ"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		once := object.Fold(s)
		if object.Fold(once) != once || !norm.NFC.IsNormalString(once) {
			t.Fatalf("%+q folds to %+q and that to %+q", s, once, object.Fold(once))
		}
		if !utf8.ValidString(s) {
			return
		}
		for _, other := range []string{norm.NFC.String(s), norm.NFD.String(s)} {
			if object.Fold(other) != once {
				t.Fatalf("%+q folds to %+q, %+q to %+q", s, once, other, object.Fold(other))
			}
		}
		if strings.Count(once, "/") != strings.Count(s, "/") {
			t.Fatalf("%+q folds to %+q", s, once)
		}
	})
}

func TestTheFoldersAboveAKey(t *testing.T) {
	for key, want := range map[string][]string{
		"A":        nil,
		"A/B":      {"A"},
		"O/X/Y/Z":  {"O", "O/X", "O/X/Y"},
		"É/Ü/FILE": {"É", "É/Ü"},
	} {
		if got := object.Ancestors(key); !slices.Equal(got, want) {
			t.Errorf("%q lies in %q, want %q", key, got, want)
		}
	}
}
