package task

import (
	"cmp"
	"slices"
	"time"

	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/org"
	"collab/domain/words"
)

// Filter selects tasks; all conditions must hold. The zero value selects all.
type Filter struct {
	Status       Status   // empty: any
	Priority     Priority // empty: any
	Assignee     Ref[id.User]
	Workspace    Ref[id.Workspace]
	Tags         []string  // any of them; empty: any task
	DueBefore    *Due      // the due date starts no later than this one ends
	DueAfter     *Due      // the due date ends no earlier than this one starts
	Newest       bool      // the newest first: by creation and then by id, both descending
	After        *Position // only tasks after this place, for paging
	Limit        int       // at most so many; 0: all
	Words        []string  // folded as words.Of returns them; each is in the folded title
	ExamineLimit int       // with words: at most so many tasks that meet the other conditions are examined; 0: all
}

// MaxExamined is how many tasks a search examines.
const MaxExamined = 100_000

// Check returns an error if the newest are asked for among those that meet conditions: there is no
// index in that order.
func (f Filter) Check() error {
	if f.Newest && (f.Status != "" || f.Priority != "" || f.Assignee.Given || f.Workspace.Given || len(f.Tags) > 0 || f.DueBefore != nil || f.DueAfter != nil) {
		return fault.Field("sort", "must not be given with filters")
	}
	return nil
}

// Compare orders tasks as the filter's list is.
func (f Filter) Compare(a, b Task) int {
	if f.Newest {
		return cmp.Or(b.CreatedAt.Compare(a.CreatedAt), cmp.Compare(b.ID, a.ID))
	}
	return Compare(a, b)
}

// Ref is a condition on an optional reference. The zero value accepts all.
type Ref[T comparable] struct {
	Given bool
	Unset bool // the reference must be unset
	ID    T
}

// matches reports whether the condition accepts the reference.
func (r Ref[T]) matches(v *T) bool {
	switch {
	case !r.Given:
		return true
	case r.Unset:
		return v == nil
	}
	return v != nil && *v == r.ID
}

// Position is a task's place in the order of lists.
type Position struct {
	SortOrder int64
	CreatedAt time.Time
	ID        id.Task
}

// Position returns the task's place in the order of lists.
func (t Task) Position() Position { return Position{t.SortOrder, t.CreatedAt, t.ID} }

// Selects reports whether the filter selects the task for the actor. Adapters
// express the same in SQL, but for words; the contract suite compares them.
func (f Filter) Selects(t Task, a org.Actor) bool {
	return t.VisibleTo(a) &&
		(f.Status == "" || t.status == f.Status) &&
		(f.Priority == "" || t.Priority == f.Priority) &&
		f.Assignee.matches(t.Assignee) && f.Workspace.matches(t.Workspace) &&
		(len(f.Tags) == 0 || slices.ContainsFunc(f.Tags, func(tag string) bool { return slices.Contains(t.Tags, tag) })) &&
		(f.DueBefore == nil || t.Due != nil && !t.Due.Start().After(f.DueBefore.End())) &&
		(f.DueAfter == nil || t.Due != nil && !t.Due.End().Before(f.DueAfter.Start())) &&
		words.In(t.Title, f.Words) &&
		(f.After == nil || f.Compare(t, Task{SortOrder: f.After.SortOrder, CreatedAt: f.After.CreatedAt, ID: f.After.ID}) > 0)
}
