package check_test

import (
	"errors"
	"strings"
	"testing"

	"collab/domain/check"
	"collab/domain/fault"
	"collab/test/must"
)

func TestNames(t *testing.T) {
	longest := strings.Repeat("é", check.MaxName)
	for _, c := range []struct{ about, value, kept, problem string }{
		{"a name is kept", "Ada", "Ada", ""},
		{"space around a name is taken off", " \t Ada Lovelace\n", "Ada Lovelace", ""},
		{"space inside a name stays", "Ada  Lovelace", "Ada  Lovelace", ""},
		{"characters are counted, not bytes", longest, longest, ""},
		{"one character more is too long", longest + "x", "", "must be at most 200 characters"},
		{"nothing is no name", "", "", "must not be empty"},
		{"space alone is no name", " \u00a0\n", "", "must not be empty"},
		{"a line break inside is refused", "a\nb", "", "must not contain control characters"},
		{"a null character is refused", "a\x00b", "", "must not contain control characters"},
		{"broken UTF-8 is refused", "a\xff", "", "must be valid UTF-8"},
	} {
		t.Run(c.about, func(t *testing.T) {
			var l check.List
			kept := l.Name("name", c.value)
			if got := problem(l.Err()); got != c.problem {
				t.Fatalf("problem %q, want %q", got, c.problem)
			}
			if c.problem == "" && kept != c.kept {
				t.Errorf("kept %q, want %q", kept, c.kept)
			}
		})
	}
}

func TestTexts(t *testing.T) {
	for _, c := range []struct{ about, value, problem string }{
		{"nothing is a text", "", ""},
		{"lines and tabs are part of a text", "a\n\tb", ""},
		{"characters are counted, not bytes", "ééééé", ""},
		{"one character more is too long", "éééééé", "must be at most 5 characters"},
		{"a null character is refused", "a\x00", "must not contain null characters"},
		{"broken UTF-8 is refused", "\xff", "must be valid UTF-8"},
	} {
		t.Run(c.about, func(t *testing.T) {
			var l check.List
			l.Text("description", c.value, 5)
			must.Is(t, c.problem, problem(l.Err()))
		})
	}
}

func TestEmailAddresses(t *testing.T) {
	for _, good := range []string{"a@b", "ada@example.com", "a.b+c@sub.example.com", "ünï@exämple.org", "'o@x.ie", "!#$%&'*+-/=?^_`{|}~@x",
		"-a-@4.b-c.d", "आ@उदाहरण.भारत", "a@" + strings.Repeat("b", 63) + ".c"} {
		var l check.List
		if got := l.Email("email", "  "+good+"\n"); got != good || l.Err() != nil {
			t.Errorf("%q gives %q, %v", good, got, l.Err())
		}
	}
	for _, bad := range []string{
		"", " ", "ada", "@example.com", "ada@", "a@b@c", "a b@c", "a\u00a0b@c", "a\x00@c", "<a@b>", "a@b,c@d", "a@b;c", `"a"@b`, "a@[1.2.3.4]", "a\xff@b",
		"a..b@c", ".a@b", "a.@b", ".@b", "a@b..c", "a@.b", "a@b.", "a@.", "a@-b", "a@b-", "a@b-.c", "a@b_c", "a@b/c", "a@b!", "a@b\u200bc", "a@🦉",
		"a@" + strings.Repeat("b", 64) + ".c",
		strings.Repeat("a", check.MaxEmail-1) + "@b",
	} {
		var l check.List
		if l.Email("email", bad); l.Err() == nil {
			t.Errorf("%q is taken for an e-mail address", bad)
		}
	}
}

func TestAllProblemsAreKeptAndTheFirstIsNamed(t *testing.T) {
	var l check.List
	must.NoError(t, l.Err())
	l.Name("title", "")
	l.Add("tags", "must be at most %d", 50)
	var e *fault.Error
	if !errors.As(l.Err(), &e) || e.Kind != fault.Invalid || e.Message != "title must not be empty" {
		t.Fatalf("got %v", l.Err())
	}
	if len(e.Problems) != 2 || e.Problems[1] != (fault.Problem{Field: "tags", Message: "must be at most 50"}) {
		t.Errorf("got %+v", e.Problems)
	}
}

func TestNamesOfAnEnumerationAreComparedExactly(t *testing.T) {
	for s, want := range map[string]bool{"LOW": true, "HIGH": true, "": false, "low": false, " LOW": false, "LOW,HIGH": false} {
		if got, ok := check.OneOf(s, "LOW", "HIGH"); ok != want || ok && got != s {
			t.Errorf("%q gives %q, %t", s, got, ok)
		}
	}
}

// problem returns the first problem's message, empty when there is none.
func problem(err error) string {
	var e *fault.Error
	if !errors.As(err, &e) {
		return ""
	}
	return e.Problems[0].Message
}

func TestNoMoreThanAHundredProblemsAreKept(t *testing.T) {
	var l check.List
	for i := range 1000 {
		l.Add("a", "is wrong for the %d. time", i)
	}
	var e *fault.Error
	if !errors.As(l.Err(), &e) || len(e.Problems) != 100 || e.Message != "a is wrong for the 0. time" {
		t.Errorf("%d problems of %v", len(e.Problems), l.Err())
	}
}
