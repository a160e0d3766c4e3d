package task_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"collab/domain/check"
	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/patch"
	"collab/domain/task"
	"collab/test/must"
)

func TestANewTaskHasTheDefaults(t *testing.T) {
	k := made(t, func(d *task.Draft) { d.Title = "  Plan the week " })
	if k.Title != "Plan the week" || k.Status() != task.Todo || k.Priority != task.Medium || k.CompletedAt() != nil || k.Version != 1 ||
		k.Assignee != nil || k.Workspace != nil || k.Due != nil || k.CreatedBy != "maker" || k.UpdatedAt != noon {
		t.Errorf("got %+v", k)
	}
}

func TestTagsAreTrimmedBoundedAndNotRepeated(t *testing.T) {
	many := make([]string, task.MaxTags+1)
	for i := range many {
		many[i] = strings.Repeat("x", i+1)
	}
	for _, c := range []struct {
		about   string
		tags    []string
		kept    []string
		problem bool
	}{
		{"tags keep their order and case", []string{"b", "B", "a"}, []string{"b", "B", "a"}, false},
		{"space around them is taken off, and then they repeat", []string{" a", "a ", "b"}, []string{"a", "b"}, false},
		{"no tags are no tags", []string{}, nil, false},
		{"the longest is accepted", []string{strings.Repeat("é", 64)}, []string{strings.Repeat("é", 64)}, false},
		{"one character more is too long", []string{strings.Repeat("é", 65)}, nil, true},
		{"an empty one is refused", []string{"a", " "}, nil, true},
		{"a comma is refused, as filters separate by it", []string{"a,b"}, nil, true},
		{"the most are accepted", many[:task.MaxTags], many[:task.MaxTags], false},
		{"one more is too many", many, nil, true},
	} {
		t.Run(c.about, func(t *testing.T) {
			k, err := task.New("t", "o", "u", task.Draft{Title: "x", Tags: c.tags}, noon)
			if c.problem {
				refused(t, err, "tags")
			} else if err != nil || !slices.Equal(k.Tags, c.kept) {
				t.Errorf("got %q, %v", k.Tags, err)
			}
		})
	}
}

func refused(t *testing.T, err error, field string) {
	t.Helper()
	var e *fault.Error
	if !errors.As(err, &e) || e.Kind != fault.Invalid || e.Problems[0].Field != field {
		t.Errorf("got %v, want a problem with %s", err, field)
	}
}

func TestFieldsThatATaskMustHaveCannotBeCleared(t *testing.T) {
	k := made(t, func(*task.Draft) {})
	for field, p := range map[string]task.Patch{
		"title":       {Title: patch.Null[string]()},
		"status":      {Status: patch.Null[task.Status]()},
		"priority":    {Priority: patch.Null[task.Priority]()},
		"description": {Description: patch.Value("\x00")},
		"metadata":    {Metadata: patch.Value(`{"a":"` + strings.Repeat("x", task.MaxMetadata) + `"}`)},
	} {
		_, err := k.Apply(p, noon)
		refused(t, err, field)
	}
}

func TestAPatchChangesOnlyWhatItNamesAndNullClears(t *testing.T) {
	text, ada, space := "text", id.User("ada"), id.Workspace("w")
	full := func(d *task.Draft) {
		d.Description, d.Assignee, d.Workspace, d.Due = &text, &ada, &space, due(t, "2026-01-31")
		d.Tags, d.Metadata = []string{"a"}, `{"a":1}`
	}
	k := made(t, full)
	same, err := k.Apply(task.Patch{}, noon.Add(time.Hour))
	if err != nil || len(task.Diff(k, same)) != 0 || same.Version != 2 || !same.UpdatedAt.Equal(noon.Add(time.Hour)) {
		t.Errorf("an empty patch makes it %+v, %v", same, err)
	}
	empty, err := k.Apply(task.Patch{
		Description: patch.Null[string](), Assignee: patch.Null[id.User](), Workspace: patch.Null[id.Workspace](),
		Due: patch.Null[task.Due](), Tags: patch.Null[[]string](), Metadata: patch.Null[string](),
	}, noon)
	if err != nil || empty.Description != nil || empty.Assignee != nil || empty.Workspace != nil || empty.Due != nil || len(empty.Tags) != 0 || empty.Metadata != "" {
		t.Errorf("got %+v, %v", empty, err)
	}
	if empty.Title != k.Title || empty.Priority != k.Priority || empty.Status() != k.Status() {
		t.Errorf("what was not named changed: %+v", empty)
	}
}

