// Package audit is the record of who did what, when and from where.
package audit

import (
	"strings"
	"time"

	"collab/domain/id"
	"collab/domain/org"
)

// Action is the name of an act, as "noun.verb".
type Action string

const (
	RoleChanged         Action = "member.role_changed"
	MemberRemoved       Action = "member.removed"
	MemberLeft          Action = "member.left"
	SessionEnded        Action = "session.ended"
	InvitationCreated   Action = "invitation.created"
	InvitationResent    Action = "invitation.resent"
	InvitationDeleted   Action = "invitation.deleted"
	SubscriptionChanged Action = "subscription.changed"
	OperatorRead        Action = "operator.read"
	ConnectorCreated    Action = "connector.created"
	ConnectorDeleted    Action = "connector.deleted"
	CredentialsStored   Action = "connector.credentials_stored"
	CredentialsRead     Action = "connector.credentials_read"
	ConnectorAuthorised Action = "connector.authorized"
	ReleasePublished    Action = "release.published"
	ReleaseChanged      Action = "release.changed"
	ReleasePaused       Action = "release.paused"
	Imported            Action = "organisation.imported"
	ExportRequested     Action = "organisation.export_requested"
)

// Actions are the actions that are recorded.
var Actions = []Action{
	RoleChanged, MemberRemoved, MemberLeft, SessionEnded, InvitationCreated, InvitationResent, InvitationDeleted, SubscriptionChanged,
	OperatorRead, ConnectorCreated, ConnectorDeleted, CredentialsStored, CredentialsRead, ConnectorAuthorised, ReleasePublished,
	ReleaseChanged, ReleasePaused, Imported, ExportRequested,
}

// Kind returns the noun of the action.
func (a Action) Kind() string {
	kind, _, _ := strings.Cut(string(a), ".")
	return kind
}

// Entry is one line of the audit log. Org is empty for acts of an operator across
// organisations; Actor is empty for an operator and for the identity provider.
type Entry struct {
	ID       id.Entry
	Org      id.Org
	At       time.Time
	Actor    id.User
	Operator bool
	Action   Action
	Target   string // the id of what was acted on; empty: the organisation itself
	Detail   string // what changed, in a few words without secrets, such as "MEMBER -> ADMIN"
	Address  string // the network address the request came from
	Request  string // the request's id
}

// ByProvider returns an entry of a change that the identity provider made at now in the
// organisation; it has no actor.
func ByProvider(entryID id.Entry, o id.Org, action Action, target, detail string, now time.Time) Entry {
	if detail != "" {
		detail += " "
	}
	return Entry{ID: entryID, Org: o, At: now, Action: action, Target: target, Detail: detail + "by the identity provider"}
}

// Origin is where a request came from.
type Origin struct {
	Address string // the network address of the client
	Request string // the request's id
}

// By returns an entry of an act of the actor at now in the organisation, by a request from
// the origin.
func By(actor org.Actor, from Origin, entryID id.Entry, o id.Org, action Action, target, detail string, now time.Time) Entry {
	return Entry{
		ID: entryID, Org: o, At: now, Actor: actor.User, Operator: actor.Operator,
		Action: action, Target: target, Detail: detail, Address: from.Address, Request: from.Request,
	}
}
