package scenario

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"collab/test/must"
)

var update = flag.Bool("update", false, "write the golden files")

func files(t testing.TB, pattern string) []string {
	t.Helper()
	all, err := filepath.Glob(pattern)
	if err != nil || len(all) == 0 {
		t.Fatalf("%s: %d files, %v", pattern, len(all), err)
	}
	return all
}

func content(t testing.TB, file string) string {
	t.Helper()
	text := must.Do(os.ReadFile(file)).Or(t)
	return string(text)
}

// golden holds what was printed against a file.
func golden(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		must.NoError(t, os.WriteFile(file, []byte(got), 0o644))
	}
	if diff := cmp.Diff(content(t, file), got); diff != "" {
		t.Errorf("%s is not what is printed; run the test with -update (-file +printed)\n%s", file, diff)
	}
}

// played plays a scenario, which has to be one.
func played(t *testing.T, file, text string) report {
	t.Helper()
	s, errs := parse(file, text)
	for _, err := range errs {
		t.Error(err)
	}
	if len(errs) > 0 {
		t.FailNow()
	}
	return must.Do(s.run(t.Context())).Or(t)
}

func TestScenarios(t *testing.T) {
	for _, file := range files(t, "../testdata/scenarios/*.txt") {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			r := played(t, file, content(t, file))
			for _, f := range r.Failures {
				t.Error(f)
			}
			if r.Acts == 0 || r.Expectations == 0 {
				t.Errorf("nothing is expected: %s", r)
			}
		})
	}
}

// TestFailuresAreReported runs the wrong files of testdata/failing, beside each of which is the expected output.
func TestFailuresAreReported(t *testing.T) {
	t.Chdir("../testdata/failing")
	for _, file := range files(t, "*.txt") {
		t.Run(file, func(t *testing.T) {
			var output bytes.Buffer
			code := Main(t.Context(), []string{"run", file}, nil, &output, &output)
			fmt.Fprintf(&output, "exit %d\n", code)
			golden(t, strings.TrimSuffix(file, ".txt")+".report", output.String())
		})
	}
}

func TestExitCodes(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		must.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	good := write("good.txt", "ada sign-up\n    user.name = Ada\n")
	bad := write("bad.txt", "ada sign-up\n    user.name = Bob\n")
	odd := write("odd.txt", "ada sing-up\n")
	long := write("long.txt", strings.Repeat("# "+strings.Repeat("x", 1000)+"\n", 1100))
	for _, run := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"run", good}, 0, "ok " + good + " (1 acts, 1 expectations, simulated 0.0 days in"},
		{[]string{"run", bad}, 1, "bad.txt:2: user.name = Bob"},
		{[]string{"run", bad, good}, 1, "ok " + good},
		{[]string{"run", odd}, 2, `odd.txt:1: unknown act "sing-up", did you mean "sign-up"?`},
		{[]string{"run", odd, bad, good}, 2, "ok " + good},
		{[]string{"run", long}, 2, "long.txt:1: the file is longer than 1048576 bytes"},
		{[]string{"run", filepath.Join(dir, "missing.txt")}, 2, "missing.txt"},
		{[]string{"run"}, 2, "Usage:"},
		{[]string{"play"}, 2, "Usage:"},
		{nil, 2, "Usage:"},
		{[]string{"help"}, 0, "Usage:"},
		{[]string{"acts"}, 0, "- `<person> sign-up"},
	} {
		var output bytes.Buffer
		if code := Main(t.Context(), run.args, nil, &output, &output); code != run.code || !strings.Contains(output.String(), run.says) {
			t.Errorf("harness %s ends with %d, want %d, and says %q", strings.Join(run.args, " "), code, run.code, output.String())
		}
	}
}

