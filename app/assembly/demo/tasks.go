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
// begun and done within days; some wait, are postponed, get another priority or are cancelled.
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
	var team []int // who can do it on that day
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
		made, err := f.members[creator].CreateTask(ctx, draft)
		id = made.ID
		return err
	})
	change := func(day int, p apiclient.TaskPatch) {
		f.schedule(day, f.workingTime(), "changing a task", func(ctx context.Context) error {
			_, err := f.members[max(assignee, ada)].UpdateTask(ctx, id, p)
			return err
		})
	}
	status := func(s string) apiclient.TaskPatch { return apiclient.TaskPatch{Status: &s} }
	begins := f.workday(day + 1 + f.Random(6))
	if f.Random(8) == 0 {
		next, reason := pick(f, []string{"LOW", "URGENT"}), pick(f, reasons)
		f.schedule(begins, 7*time.Hour, "giving a task another priority", func(ctx context.Context) error {
			return f.send(ctx, f.members[creator].Client, httpapi.ReprioritizePath, nil, map[string]any{
				"changes": []map[string]any{{"taskId": id, "priority": next, "reason": reason}},
			})
		})
	}
	switch outcome := f.Random(20); {
	case outcome < 3: // it waits
	case outcome == 3:
		change(begins, status("CANCELLED"))
	default:
		change(begins, status("IN_PROGRESS"))
		ends := f.workday(begins + 1 + f.Random(8))
		if outcome == 4 && draft.DueDate != nil {
			change(ends, apiclient.TaskPatch{DueDate: apiclient.Set(f.date(f.workday(due + 7)))})
		} else if outcome > 5 {
			change(ends, status("DONE"))
		}
	}
}

// date returns the date of a day.
func (f *loader) date(day int) string { return f.first.AddDate(0, 0, day).Format(time.DateOnly) }
