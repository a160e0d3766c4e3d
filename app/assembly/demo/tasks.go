package demo

import (
	"context"
	"fmt"
	"slices"
	"time"

	"collab/adapters/apiclient"
	"collab/adapters/httpapi"
)

// planTasks plans a task for each action and subject of each workspace, on random days. Most are
// started and done within days; others stay open, are postponed, reprioritised or cancelled.
func (f *loader) planTasks() {
	for i, w := range workspaces {
		for _, a := range w.actions {
			for _, subject := range w.subjects {
				// A third is there from the beginning.
				day := 3
				if f.Random(3) > 0 {
					day += f.Random(days - 3)
				}
				if f.weekend(day) {
					day -= 2
				}
				f.planTask(i, day, a, subject)
			}
		}
	}
}

// planTask plans one task and its history from a day on.
func (f *loader) planTask(workspace, day int, a action, subject string) {
	var team []int // members who can see the workspace on that day
	for i, p := range people {
		if i == ada || p.role != viewer && p.day < day && slices.Contains(p.teams, workspaces[workspace].team) {
			team = append(team, i)
		}
	}
	creator, assignee := pick(f, team), -1 // nobody
	if f.Random(6) > 0 {
		assignee = pick(f, team)
	}
	priority := pick(f, []string{"LOW", "MEDIUM", "MEDIUM", "MEDIUM", "HIGH", "HIGH", "URGENT"})
	draft := apiclient.TaskDraft{Title: fmt.Sprintf(a.title, subject), Priority: &priority, Tags: []string{a.tag}}
	if a.description != "" {
		draft.Description = &a.description
	}
	if f.Random(4) == 0 {
		draft.Tags = append(draft.Tags, "quarter")
	}
	due := f.workday(day + 4 + f.Random(16))
	if f.Random(4) > 0 {
		date := f.date(due)
		draft.DueDate = &date
	}
	id := ""
	f.schedule(day, f.workingTime(), "making a task", func(ctx context.Context) error {
		draft.WorkspaceID = &f.workspaceIDs[workspace]
		if assignee >= 0 {
			draft.AssigneeID = &f.members[assignee].id
		}
		created, err := f.members[creator].CreateTask(ctx, draft)
		id = created.ID
		return err
	})
	change := func(day int, p apiclient.TaskPatch) {
		f.schedule(day, f.workingTime(), "changing a task", func(ctx context.Context) error {
			_, err := f.members[max(assignee, ada)].UpdateTask(ctx, id, p)
			return err
		})
	}
	status := func(s string) apiclient.TaskPatch { return apiclient.TaskPatch{Status: &s} }
	startDay := f.workday(day + 1 + f.Random(6))
	if f.Random(8) == 0 {
		next, reason := pick(f, []string{"LOW", "URGENT"}), pick(f, reasons)
		f.schedule(startDay, 7*time.Hour, "giving a task another priority", func(ctx context.Context) error {
			return f.send(ctx, f.members[creator].Client, httpapi.ReprioritizePath, nil, map[string]any{
				"changes": []map[string]any{{"taskId": id, "priority": next, "reason": reason}},
			})
		})
	}
	switch outcome := f.Random(20); {
	case outcome < 3: // it stays open
	case outcome == 3:
		change(startDay, status("CANCELLED"))
	default:
		change(startDay, status("IN_PROGRESS"))
		endDay := f.workday(startDay + 1 + f.Random(8))
		if outcome == 4 && draft.DueDate != nil {
			change(endDay, apiclient.TaskPatch{DueDate: apiclient.Set(f.date(f.workday(due + 7)))})
		} else if outcome > 5 {
			change(endDay, status("DONE"))
		}
	}
}

// date returns the date of a day.
func (f *loader) date(day int) string { return f.firstDay.AddDate(0, 0, day).Format(time.DateOnly) }
