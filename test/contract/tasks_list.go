package contract

import (
	"slices"
	"time"

	"pgregory.net/rapid"

	"collab/domain/id"
	"collab/domain/org"
	"collab/domain/task"
	"collab/domain/words"
	"collab/ports"
)

// taskFixture is what the property about lists draws from: one organisation full of
// tasks beside another one, and the values that its filters name.
type taskFixture struct {
	org        id.Org
	tasks      []task.Task
	users      []id.User      // two of the organisation, one of the other
	workspaces []id.Workspace // two of the organisation, one of the other
	dues       []task.Due
}

var (
	taskStatuses   = []task.Status{task.Todo, task.InProgress, task.Done, task.Cancelled}
	taskPriorities = []task.Priority{task.Low, task.Medium, task.High, task.Urgent}
	taskTitles     = []string{"x", "X-ray of Ängström", "A\u030angstro\u0308m", "ΧΣ % _ ' \\", "STRASSE", "straße"}
	taskTags       = []string{"bug", "Bug", "b_g", "bu%", "%", "ä", "Ä", `"bug"`, `\`, "'", "bug fix", "[bug]"}
)

// listProperty compares List with the domain's own word on which tasks a filter
// selects and in which order, over tasks that differ in everything that filters
// look at.
func listProperty(w *fixture) {
	const perCase = 4 // filters for each case of the property, which has 100 by default
	b := newTaskFixture(w)
	rapid.Check(w.T, func(t *rapid.T) {
		for range perCase {
			actor, f := b.actor(t), b.filter(t)
			var want []task.Task
			others := f
			others.Words = nil
			examined := 0
			for _, v := range slices.SortedFunc(slices.Values(b.tasks), f.Compare) {
				if others.Selects(v, actor) {
					if examined++; f.Selects(v, actor) && (len(f.Words) == 0 || f.ExamineLimit == 0 || examined <= f.ExamineLimit) {
						want = append(want, v)
					}
				}
			}
			if f.Limit > 0 {
				want = want[:min(f.Limit, len(want))]
			}
			var got []task.Task
			err := w.Tasks().List(w.ctx, b.org, actor, f, collect(&got))
			if err != nil {
				t.Fatalf("%+v for %+v: %v", f, actor, err)
			}
			if d := diff(got, want); d != "" {
				t.Fatalf("%+v for %+v (-want +got):\n%s", f, actor, d)
			}
		}
	})
}

// newTaskFixture fills two organisations with tasks that share few values, so that
// most filters select some. A generator with a fixed start makes them.
func newTaskFixture(w *fixture) taskFixture {
	w.Helper()
	const many = 200
	o, other := w.org().ID, w.org().ID
	stranger := w.member(other, org.Owner).ID
	b := taskFixture{org: o, users: []id.User{w.member(o, org.Owner).ID, w.member(o, org.Member).ID, stranger}, dues: taskDues()}
	tm, theirs := w.team(o, b.users[0]).ID, w.team(other, stranger).ID
	b.workspaces = []id.Workspace{w.workspace(o, tm, b.users[0]).ID, w.workspace(o, tm, b.users[0]).ID, w.workspace(other, theirs, stranger).ID}

	ids := several[id.Task](many)
	next := mixing()
	draw := func(o id.Org, i id.Task) task.Task {
		users, workspaces := b.users[:2], b.workspaces[:2]
		if o == other {
			users, workspaces = b.users[2:], b.workspaces[2:]
		}
		v := task.Task{
			ID: i, Org: o, Title: taskTitles[next(len(taskTitles))], Priority: taskPriorities[next(4)], SortOrder: int64(next(12)),
			CreatedBy: users[next(len(users))], CreatedAt: at(next(4)), UpdatedAt: at(9), Version: 1,
		}
		if n := next(len(users) + 1); n < len(users) {
			v.Assignee = &users[n]
		}
		if n := next(len(workspaces) + 1); n < len(workspaces) {
			v.Workspace = &workspaces[n]
		}
		if n := next(len(b.dues) + 2); n < len(b.dues) {
			v.Due = &b.dues[n]
		}
		for range next(4) {
			if tag := taskTags[next(len(taskTags))]; !slices.Contains(v.Tags, tag) {
				v.Tags = append(v.Tags, tag)
			}
		}
		status := taskStatuses[next(4)]
		if status == task.Done {
			return v.Restore(status, new(at(8)))
		}
		return v.Restore(status, nil)
	}
	var elsewhere []task.Task
	for n, i := range ids {
		if n%4 == 3 {
			elsewhere = append(elsewhere, draw(other, i))
		} else {
			b.tasks = append(b.tasks, draw(o, i))
		}
	}
	store(w, o, b.tasks)
	store(w, other, elsewhere)
	slices.SortFunc(b.tasks, task.Compare)
	return b
}

// mixing returns a function that returns numbers below n, the same in every run:
// a linear congruential generator, good enough to mix with.
func mixing() (next func(n int) int) {
	seed := uint64(1)
	return func(n int) int {
		seed = seed*6364136223846793005 + 1442695040888963407
		return int(seed>>33) % n
	}
}

// store adds the tasks and puts them at the places that they name.
func store(w *fixture, o id.Org, ts []task.Task) {
	w.Helper()
	w.atomic(func(r ports.Records) error {
		for _, v := range ts {
			_, err := r.Work().Tasks().Add(w.ctx, o, v)
			if err == nil {
				_, err = r.Work().Tasks().Revise(w.ctx, o, v.ID, func(task.Task) (task.Task, error) { return v, nil })
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// taskDues are days and instants on both sides of the limits of days.
func taskDues() []task.Due {
	day := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	dues := []task.Due{parsed("0001-01-01"), parsed("9999-12-31"), parsed("9999-12-31T23:59:59.999Z")}
	for n := range 3 {
		start := day.AddDate(0, 0, n)
		dues = append(dues, parsed(start.Format(time.DateOnly)), instant(start), instant(start.Add(12*time.Hour)), instant(start.Add(24*time.Hour-time.Millisecond)))
	}
	return dues
}

func (b taskFixture) actor(t *rapid.T) org.Actor {
	a := org.Actor{Org: b.org, User: rapid.SampledFrom(b.users).Draw(t, "actor"), Role: org.Member}
	if rapid.IntRange(0, 9).Draw(t, "without visibility") == 0 {
		return a
	}
	return seeing(a, nil, slices.DeleteFunc(slices.Clone(b.workspaces), func(id.Workspace) bool { return !rapid.Bool().Draw(t, "sees") }))
}

func (b taskFixture) filter(t *rapid.T) task.Filter {
	some := func(what string) bool { return rapid.IntRange(0, 3).Draw(t, what) == 0 }
	f := task.Filter{Newest: some("newest")}
	if some("status") {
		f.Status = rapid.SampledFrom(taskStatuses).Draw(t, "status")
	}
	if some("priority") {
		f.Priority = rapid.SampledFrom(taskPriorities).Draw(t, "priority")
	}
	if some("assignee") {
		f.Assignee = ref(t, b.users)
	}
	if some("workspace") {
		f.Workspace = ref(t, b.workspaces)
	}
	if some("tags") {
		f.Tags = rapid.SliceOfN(rapid.SampledFrom(append([]string{"none has this"}, taskTags...)), 1, 3).Draw(t, "tags")
	}
	if some("due before") {
		f.DueBefore = new(rapid.SampledFrom(b.dues).Draw(t, "due before"))
	}
	if some("due after") {
		f.DueAfter = new(rapid.SampledFrom(b.dues).Draw(t, "due after"))
	}
	if some("after") {
		f.After = new(rapid.SampledFrom(b.tasks).Draw(t, "after").Position())
		switch rapid.IntRange(0, 3).Draw(t, "moved") {
		case 0:
			f.After.SortOrder--
		case 1:
			f.After.CreatedAt = f.After.CreatedAt.Add(time.Millisecond)
		}
	}
	if some("words") {
		f.Words = words.Of(rapid.SampledFrom([]string{"x", "X", "ångström", "ÄNG x", "xς", "%", "_ '", `\`, "strasse", "ß", "none has this", "\x00"}).Draw(t, "words"))
		if some("examined") {
			f.ExamineLimit = rapid.IntRange(1, 50).Draw(t, "examined")
		}
	}
	if some("limit") {
		f.Limit = rapid.IntRange(1, 20).Draw(t, "limit")
	}
	return f
}

func ref[T comparable](t *rapid.T, from []T) task.Ref[T] {
	if rapid.IntRange(0, 3).Draw(t, "unset") == 0 {
		return task.Ref[T]{Given: true, Unset: true}
	}
	return task.Ref[T]{Given: true, ID: rapid.SampledFrom(from).Draw(t, "reference")}
}
