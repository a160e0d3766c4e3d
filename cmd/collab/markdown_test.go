package main

import (
	"os"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"collab/test/must"
)

// rendered returns what a terminal shows of Markdown that arrives in parts.
func rendered(t *testing.T, width int, environment map[string]string, parts ...string) string {
	t.Helper()
	a, out, _ := terminal(t, width, environment)
	m := a.markdown()
	for _, part := range parts {
		must.Is(t, len(part), must.Do(m.Write([]byte(part))).Or(t))
	}
	must.NoError(t, m.Close())
	return out.String()
}

func TestMarkdownOnATerminal(t *testing.T) {
	source := must.Do(os.ReadFile("testdata/markdown/answer.md")).Or(t)
	got := strings.ReplaceAll(rendered(t, 40, nil, string(source)), "\x1b", "^")
	if *update {
		must.NoError(t, os.WriteFile("testdata/markdown/answer.txt", []byte(got), 0o644))
	}
	want := must.Do(os.ReadFile("testdata/markdown/answer.txt")).Or(t)
	must.Equal(t, string(want), got)
	for _, refusal := range []map[string]string{{"NO_COLOR": "1"}, {"TERM": "dumb"}} {
		if got := rendered(t, 40, refusal, string(source)); strings.Contains(got, "\x1b") {
			t.Errorf("with %v it has styles", refusal)
		}
	}
	if got := rendered(t, 40, nil, strings.SplitAfter(string(source), "")...); strings.ReplaceAll(got, "\x1b", "^") != string(want) {
		t.Error("in parts of one character it is another text")
	}
}

func TestBlocksThatAreDeepInOthersFitTheTerminal(t *testing.T) {
	for marks, want := range map[string]string{"> ": strings.Repeat("│ ", 10) + "end\n", "- ": strings.Repeat("• ", 10) + "end\n", "1) ": strings.Repeat("1. ", 7) + "end\n"} {
		must.Equal(t, want, rendered(t, 40, nil, strings.Repeat(marks, 1000)+"end\n"))
	}
}

func TestAStyleInTheSameStyleIsOne(t *testing.T) {
	must.Equal(t, "\x1b[3ma\x1b[0m \x1b[3mb\x1b[0m \x1b[3;1mc\x1b[0m \x1b[3mb\x1b[0m \x1b[3ma\x1b[0m\n", rendered(t, 40, nil, "*a *b **c** b* a*\n"))
}

func TestABlockIsPrintedWhenItHasEnded(t *testing.T) {
	a, out, _ := terminal(t, 40, nil)
	m := a.markdown()
	for _, step := range []struct{ part, want string }{
		{"One", ""}, {"\n\n", ""}, {"T", "One\n"}, {"wo\n\n```\na\n\nb\n", "One\n\nTwo\n"}, {"```\n\nend", "One\n\nTwo\n\n    ^[36ma^[0m\n    \n    ^[36mb^[0m\n"},
	} {
		must.Do(m.Write([]byte(step.part))).Or(t)
		if got := strings.ReplaceAll(out.String(), "\x1b", "^"); got != step.want {
			t.Errorf("after %q it is %q, want %q", step.part, got, step.want)
		}
	}
}

func TestMarkdownCannotControlTheTerminal(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		parts := rapid.SliceOfN(rapid.SampledFrom([]string{
			"\x1b[2J", "\u009b31m", "&#27;[2J", "&#x9b;", "&#x202e;", "\u202e", "\r", "\x9b", "\a", "`", "``", "```\n", "*", "**", "_", "~~", "[", "](", ")", "<", ">", "http://a", "\n", "\n\n", "    ", "\t", "- ", "1. ", "> ", "| ", "|-|-|\n", "# ", "\\", "a", "ß", "漢", "<b>", "<!--", "-->", "![",
		}), 0, 40).Draw(r, "parts")
		a, out, _ := terminal(t, rapid.IntRange(0, 30).Draw(r, "width"), map[string]string{"NO_COLOR": "1"})
		m := a.markdown()
		for _, part := range parts {
			must.Do(m.Write([]byte(part))).Or(r)
		}
		must.NoError(r, m.Close())
		if strings.ContainsAny(out.String(), "\x1b\u009b\u202e\r\a") {
			r.Fatalf("%q", out)
		}
	})
}