func TestAConversationGoesOnWhateverIsWritten(t *testing.T) {
	for _, file := range files(t, "../testdata/repl/*.in") {
		var output bytes.Buffer
		code := Main(t.Context(), []string{"repl"}, strings.NewReader(content(t, file)), &output, &output)
		fmt.Fprintf(&output, "exit %d\n", code)
		golden(t, strings.TrimSuffix(file, ".in")+".report", output.String())
	}
}

const page = "../../../docs/scenarios.md"

// TestThePageOfScenariosIsTrue compares the page's list with the acts, and runs its examples.
func TestThePageOfScenariosIsTrue(t *testing.T) {
	var list strings.Builder
	must.NoError(t, printActs(&list))
	text := content(t, page)
	const heading = "\n## Acts\n"
	before, _, ok := strings.Cut(text, heading)
	if !ok {
		t.Fatal("the page has no list of acts")
	}
	want := before + heading + "\nThis list is printed by `go run ./cmd/harness acts`. An argument in brackets can be left\nout.\n\n" + list.String()
	golden(t, page, want)

	blocks := regexp.MustCompile("(?s)```text\n(.*?)```").FindAllStringSubmatch(text, -1)
	if len(blocks) < 4 {
		t.Fatalf("%d examples", len(blocks))
	}
	t.Chdir(t.TempDir())
	played := 0
	for _, b := range blocks {
		if !strings.Contains(b[1], "sign-up") {
			continue
		}
		played++
		output := runText(t, b[1])
		if !strings.HasPrefix(output, "ok ") {
			t.Errorf("%s\n%s", b[1], output)
		}
	}
	if played < 4 {
		t.Errorf("%d examples are scenarios", played)
	}
	timeless := regexp.MustCompile(`in \d+\.\ds\)`)
	first := blocks[0][1]
	if got := timeless.ReplaceAllString(runText(t, first), "in 0.0s)"); got != blocks[1][1] {
		t.Errorf("the first example says %q", got)
	}
	if got := runText(t, strings.Replace(first, "    plan = FREE", "    plan = STANDARD", 1)); got != blocks[2][1] {
		t.Errorf("the first example that fails says %q", got)
	}
}

// runText plays a scenario as the program does, in the present directory.
func runText(t *testing.T, text string) string {
	t.Helper()
	must.NoError(t, os.WriteFile("trial.txt", []byte(text), 0o600))
	var output bytes.Buffer
	Main(t.Context(), []string{"run", "trial.txt"}, nil, &output, &output)
	return output.String()
}

func TestTheSameScenarioComesOutTheSame(t *testing.T) {
	text := content(t, "../testdata/scenarios/trial.txt")
	first := played(t, "trial.txt", text)
	must.Equal(t, first, played(t, "trial.txt", text))
}

func FuzzParse(f *testing.F) {
	for _, dir := range []string{"../testdata/scenarios/*.txt", "../testdata/failing/*.txt"} {
		for _, file := range files(f, dir) {
			f.Add(content(f, file))
		}
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, errs := parse("fuzz.txt", text)
		if (s == nil) == (len(errs) == 0) {
			t.Errorf("%v, %v", s, errs)
		}
		for _, err := range errs {
			if !regexp.MustCompile(`^fuzz\.txt:\d+: .`).MatchString(err.Error()) {
				t.Errorf("the error %q names no line", err)
			}
		}
	})
}

// anyValue draws an argument: one that may make sense, or one that does not.
func anyValue(t *rapid.T, label string) string {
	return rapid.SampledFrom([]string{
		"@ada", "@bob", "@engines", "@x", "@x.url", "@x.inviteUrl", "@x.token", "@x.sharedWorkspaceId", "@x.cursor", "@x.ETag", "none", "MEMBER", "OWNER", "PREMIUM", "STANDARD",
		"NO_PLAN", "DONE", "HIGH", "notes", "search", "weather", "true", "false", "0", "-1", "7", "9223372036854775807", "99999999999999999999", "+1d", "-400d", "1.2.0", "darwin",
		"arm64", `""`, `"a b"`, `{"apiKey":"k"}`, "../../etc/passwd", "a/b.txt", "active", "past_due", "canceled", "incomplete_expired", "reversed", "Atomic",
		"refused", "crash-after", "retried", "overloaded", "$$", `"\n"`, "bob@example.com", "1-0", `["@x","@x"]`, "tomorrow",
	}).Draw(t, label)
}

