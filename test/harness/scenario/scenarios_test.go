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

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"collab/test/must"
	"collab/test/pages"
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
			code := Main(t.Context(), []string{"run", file}, &output, &output)
			fmt.Fprintf(&output, "exit %d\n", code)
			golden(t, strings.TrimSuffix(file, ".txt")+".report", output.String())
		})
	}
}

const page = "../../../docs/scenarios.md"

// TestThePageOfScenariosIsTrue compares the page's list with the acts, and runs its examples.
func TestThePageOfScenariosIsTrue(t *testing.T) {
	text := content(t, page)
	const heading = "\n## Acts\n"
	before, _, ok := strings.Cut(text, heading)
	if !ok {
		t.Fatal("the page has no list of acts")
	}
	want := before + heading + "\nAn argument in brackets can be left out.\n\n" + listOfActs()
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
	Main(t.Context(), []string{"run", "trial.txt"}, &output, &output)
	return output.String()
}

func TestTheSameScenarioComesOutTheSame(t *testing.T) {
	text := content(t, "../testdata/scenarios/trial.txt")
	first := played(t, "trial.txt", text)
	must.Equal(t, first, played(t, "trial.txt", text))
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
	for _, r := range pages.Routes(t) {
		if path, ok := strings.CutPrefix(r.Path, "/api/v1"); ok {
			routes = append(routes, r.Method+" "+path)
		}
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
