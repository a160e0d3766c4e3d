// Package archive has the contents of an archive of one organisation, and which of them a
// member may export.
package archive

import (
	"cmp"
	"io"
	"time"

	"collab/domain/audit"
	"collab/domain/connector"
	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/invitation"
	"collab/domain/object"
	"collab/domain/org"
	"collab/domain/plan"
	"collab/domain/task"
	"collab/domain/team"
	"collab/domain/usage"
	"collab/domain/workspace"
)

// Format is the version of the format that is written, and the only one that is read.
const Format = 1

// Kind is a kind of records, which are in one file of an archive.
type Kind string

const (
	Organisations   Kind = "organisation"
	Subscriptions   Kind = "subscription"
	Members         Kind = "members"
	Invitations     Kind = "invitations"
	Teams           Kind = "teams"
	TeamMembers     Kind = "team-members"
	Workspaces      Kind = "workspaces"
	WorkspaceOrders Kind = "workspace-orders"
	Tasks           Kind = "tasks"
	TaskHistory     Kind = "task-history"
	Connectors      Kind = "connectors"
	Usage           Kind = "usage"
	AuditEntries    Kind = "audit"
	Objects         Kind = "files"
)

// Kinds are all kinds in the order of an archive, each after those that its records refer to.
var Kinds = []Kind{
	Organisations, Subscriptions, Members, Invitations, Teams, TeamMembers, Workspaces, WorkspaceOrders,
	Tasks, TaskHistory, Connectors, Usage, AuditEntries, Objects,
}

// Record is one record; the field of its kind is set and no other.
type Record struct {
	Organisation   *org.Organisation
	Subscription   *plan.Subscription
	Member         *org.Profile
	Invitation     *invitation.Invitation
	Team           *team.Team
	TeamMember     *team.Member
	Workspace      *workspace.Workspace
	WorkspaceOrder *WorkspaceOrder
	Task           *task.Task
	TaskChange     *TaskChange
	Connector      *connector.Instance
	Usage          *usage.Entry
	AuditEntry     *audit.Entry
	Object         *object.Object
}

// FileName returns the name of the file of a kind.
func FileName(k Kind) string { return string(k) + ".jsonl" }

// Location is the place of a record: the kind, and the number of its line from 1 on.
type Location struct {
	Kind Kind
	Line int64
}

// Wrap returns an error about the record of a place, with the kind of err and its message.
func (p Location) Wrap(err error) error {
	return fault.Wrap(fault.KindOf(err), err, "%s line %d", FileName(p.Kind), p.Line)
}

// WorkspaceOrder is a member's own order of workspaces.
type WorkspaceOrder struct {
	User       id.User
	Workspaces workspace.Order
}

// TaskChange is a change of a task, with the task's workspace at the moment of the export.
type TaskChange struct {
	task.Change
	Workspace *id.Workspace
}

// Kind returns the kind of the record.
func (r Record) Kind() Kind {
	for i, set := range []bool{
		r.Organisation != nil, r.Subscription != nil, r.Member != nil, r.Invitation != nil, r.Team != nil, r.TeamMember != nil, r.Workspace != nil,
		r.WorkspaceOrder != nil, r.Task != nil, r.TaskChange != nil, r.Connector != nil, r.Usage != nil, r.AuditEntry != nil, r.Object != nil,
	} {
		if set {
			return Kinds[i]
		}
	}
	return ""
}

// times returns the times of a record that is imported.
func (r Record) times() []time.Time {
	switch {
	case r.Organisation != nil:
		return []time.Time{r.Organisation.CreatedAt, r.Organisation.UpdatedAt}
	case r.Member != nil:
		return []time.Time{r.Member.JoinedAt}
	case r.Team != nil:
		return []time.Time{r.Team.CreatedAt, r.Team.UpdatedAt}
	case r.TeamMember != nil:
		return []time.Time{r.TeamMember.JoinedAt}
	case r.Workspace != nil:
		return []time.Time{r.Workspace.CreatedAt, r.Workspace.UpdatedAt}
	case r.Task != nil:
		return []time.Time{r.Task.CreatedAt, r.Task.UpdatedAt, cmp.Or(r.Task.CompletedAt(), new(time.Time)).UTC()}
	case r.TaskChange != nil:
		return []time.Time{r.TaskChange.At}
	case r.AuditEntry != nil:
		return []time.Time{r.AuditEntry.At}
	case r.Object != nil:
		return []time.Time{r.Object.CreatedAt, r.Object.UpdatedAt}
	}
	return nil
}

