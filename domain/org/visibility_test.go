package org_test

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"collab/domain/id"
	"collab/domain/org"
)

// TestVisibilityHoldsTheWorkspacesOfVisibleTeams checks a visibility against plain lists.
func TestVisibilityHoldsTheWorkspacesOfVisibleTeams(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var teams []id.Team
		for i := range rapid.IntRange(0, 130).Draw(t, "teams") {
			teams = append(teams, id.Team(fmt.Sprint("t", i)))
		}
		visible, belongs := map[id.Team]bool{}, map[id.Team]bool{}
		for _, tm := range teams {
			visible[tm] = rapid.Bool().Draw(t, "visible")
			belongs[tm] = visible[tm] && rapid.Bool().Draw(t, "belongs")
		}
		var all, seen []id.Workspace
		in := map[id.Workspace]id.Team{}
		for i := range rapid.IntRange(0, 20).Draw(t, "workspaces") {
			w := id.Workspace(fmt.Sprint("w", i))
			all, in[w] = append(all, w), rapid.SampledFrom(append(slices.Clone(teams), "gone")).Draw(t, "team")
			if visible[in[w]] {
				seen = append(seen, w)
			}
		}
		structure := org.NewStructure(teams, func(yield func(id.Workspace, id.Team) bool) {
			for _, w := range all {
				if !yield(w, in[w]) {
					return
				}
			}
		})
		a := org.Actor{Visibility: structure.Visibility(7, func(i int) (bool, bool) { return visible[teams[i]], belongs[teams[i]] })}
		own := slices.DeleteFunc(slices.Clone(teams), func(tm id.Team) bool { return !belongs[tm] })
		if got := a.Visibility.OwnTeams(); !slices.Equal(got, own) {
			t.Fatalf("the own teams are %v instead of %v", got, own)
		}
		for _, tm := range append(teams, "gone") {
			if a.SeesTeam(tm) != visible[tm] || a.BelongsTo(tm) != belongs[tm] {
				t.Fatalf("of %s: sees %v, belongs %v", tm, a.SeesTeam(tm), a.BelongsTo(tm))
			}
			if slices.Contains(slices.Collect(a.Visibility.Teams()), tm) != visible[tm] {
				t.Fatalf("the visible teams are %v", slices.Collect(a.Visibility.Teams()))
			}
		}
		for _, w := range append(all, "gone") {
			if a.SeesWorkspace(w) != visible[in[w]] || a.Visibility.Includes("t0", w) != (visible["t0"] && in[w] == "t0") {
				t.Fatalf("of %s: sees %v, in t0 %v", w, a.SeesWorkspace(w), a.Visibility.Includes("t0", w))
			}
		}
		if got := a.Visibility.Workspaces(); !slices.Equal(got, seen) {
			t.Fatalf("the visible workspaces are %v, want %v", got, seen)
		}
	})
}

func TestEmptyVisibilityShowsNothing(t *testing.T) {
	for _, a := range []org.Actor{{}, {Visibility: &org.Visibility{}}} {
		if a.SeesTeam("t") || a.BelongsTo("t") || a.SeesWorkspace("w") || a.Visibility.Includes("t", "w") || len(a.Visibility.Workspaces()) > 0 || len(slices.Collect(a.Visibility.Teams())) > 0 {
			t.Errorf("%+v sees something", a)
		}
	}
}