func TestHistoryNamesWhatChangedAndKeepsLongTextsOut(t *testing.T) {
	was := made(t, func(*task.Draft) {})
	is := must.Do(was.Apply(task.Patch{
		Title: patch.Value("y"), Description: patch.Value("secret plan"), Status: patch.Value(task.Done), Priority: patch.Value(task.Low),
		Assignee: patch.Value(id.User("ada")), Due: patch.Value(*due(t, "2026-01-31")), Tags: patch.Value([]string{"a", "b"}), Metadata: patch.Value(`{"secret":1}`),
	}, noon)).Or(t)
	show := func(s *string) string {
		if s == nil {
			return "-"
		}
		return *s
	}
	var got []string
	for _, d := range task.Diff(was, is) {
		got = append(got, d.Field+" "+show(d.From)+" "+show(d.To))
	}
	want := []string{
		"title x y", "description - -", "status TODO DONE", "priority MEDIUM LOW", "assigneeId - ada",
		"dueDate - 2026-01-31", "tags - a,b", "metadata - -",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestACloneSharesNoTags(t *testing.T) {
	k := made(t, func(d *task.Draft) { d.Tags = []string{"a"} })
	k.Clone().Tags[0] = "b"
	if k.Tags[0] != "a" {
		t.Error("the clone's tags are the original's")
	}
}

func TestReprioritizationsAreChecked(t *testing.T) {
	for about, c := range map[string]struct {
		of   task.Reprioritization
		want string // the field that is wrong
	}{
		"no reason":             {task.Reprioritization{}, "reason"},
		"a reason of space":     {task.Reprioritization{Reason: " \t\n\u2003"}, "reason"},
		"a reason with space":   {task.Reprioritization{Reason: " later "}, ""},
		"a long reason":         {task.Reprioritization{Reason: strings.Repeat("é", check.MaxReason+1)}, "reason"},
		"a sort order below":    {task.Reprioritization{Reason: "now", SortOrder: new(int64(-1))}, "sortOrder"},
		"the first sort order":  {task.Reprioritization{Reason: "now", SortOrder: new(int64(0))}, ""},
		"the last sort order":   {task.Reprioritization{Reason: "now", SortOrder: new(int64(task.MaxSortOrder))}, ""},
		"a sort order above it": {task.Reprioritization{Reason: "now", SortOrder: new(int64(task.MaxSortOrder + 1))}, "sortOrder"},
	} {
		var l check.List
		c.of.Check(&l)
		if err := l.Err(); (err == nil) != (c.want == "") || err != nil && !strings.HasPrefix(err.Error(), c.want+" ") {
			t.Errorf("%s: %v, want an error of %q", about, err, c.want)
		}
	}
}

func TestReprioritizingChangesOnlyWhatIsGiven(t *testing.T) {
	k := made(t, func(*task.Draft) {})
	high, place := task.High, int64(7)
	if got := k.Placed(k.Placement().Reprioritized(task.Reprioritization{Priority: &high}), noon); got.Priority != task.High || got.SortOrder != k.SortOrder || got.Version != 2 {
		t.Errorf("got %+v", got)
	}
	if got := k.Placed(k.Placement().Reprioritized(task.Reprioritization{SortOrder: &place}), noon); got.Priority != k.Priority || got.SortOrder != 7 {
		t.Errorf("got %+v", got)
	}
}
