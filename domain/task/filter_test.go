package task_test

import (
	"maps"
	"slices"
	"testing"
	"time"

	"collab/domain/id"
	"collab/domain/org"
	"collab/domain/task"
	"collab/test/must"
)

var noon = time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)

// made returns a task that everybody in the organisation sees, as change has it.
func made(t *testing.T, change func(*task.Draft)) task.Task {
	t.Helper()
	d := task.Draft{Title: "x"}
	change(&d)
	return must.Do(task.New("t", "o", "maker", d, noon)).Or(t)
}

func due(t *testing.T, s string) *task.Due {
	t.Helper()
	d, ok := task.ParseDue(s)
	if !ok {
		t.Fatalf("%q is no due date", s)
	}
	return &d
}

// ofOneTeam is the visibility of the workspace w alone.
func ofOneTeam() *org.Visibility {
	return org.NewStructure([]id.Team{"team"}, maps.All(map[id.Workspace]id.Team{"w": "team"})).
		Visibility(0, func(int) (visible, belongs bool) { return true, true })
}

func TestFilters(t *testing.T) {
	user, space := id.User("ada"), id.Workspace("w")
	me := org.Actor{User: "me", Role: org.Member, Visibility: ofOneTeam()}
	plain := made(t, func(*task.Draft) {})
	rich := made(t, func(d *task.Draft) {
		d.Status, d.Priority, d.Assignee, d.Workspace, d.Tags = task.Done, task.High, &user, &space, []string{"a", "b"}
	})
	for _, c := range []struct {
		about  string
		filter task.Filter
		of     task.Task
		want   bool
	}{
		{"no condition selects all", task.Filter{}, plain, true},
		{"the status is the same", task.Filter{Status: task.Done}, rich, true},
		{"the status is another", task.Filter{Status: task.Todo}, rich, false},
		{"the priority is the default", task.Filter{Priority: task.Medium}, plain, true},
		{"the priority is another", task.Filter{Priority: task.Medium}, rich, false},
		{"the assignee is the same", task.Filter{Assignee: task.Ref[id.User]{Given: true, ID: "ada"}}, rich, true},
		{"the assignee is another", task.Filter{Assignee: task.Ref[id.User]{Given: true, ID: "ben"}}, rich, false},
		{"nobody is not the assignee asked for", task.Filter{Assignee: task.Ref[id.User]{Given: true, ID: "ada"}}, plain, false},
		{"nobody is assigned", task.Filter{Assignee: task.Ref[id.User]{Given: true, Unset: true}}, plain, true},
		{"somebody is assigned", task.Filter{Assignee: task.Ref[id.User]{Given: true, Unset: true}}, rich, false},
		{"the workspace is the same", task.Filter{Workspace: task.Ref[id.Workspace]{Given: true, ID: "w"}}, rich, true},
		{"there is no workspace", task.Filter{Workspace: task.Ref[id.Workspace]{Given: true, Unset: true}}, plain, true},
		{"one of the tags is enough", task.Filter{Tags: []string{"z", "b"}}, rich, true},
		{"none of the tags is there", task.Filter{Tags: []string{"z", "A"}}, rich, false},
		{"an untagged task has none of the tags", task.Filter{Tags: []string{"a"}}, plain, false},
		{"all conditions hold", task.Filter{Status: task.Done, Priority: task.High, Tags: []string{"a"}}, rich, true},
		{"one condition of several fails", task.Filter{Status: task.Done, Priority: task.Low, Tags: []string{"a"}}, rich, false},
		{"a task without due date is not due before", task.Filter{DueBefore: due(t, "2030-01-01")}, plain, false},
		{"a task without due date is not due after", task.Filter{DueAfter: due(t, "2020-01-01")}, plain, false},
	} {
		t.Run(c.about, func(t *testing.T) {
			must.Is(t, c.want, c.filter.Selects(c.of, me))
		})
	}
}

