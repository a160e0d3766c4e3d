package workspace_test

import (
	"fmt"
	"slices"
	"testing"

	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/workspace"
	"collab/test/must"

	"pgregory.net/rapid"
)

// TestOrderFollowsAnySequenceOfOrdersCreationsDeletionsAndMoves checks the order against a plain list of ids: those
// that are named come first, the rest keeps its order, new workspaces come last.
func TestOrderFollowsAnySequenceOfOrdersCreationsDeletionsAndMoves(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var order workspace.Order
		var all []id.Workspace            // by creation
		hidden := map[id.Workspace]bool{} // not visible any more
		var want []id.Workspace           // the member's view, in order
		made := 0
		visible := func(w id.Workspace) bool { return !hidden[w] && slices.Contains(all, w) }
		for range rapid.IntRange(1, 25).Draw(t, "steps") {
			switch rapid.SampledFrom([]string{"create", "delete", "hide", "order", "unknown", "twice"}).Draw(t, "step") {
			case "create":
				made++
				w := id.Workspace(fmt.Sprintf("w%03d", made))
				all, want = append(all, w), append(want, w)
			case "delete":
				if len(want) > 0 {
					gone := rapid.SampledFrom(want).Draw(t, "gone")
					all = slices.DeleteFunc(all, func(w id.Workspace) bool { return w == gone })
					want = slices.DeleteFunc(want, func(w id.Workspace) bool { return w == gone })
				}
			case "hide":
				if len(want) > 0 {
					gone := rapid.SampledFrom(want).Draw(t, "hidden")
					hidden[gone] = true
					want = slices.DeleteFunc(want, func(w id.Workspace) bool { return w == gone })
				}
			case "order":
				named := rapid.Permutation(want).Draw(t, "named")
				named = named[:rapid.IntRange(0, len(named)).Draw(t, "of")]
				next := must.Do(order.Arrange(named, all, visible)).Or(t)
				order = next
				if len(order) > len(all) {
					t.Fatalf("%d workspaces of %d are in order", len(order), len(all))
				}
				rest := slices.DeleteFunc(slices.Clone(want), func(w id.Workspace) bool { return slices.Contains(named, w) })
				want = append(slices.Clone(named), rest...)
			case "unknown":
				before := slices.Clone(order)
				if _, err := order.Arrange([]id.Workspace{"nowhere"}, all, visible); !fault.Is(err, fault.NotFound) || !slices.Equal(before, order) {
					t.Fatalf("an unknown workspace: %v, order %v", err, order)
				}
			case "twice":
				if len(want) > 0 {
					must.Fail(t, must.ErrorOf(order.Arrange([]id.Workspace{want[0], want[0]}, all, visible)), fault.Invalid) // a repeated workspace
				}
			}
			seen := slices.DeleteFunc(slices.Clone(all), func(w id.Workspace) bool { return !visible(w) })
			if got := order.Sort(seen); !slices.Equal(got, want) {
				t.Fatalf("got %v, want %v", got, want)
			}
		}
	})
}
