package task

import (
	"slices"
	"time"

	"collab/domain/check"
)

// Imported returns the task of another deployment with its status, its completion and a trimmed title, or Invalid if no
// task can have its fields.
func (t Task) Imported(s Status, completedAt *time.Time) (Task, error) {
	var c check.List
	t.Title = c.Name("title", t.Title)
	tags := cleanTags(&c, t.Tags)
	t.check(&c)
	if !slices.Contains(Statuses, s) {
		c.Add("status", "must be one of TODO, IN_PROGRESS, DONE, CANCELLED")
	}
	if !slices.Contains(Priorities, t.Priority) {
		c.Add("priority", "must be one of LOW, MEDIUM, HIGH, URGENT")
	}
	if (completedAt != nil) != (s == Done) {
		c.Add("completedAt", "is that of a task that is DONE, and of no other")
	}
	if !slices.Equal(tags, t.Tags) {
		c.Add("tags", "must be trimmed and different")
	}
	if t.Version < 1 || t.Version > check.MaxVersion {
		c.Add("version", "must be between 1 and %d", int64(check.MaxVersion))
	}
	if t.SortOrder < 0 || t.SortOrder > 2*MaxSortOrder { // tasks are added after the last one
		c.Add("sortOrder", "must be between 0 and %d", 2*MaxSortOrder)
	}
	t.status, t.completedAt = s, completedAt
	return t, c.Err()
}
