package archive

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"

	"collab/domain/id"
	"collab/domain/task"
)

// Mapping gives records the ids that they have where they are imported.
type Mapping struct {
	From, To id.Org
	Users    map[id.User]id.User // of those users whose ids differ
}

// DeriveID returns a new id for a record, the same each time for the same organisation and old id.
// It has the time of the old one.
func DeriveID[T ~string](to id.Org, old T) T {
	sum := sha256.Sum256([]byte(string(to) + string(old)))
	random := hex.EncodeToString(sum[:])
	variant := "89ab"[sum[31]&3]
	return T(string(old[:13]) + "-7" + random[:3] + "-" + string(variant) + random[3:6] + "-" + random[6:18])
}

// mapped returns the id of a record of the organisation: the same if the organisation keeps its id,
// because keys begin with that.
func mapped[T ~string](m Mapping, old T) T {
	if m.From == m.To {
		return old
	}
	return DeriveID(m.To, old)
}

func mappedOrNil[T ~string](m Mapping, old *T) *T {
	if old == nil {
		return nil
	}
	return new(mapped(m, *old))
}

// user returns the id of a user.
func (m Mapping) user(old id.User) id.User {
	if is, ok := m.Users[old]; ok {
		return is
	}
	return old
}

func (m Mapping) userOrNil(old *id.User) *id.User {
	if old == nil {
		return nil
	}
	return new(m.user(*old))
}

// target returns the id in a text that names a record of any kind.
func (m Mapping) target(text string, isUser bool) string {
	old, ok := id.Parse[id.Entry](text)
	if !ok {
		return text
	}
	user, known := m.Users[id.User(old)]
	switch {
	case known:
		return string(user)
	case isUser:
		return text
	case id.Org(old) == m.From:
		return string(m.To)
	}
	return string(mapped(m, old))
}

func (m Mapping) targetOrNil(text *string, isUser bool) *string {
	if text == nil {
		return nil
	}
	return new(m.target(*text, isUser))
}

// Record returns the record with the ids of the deployment that imports it. Of a member the user
// has the new id, and of the organisation the id alone is changed. Records that imports leave out
// are returned as they are.
func (m Mapping) Record(r Record) Record {
	switch {
	case r.Organisation != nil:
		v := *r.Organisation
		v.ID = m.To
		return Record{Organisation: &v}
	case r.Member != nil:
		v := *r.Member
		v.Org, v.User = m.To, m.user(v.User)
		v.Person.ID = v.User
		return Record{Member: &v}
	case r.Team != nil:
		v := *r.Team
		v.Org, v.ID, v.CreatedBy = m.To, mapped(m, v.ID), m.user(v.CreatedBy)
		return Record{Team: &v}
	case r.TeamMember != nil:
		v := *r.TeamMember
		v.Team, v.User = mapped(m, v.Team), m.user(v.User)
		return Record{TeamMember: &v}
	case r.Workspace != nil:
		v := *r.Workspace
		v.Org, v.ID, v.Team, v.CreatedBy = m.To, mapped(m, v.ID), mapped(m, v.Team), m.user(v.CreatedBy)
		return Record{Workspace: &v}
	case r.WorkspaceOrder != nil:
		v := WorkspaceOrder{User: m.user(r.WorkspaceOrder.User), Workspaces: slices.Clone(r.WorkspaceOrder.Workspaces)}
		for i, w := range v.Workspaces {
			v.Workspaces[i] = mapped(m, w)
		}
		return Record{WorkspaceOrder: &v}
	case r.Task != nil:
		v := *r.Task
		v.Org, v.ID, v.Workspace, v.Assignee, v.CreatedBy = m.To, mapped(m, v.ID), mappedOrNil(m, v.Workspace), m.userOrNil(v.Assignee), m.user(v.CreatedBy)
		return Record{Task: &v}
	case r.TaskChange != nil:
		v := *r.TaskChange
		v.Org, v.ID, v.Task, v.By = m.To, mapped(m, v.ID), mapped(m, v.Task), m.user(v.By)
		v.Fields = slices.Clone(v.Fields)
		for i, d := range v.Fields {
			if d.Field == task.FieldAssignee || d.Field == task.FieldWorkspace {
				isUser := d.Field == task.FieldAssignee
				v.Fields[i].From, v.Fields[i].To = m.targetOrNil(d.From, isUser), m.targetOrNil(d.To, isUser)
			}
		}
		return Record{TaskChange: &v}
	case r.AuditEntry != nil:
		v := *r.AuditEntry
		v.Org, v.ID, v.Actor = m.To, mapped(m, v.ID), m.user(v.Actor)
		v.Target = m.target(v.Target, strings.HasPrefix(string(v.Action), "member."))
		return Record{AuditEntry: &v}
	case r.Object != nil:
		v := *r.Object
		v.Org, v.ID, v.Workspace, v.Team = m.To, mapped(m, v.ID), mappedOrNil(m, v.Workspace), mappedOrNil(m, v.Team)
		v.Owner, v.CreatedBy, v.UpdatedBy = m.userOrNil(v.Owner), m.user(v.CreatedBy), m.user(v.UpdatedBy)
		return Record{Object: &v}
	}
	return r
}