var fields = []string{
	"title", "status", "assigneeId", "workspaceId", "name", "teamId", "userId", "role", "email", "plan", "seats", "path", "content", "kind", "scope", "expectedVersion", "message",
	"providerId", "credentials", "state", "token", "identityToken", "version", "platform", "arch", "since", "limit", "cursor", "order", "taskIds", "If-Match", "Authorization",
}

// anyLine draws an act with arguments that it takes, or a request to one of the routes.
func anyLine(t *rapid.T, routes []string) string {
	a := rapid.SampledFrom(acts).Draw(t, "act")
	names, line := a.names(), a.title()
	if a.party == person {
		line = rapid.SampledFrom([]string{"ada", "ada", "bob", "cleo"}).Draw(t, "who") + " " + a.name
	}
	switch {
	case a.free:
		path := rapid.SampledFrom(routes).Draw(t, "path")
		line = strings.TrimSuffix(line, a.name) + regexp.MustCompile(`\{\w+\}`).ReplaceAllStringFunc(path, func(string) string {
			return rapid.SampledFrom([]string{"@ada", "@engines", "@x", "user", "1"}).Draw(t, "segment")
		})
		names = fields
	case a.needsSubject() || a.subject != "" && rapid.Bool().Draw(t, "with it"):
		line += " " + anyValue(t, "subject")
	}
	required := a.required()
	for _, name := range names {
		if slices.Contains(required, name) || rapid.IntRange(0, 3).Draw(t, "given") == 0 {
			line += " " + name + "=" + anyValue(t, name)
		}
	}
	if rapid.IntRange(0, 2).Draw(t, "named") == 0 {
		line += " as x"
	}
	return line
}

func TestNoSequenceOfActsIsAnInternalError(t *testing.T) {
	var routes []string
	for _, m := range regexp.MustCompile("(?m)^\\| ([A-Z]+) \\| `/api/v1([^`]+)`").FindAllStringSubmatch(content(t, "../../../docs/routes.md"), -1) {
		routes = append(routes, m[1]+" "+m[2])
	}
	rapid.Check(t, func(t *rapid.T) {
		lines := []string{`ada sign-up org=Engines as engines`, "ada POST /auth/seed-onboarding as x", "bob join @engines"}
		for range rapid.IntRange(1, 30).Draw(t, "acts") {
			lines = append(lines, anyLine(t, routes))
		}
		s, errs := parse("any.txt", strings.Join(lines, "\n"))
		if len(errs) > 0 {
			t.Fatal(errs)
		}
		r := must.Do(newRun("any.txt")).Or(t)
		defer r.close()
		for _, step := range s.steps {
			var wrong *misuse
			if _, err := r.perform(context.Background(), step); err != nil && !errors.As(err, &wrong) && refusalOf(err).status == "500" {
				t.Fatalf("%s\n%v", step.text, err)
			}
		}
	})
}

func TestDurationsHaveDays(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"0s": 0, "14d": 14 * 24 * time.Hour, "1d3h30m": 27*time.Hour + 30*time.Minute, "500ms": 500 * time.Millisecond, "1d1ms": 24*time.Hour + time.Millisecond,
	} {
		if d, ok := parseSpan(text); !ok || d != want {
			t.Errorf("%s is read as %v, %v", text, d, ok)
		}
	}
	for _, text := range []string{"", "d", "14", "-14d", "1d-3h", "+1d", "1.5d", "36601d", "99999999999d", "1y"} {
		if d, ok := parseSpan(text); ok {
			t.Errorf("%q is read as %v", text, d)
		}
	}
}
