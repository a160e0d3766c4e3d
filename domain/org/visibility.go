package org

import (
	"cmp"
	"iter"
	"slices"

	"collab/domain/fault"
	"collab/domain/id"
)

// Structure has the team of each workspace of an organisation, by ids. It never changes,
// and is shared by all visibilities of an epoch.
type Structure struct {
	teams      map[id.Team]int32 // the team's index in the bits of a Visibility
	workspaces []id.Workspace    // in the order of creation
	teamOf     []int32           // the index of each one's team, negative if unknown
	indexOf    map[id.Workspace]int32
}

// NewStructure returns the structure of the teams and of the workspaces, which are in the
// order of creation, each with its team.
func NewStructure(teams []id.Team, workspaces iter.Seq2[id.Workspace, id.Team]) *Structure {
	s := &Structure{teams: make(map[id.Team]int32, len(teams)), indexOf: map[id.Workspace]int32{}}
	for i, t := range teams {
		s.teams[t] = int32(i)
	}
	for w, t := range workspaces {
		i, ok := s.teams[t]
		if !ok {
			i = -1
		}
		s.indexOf[w] = int32(len(s.workspaces))
		s.workspaces, s.teamOf = append(s.workspaces, w), append(s.teamOf, i)
	}
	return s
}

// Bytes estimates how much memory the structure takes.
func (s *Structure) Bytes() int { return 256 + 128*len(s.teams) + 160*len(s.workspaces) }

// ErrEpochChanged means that an organisation is at another epoch than the actor.
var ErrEpochChanged = fault.New(fault.Stale, "The organisation has changed meanwhile")

// Mark is an organisation's epoch and the position of its log, read together.
// Records that were read at a mark or later are current while the mark stays the same.
type Mark struct {
	Epoch int64 // incremented by every change of members, of what they see, and of the plan

	// The position of the log of changes, which every change of a stored object is in:
	// the log's epoch, and the number of the last entry, 0 for an empty log.
	LogEpoch int64
	LogN     int64
}

// Visibility is the set of teams and workspaces that a member of an organisation sees. It
// is shared between requests and never changed. The zero value sees nothing.
type Visibility struct {
	Epoch int64 // of the organisation, at which this was read

	structure *Structure
	visible   bits // by the index of a team
	belongs   bits
}

// Visibility returns the teams and workspaces that a member sees at the epoch. AccessTo reports
// whether the member sees and belongs to a team, by the team's index in the list of NewStructure.
func (s *Structure) Visibility(epoch int64, accessTo func(team int) (visible, belongs bool)) *Visibility {
	visibility := &Visibility{Epoch: epoch, structure: s, visible: newBits(len(s.teams)), belongs: newBits(len(s.teams))}
	for i := range len(s.teams) {
		visible, belongs := accessTo(i)
		visibility.visible.set(i, visible)
		visibility.belongs.set(i, belongs)
	}
	return visibility
}

// Bytes estimates how much memory the visibility takes beside the structure.
func (v *Visibility) Bytes() int { return 128 + 8*(len(v.visible)+len(v.belongs)) }

// Teams returns the visible teams, in no order.
func (v *Visibility) Teams() iter.Seq[id.Team] {
	return func(yield func(id.Team) bool) {
		if v == nil || v.structure == nil {
			return
		}
		for t, i := range v.structure.teams {
			if v.visible.has(i) && !yield(t) {
				return
			}
		}
	}
}

// OwnTeams returns the teams that the member belongs to in the order of creation.
func (v *Visibility) OwnTeams() []id.Team {
	if v == nil || v.structure == nil {
		return nil
	}
	var own []id.Team
	for t, i := range v.structure.teams {
		if v.belongs.has(i) {
			own = append(own, t)
		}
	}
	slices.SortFunc(own, func(a, b id.Team) int { return cmp.Compare(v.structure.teams[a], v.structure.teams[b]) })
	return own
}

// Workspaces returns the visible workspaces in the order of creation.
func (v *Visibility) Workspaces() []id.Workspace {
	if v == nil || v.structure == nil {
		return nil
	}
	var seen []id.Workspace
	for i, w := range v.structure.workspaces {
		if v.visible.has(v.structure.teamOf[i]) {
			seen = append(seen, w)
		}
	}
	return seen
}

// Includes reports whether the member sees the workspace in the team.
func (v *Visibility) Includes(t id.Team, w id.Workspace) bool {
	if visible, _ := v.team(t); !visible {
		return false
	}
	i, ok := v.structure.indexOf[w]
	return ok && v.structure.teamOf[i] == v.structure.teams[t]
}

// team reports whether the member sees the team, and whether they belong to it.
func (v *Visibility) team(t id.Team) (visible, belongs bool) {
	if v == nil || v.structure == nil {
		return false, false
	}
	i, ok := v.structure.teams[t]
	return ok && v.visible.has(i), ok && v.belongs.has(i)
}

// SeesTeam reports whether the actor can see the team.
func (a Actor) SeesTeam(t id.Team) bool {
	visible, _ := a.Visibility.team(t)
	return visible
}

// BelongsTo reports whether the actor is a member of the team.
func (a Actor) BelongsTo(t id.Team) bool {
	_, belongs := a.Visibility.team(t)
	return belongs
}

// SeesWorkspace reports whether the actor can see the workspace.
func (a Actor) SeesWorkspace(w id.Workspace) bool {
	if a.Visibility == nil || a.Visibility.structure == nil {
		return false
	}
	i, ok := a.Visibility.structure.indexOf[w]
	return ok && a.Visibility.visible.has(a.Visibility.structure.teamOf[i])
}

// bits is a set of small numbers.
type bits []uint64

func newBits(n int) bits { return make(bits, (n+63)/64) }

func (b bits) has(i int32) bool { return i >= 0 && b[i/64]&(1<<(i%64)) != 0 }

func (b bits) set(i int, to bool) {
	if to {
		b[i/64] |= 1 << (i % 64)
	}
}