// Manifest describes an archive.
type Manifest struct {
	Organisation id.Org
	CreatedAt    time.Time // when the records were read
	Version      string    // of the program
	Issuer       string    // of the identity provider, whose ids of users and organisation the records have
	Member       id.User   // by whose rights the records were selected; empty: all records
	Parts        []Part    // in the order of Kinds
	Contents     int64     // number of files
	Bytes        int64     // of the content of all files
}

// clockSkew is how far clocks of deployments and of the identity provider may differ.
const clockSkew = time.Hour

// Check returns Invalid if an archive was made after now, and TooLarge if its records and contents
// have more than limit bytes.
func (m Manifest) Check(limit int64, now time.Time) error {
	if m.CreatedAt.After(now.Add(clockSkew)) {
		return fault.New(fault.Invalid, "The archive is from the future: %v", m.CreatedAt)
	}
	left := limit - m.Bytes
	for _, p := range m.Parts {
		if left >= 0 {
			left -= p.Bytes
		}
	}
	if left < 0 {
		return fault.New(fault.TooLarge, "The archive has more than %d bytes of records and contents", limit)
	}
	return nil
}

// Part describes the file of one kind.
type Part struct {
	Kind     Kind
	Records  int64
	Bytes    int64
	Checksum string // SHA-256, lower-case hexadecimal
}

// Records returns the number of all records.
func (m Manifest) Records() (n int64) {
	for _, p := range m.Parts {
		n += p.Records
	}
	return n
}

// Item is a part of an archive as it is read: the manifest, which is the first, a record with
// its place, or the content of a file. The contents are in the order of the files.
type Item struct {
	Manifest *Manifest

	Record   Record
	Location Location

	Path    string // of a content, as ContentPath returns it
	Size    int64  // in bytes
	Content io.Reader
}

// ContentPath returns the path of an object's content among the contents: its storage key
// without the organisation.
func ContentPath(o object.Object) string { return o.StorageKey()[len(o.Org)+1:] }

// Selection decides which records an export has. Each record is passed to Includes once, in the
// order of Kinds. What only members have, their places in teams and orders of workspaces, is left
// out for users who are no members any more.
type Selection struct {
	member     id.User
	members    map[id.User]bool
	teams      map[id.Team]bool // personal teams of others
	workspaces map[id.Workspace]bool
}

// All returns the selection of all records.
func All() *Selection { return &Selection{members: map[id.User]bool{}} }

// VisibleTo returns the selection without what belongs to other members alone: their personal
// teams with all that is in these, their personal files, their orders of workspaces, and their
// requests to models.
func VisibleTo(member id.User) *Selection {
	return &Selection{member: member, members: map[id.User]bool{}, teams: map[id.Team]bool{}, workspaces: map[id.Workspace]bool{}}
}

// Member returns the member of VisibleTo, or "".
func (s *Selection) Member() id.User { return s.member }

// Includes reports whether the selection has the record.
func (s *Selection) Includes(r Record) bool {
	switch {
	case r.Member != nil:
		s.members[r.Member.User] = true
	case r.TeamMember != nil && !s.members[r.TeamMember.User], r.WorkspaceOrder != nil && !s.members[r.WorkspaceOrder.User]:
		return false
	}
	if s.member == "" {
		return true
	}
	hidden := func(w *id.Workspace) bool { return w != nil && s.workspaces[*w] }
	switch {
	case r.Team != nil:
		if r.Team.Kind == team.Personal && r.Team.CreatedBy != s.member {
			s.teams[r.Team.ID] = true
		}
		return !s.teams[r.Team.ID]
	case r.TeamMember != nil:
		return !s.teams[r.TeamMember.Team]
	case r.Workspace != nil:
		if s.teams[r.Workspace.Team] {
			s.workspaces[r.Workspace.ID] = true
		}
		return !s.workspaces[r.Workspace.ID]
	case r.WorkspaceOrder != nil:
		return r.WorkspaceOrder.User == s.member
	case r.Usage != nil:
		return r.Usage.User == s.member
	case r.Task != nil:
		return !hidden(r.Task.Workspace)
	case r.TaskChange != nil:
		return !hidden(r.TaskChange.Workspace)
	case r.Object != nil && r.Object.Scope == object.Personal:
		return r.Object.Owner != nil && *r.Object.Owner == s.member
	case r.Object != nil:
		return !hidden(r.Object.Workspace) && (r.Object.Team == nil || !s.teams[*r.Object.Team])
	}
	return true
}
