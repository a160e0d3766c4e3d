package task_test

import (
	"testing"
	"time"

	"collab/domain/patch"
	"collab/domain/task"
	"collab/test/must"

	"pgregory.net/rapid"
)

func TestCompletedAtIsSetExactlyWhileDone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		statuses := []task.Status{task.Todo, task.InProgress, task.Done, task.Cancelled}
		now := time.UnixMilli(0).UTC()
		k, err := task.New("t", "o", "u", task.Draft{Title: "x", Status: rapid.SampledFrom(statuses).Draw(t, "first")}, now)
		must.NoError(t, err)
		since := now
		for range rapid.IntRange(0, 20).Draw(t, "patches") {
			now = now.Add(time.Duration(rapid.IntRange(0, 1000).Draw(t, "ms")) * time.Millisecond)
			before := k
			var p task.Patch
			if rapid.Bool().Draw(t, "moves") {
				p.Status = patch.Value(rapid.SampledFrom(statuses).Draw(t, "to"))
			}
			if k, err = k.Apply(p, now); err != nil {
				t.Fatal(err)
			}
			if before.Status() != task.Done && k.Status() == task.Done {
				since = now
			}
			switch {
			case k.Status() != task.Done && k.CompletedAt() != nil:
				t.Fatalf("%s has completedAt", k.Status())
			case k.Status() == task.Done && (k.CompletedAt() == nil || !k.CompletedAt().Equal(since)):
				t.Fatalf("completedAt is %v, want %v", k.CompletedAt(), since)
			case k.Version != before.Version+1:
				t.Fatalf("version went from %d to %d", before.Version, k.Version)
			}
		}
	})
}