func TestDueFiltersAreInclusiveAndADayMatchesWhenItOverlaps(t *testing.T) {
	for _, c := range []struct {
		task, before, after string
		want                bool
	}{
		{"2026-01-31", "2026-01-31", "", true},
		{"2026-01-31", "2026-01-30", "", false},
		{"2026-01-31", "", "2026-01-31", true},
		{"2026-01-31", "", "2026-02-01", false},
		{"2026-01-31", "2026-01-31T00:00:00Z", "", true},
		{"2026-01-31", "2026-01-30T23:59:59.999Z", "", false},
		{"2026-01-31", "", "2026-01-31T23:59:59.999Z", true},
		{"2026-01-31", "", "2026-02-01T00:00:00Z", false},
		{"2026-01-31T10:00:00Z", "2026-01-31", "", true},
		{"2026-01-31T10:00:00Z", "", "2026-01-31", true},
		{"2026-01-31T10:00:00Z", "2026-01-31T10:00:00Z", "2026-01-31T10:00:00Z", true},
		{"2026-01-31T10:00:00Z", "2026-01-31T09:59:59.999Z", "", false},
		{"2026-01-31T10:00:00Z", "", "2026-01-31T10:00:00.001Z", false},
		{"2026-01-31", "2026-02-10", "2026-01-10", true},
		{"2026-01-31T12:00:00Z", "2026-01-31", "2026-01-31", true},
		{"2026-01-31", "2026-01-10", "2026-02-10", false},
	} {
		f := task.Filter{}
		if c.before != "" {
			f.DueBefore = due(t, c.before)
		}
		if c.after != "" {
			f.DueAfter = due(t, c.after)
		}
		k := made(t, func(d *task.Draft) { d.Due = due(t, c.task) })
		if got := f.Selects(k, org.Actor{}); got != c.want {
			t.Errorf("due %s, before %q, after %q: %v", c.task, c.before, c.after, got)
		}
	}
}

func TestVisibilityOfTasks(t *testing.T) {
	ada, space := id.User("ada"), id.Workspace("w")
	everybodys := made(t, func(*task.Draft) {})
	ofSpace := made(t, func(d *task.Draft) { d.Workspace, d.Assignee = &space, &ada })
	inside := ofOneTeam()
	for _, c := range []struct {
		about string
		task  task.Task
		actor org.Actor
		want  bool
	}{
		{"anybody sees a task of the organisation", everybodys, org.Actor{User: "x"}, true},
		{"who sees the workspace sees its tasks", ofSpace, org.Actor{User: "x", Visibility: inside}, true},
		{"who does not see the workspace sees none", ofSpace, org.Actor{User: "x", Role: org.Owner, Visibility: &org.Visibility{}}, false},
		{"the assignee sees it anyhow", ofSpace, org.Actor{User: "ada"}, true},
		{"the creator sees it anyhow", ofSpace, org.Actor{User: "maker"}, true},
	} {
		t.Run(c.about, func(t *testing.T) {
			if got := c.task.VisibleTo(c.actor); got != c.want {
				t.Errorf("sees it: %v", got)
			}
		})
	}
}

func TestTheNewestAreListedFirstWithoutConditions(t *testing.T) {
	older := task.Task{ID: "02", SortOrder: 0, CreatedAt: noon}
	for _, newer := range []task.Task{{ID: "01", SortOrder: 5, CreatedAt: noon.Add(time.Millisecond)}, {ID: "03", CreatedAt: noon}} {
		f := task.Filter{Newest: true, After: new(newer.Position())}
		if f.Compare(newer, older) >= 0 || !f.Selects(older, org.Actor{}) || f.Selects(newer, org.Actor{}) {
			t.Errorf("the older task is not after %+v", newer.Position())
		}
		must.NoError(t, f.Check())
	}
	for _, f := range []task.Filter{
		{Status: task.Todo}, {Priority: task.Low}, {Assignee: task.Ref[id.User]{Given: true}}, {Workspace: task.Ref[id.Workspace]{Given: true}},
		{Tags: []string{"a"}}, {DueBefore: due(t, "2026-01-01")}, {DueAfter: due(t, "2026-01-01")},
	} {
		if err := f.Check(); err != nil {
			t.Errorf("%+v: %v", f, err)
		}
		if f.Newest = true; f.Check() == nil {
			t.Errorf("%+v is taken", f)
		}
	}
}

func TestTheOrderOfListsIsSortOrderThenCreationThenID(t *testing.T) {
	at := func(order int64, minute int, name id.Task) task.Task {
		return task.Task{SortOrder: order, CreatedAt: noon.Add(time.Duration(minute) * time.Minute), ID: name}
	}
	want := []task.Task{at(-1, 9, "z"), at(0, 1, "c"), at(0, 2, "a"), at(0, 2, "b"), at(1, 0, "a")}
	got := []task.Task{want[4], want[2], want[0], want[3], want[1]}
	slices.SortFunc(got, task.Compare)
	for i := range want {
		if got[i].Position() != want[i].Position() {
			t.Fatalf("place %d has %+v, want %+v", i, got[i].Position(), want[i].Position())
		}
		after := want[i].Position()
		for j, k := range want {
			if sel := (task.Filter{After: &after}).Selects(k, org.Actor{}); sel != (j > i) {
				t.Errorf("a page after place %d has place %d: %v", i, j, sel)
			}
		}
	}
}
