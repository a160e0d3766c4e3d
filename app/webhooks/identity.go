// Package webhooks applies the messages of providers. Each has its effect once, in whatever
// order and however often messages arrive.
package webhooks

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	"collab/app/access"
	"collab/app/archives"
	"collab/app/billing"
	"collab/app/members"
	"collab/app/objects"
	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/identity"
	"collab/domain/invitation"
	"collab/domain/object"
	"collab/domain/org"
	"collab/domain/task"
	"collab/domain/team"
	"collab/ports"
)

// The sources of messages in the inbox.
const (
	identitySource = "identity"
	paymentSource  = "payment"
)

// Options has the dependencies and settings of Webhooks.
type Options struct {
	Store    ports.Store
	Identity ports.IdentityEvents
	Payments ports.PaymentEvents
	Clock    ports.Clock
	IDs      ports.IDs
	Roles    org.RoleMap
	Objects  *objects.Objects
	Billing  *billing.Billing
}

// Webhooks are the use cases of providers' messages.
type Webhooks struct{ Options }

func New(o Options) *Webhooks { return &Webhooks{o} }

// Admit waits until the server may handle a message about the organisation with the provider's
// id, or about a user of any. It is called once, before the message uses the store, and its
// error is returned.
type Admit func(ctx context.Context, organisation string) error

// Identity verifies a message of the identity provider and applies it. A message that was
// applied before, or has a type that is not handled, changes nothing and is no error.
func (w *Webhooks) Identity(ctx context.Context, header func(string) string, body []byte, admit Admit) error {
	e, err := w.Options.Identity.Read(header, body)
	if err != nil {
		return err
	}
	if err := admit(ctx, cmp.Or(e.Org.ProviderID, e.User.ProviderID)); err != nil {
		return err
	}
	if e.Kind == identity.UserDeleted {
		err = w.deleteUser(ctx, e)
	} else {
		err = w.Store.Atomic(ctx, func(r ports.Records) error {
			if err := w.accept(ctx, r, identitySource, e.Message); err != nil {
				return err
			}
			return w.apply(ctx, r, e)
		})
	}
	if errors.Is(err, errApplied) {
		return nil
	}
	return err
}

// accept stores a message's id in the inbox; errApplied if it is stored already.
func (w *Webhooks) accept(ctx context.Context, r ports.Records, source, message string) error {
	err := r.Journal().Inbox().Accept(ctx, source, message, w.Clock.Now())
	if fault.Is(err, fault.Conflict) {
		return errApplied
	}
	return err
}

var errApplied = fault.New(fault.Conflict, "The message was applied before")

// apply applies an event to the records. It locks users before organisations before their
// records, so that concurrent messages do not deadlock.
func (w *Webhooks) apply(ctx context.Context, r ports.Records, e identity.Event) error {
	switch e.Kind {
	case identity.UserChanged:
		var blocked bool
		u, err := w.upsertUser(ctx, r, e.User.ProviderID, func(u org.User) org.User {
			blocked = u.Blocked
			return u.Observed(e.User, e.Stamp, w.Clock.Now())
		})
		if err != nil || u.Blocked == blocked {
			return err
		}
		return access.SignOut(ctx, r, u.ID, w.Clock.Now(), w.IDs)
	case identity.OrgChanged:
		_, err := w.upsertOrg(ctx, r, e.Org, func(o org.Organisation) org.Organisation {
			return o.Observed(e.Org, w.Clock.Now())
		})
		return err
	case identity.OrgDeleted:
		o, err := w.upsertOrg(ctx, r, e.Org, func(o org.Organisation) org.Organisation {
			return o.Close(w.Clock.Now())
		})
		if err != nil {
			return err
		}
		_, err = r.Directory().Organisations().Lock(ctx, o.ID)
		return err
	case identity.MemberChanged, identity.MemberRemoved:
		return w.applyMember(ctx, r, e)
	case identity.InvitationCreated, identity.InvitationAccepted, identity.InvitationRevoked:
		return w.applyInvitation(ctx, r, e)
	}
	return nil
}

func (w *Webhooks) upsertUser(ctx context.Context, r ports.Records, providerID string, fn func(org.User) org.User) (org.User, error) {
	now := w.Clock.Now()
	fresh := org.User{ID: id.User(w.IDs.New()), ProviderID: providerID, CreatedAt: now, UpdatedAt: now}
	return r.Directory().Users().Upsert(ctx, fresh, func(u org.User) (org.User, error) { return fn(u), nil })
}

// upsertOrg stores what fn returns for the organisation. If that changes the creator, the roles of
// the previous and the new one are determined again.
func (w *Webhooks) upsertOrg(ctx context.Context, r ports.Records, f identity.OrgData, fn func(org.Organisation) org.Organisation) (org.Organisation, error) {
	now := w.Clock.Now()
	fresh := org.Organisation{ID: id.Org(w.IDs.New()), ProviderID: f.ProviderID, CreatedAt: now, UpdatedAt: now}
	var before string
	o, err := r.Directory().Organisations().Upsert(ctx, fresh, func(o org.Organisation) (org.Organisation, error) {
		before = o.CreatedBy
		return fn(o), nil
	})
	if err != nil || o.CreatedBy == before {
		return o, err
	}
	if _, err := r.Directory().Organisations().Lock(ctx, o.ID); err != nil {
		return o, err
	}
	for _, providerID := range []string{before, o.CreatedBy} {
		if err := w.updateRole(ctx, r, o, providerID); err != nil {
			return o, err
		}
	}
	return o, nil
}

func (w *Webhooks) updateRole(ctx context.Context, r ports.Records, o org.Organisation, providerID string) error {
	u, err := r.Directory().Users().ByProvider(ctx, providerID)
	if err == nil {
		var m org.Membership
		if m, err = r.Directory().Members().GetLocked(ctx, o.ID, u.ID); err == nil {
			return access.PutMembership(ctx, r, m, m.WithRoleMapping(o.RoleMapping(w.Roles, u.ProviderID)), w.Clock.Now(), w.IDs)
		}
	}
	if fault.Is(err, fault.NotFound) {
		return nil
	}
	return err
}

func (w *Webhooks) applyMember(ctx context.Context, r ports.Records, e identity.Event) error {
	now := w.Clock.Now()
	u, err := w.upsertUser(ctx, r, e.User.ProviderID, func(u org.User) org.User { return u.Mentioned(e.User, e.Stamp, now) })
	if err != nil {
		return err
	}
	o, err := w.upsertOrg(ctx, r, e.Org, func(o org.Organisation) org.Organisation { return o.Mentioned(e.Org, now) })
	if err != nil || u.Deleted() || o.Closed() {
		return err
	}
	if _, err := r.Directory().Organisations().Lock(ctx, o.ID); err != nil {
		return err
	}
	was, err := r.Directory().Members().GetLocked(ctx, o.ID, u.ID)
	if fault.Is(err, fault.NotFound) {
		was, err = org.Membership{Org: o.ID, User: u.ID, Role: org.Member}, nil
	}
	if err != nil {
		return err
	}
	next := was.Observed(e.Member, e.Stamp, o.RoleMapping(w.Roles, u.ProviderID), now)
	if e.Kind == identity.MemberRemoved {
		next = was.Ended(e.Member, e.Stamp)
	}
	if next == was {
		return nil
	}
	if err := access.PutMembership(ctx, r, was, next, now, w.IDs); err != nil || next.Active() {
		return err
	}
	return members.ReleaseMember(ctx, r, o.ID, u.ID, w.Clock.Now())
}

// deleteUser ends the user's memberships and assignments and deletes the user's personal
// data, in several transactions if that is much; shared data stays. The last transaction
// accepts the message, so if one fails, the provider sends it again, and the rest is deleted
// then.
func (w *Webhooks) deleteUser(ctx context.Context, e identity.Event) error {
	for {
		var remaining *cleanup
		err := w.Store.Atomic(ctx, func(r ports.Records) (err error) {
			if remaining, err = w.erase(ctx, r, e); err != nil || remaining != nil {
				return err
			}
			return w.accept(ctx, r, identitySource, e.Message)
		})
		if err != nil || remaining == nil {
			return err
		}
		for remaining != nil {
			from := *remaining
			err := w.Store.Atomic(ctx, func(r ports.Records) (err error) {
				remaining, err = w.remove(ctx, r, from)
				return err
			})
			if err != nil {
				return err
			}
		}
	}
}

// cleanup names records that are still to be deleted: the files that the filter selects, or the tasks
// of a workspace after a position.
type cleanup struct {
	org      id.Org
	files    object.Filter
	audience *object.Audience // of the files' deletions
	tasks    id.Workspace
	after    task.Position
}

// remove deletes the first records of part, and returns the rest of it, or nil.
func (w *Webhooks) remove(ctx context.Context, r ports.Records, part cleanup) (_ *cleanup, err error) {
	more := false
	if part.tasks != "" {
		part.after, more, err = r.Work().TaskSets().RemoveIn(ctx, part.org, part.tasks, part.after, task.RemovedTogether)
	} else {
		part.files.After, err = w.Objects.Sweep(ctx, r, part.org, part.files, "", part.audience)
		more = part.files.After != ""
	}
	if err != nil || !more {
		return nil, err
	}
	return &part, nil
}

// erase ends the user's sessions, memberships and assignments, and removes a part of their
// personal data. It returns what remains of that part, or nil if all personal data is gone.
func (w *Webhooks) erase(ctx context.Context, r ports.Records, e identity.Event) (*cleanup, error) {
	now := w.Clock.Now()
	email := ""
	u, err := w.upsertUser(ctx, r, e.User.ProviderID, func(u org.User) org.User {
		email = u.Email
		return u.Erased(now)
	})
	if err != nil {
		return nil, err
	}
	memberships, err := r.Directory().Users().Memberships(ctx, u.ID)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(memberships, func(a, b org.Membership) int { return strings.Compare(string(a.Org), string(b.Org)) }) // the order of all locks
	for _, m := range memberships {
		if _, err := r.Directory().Organisations().Lock(ctx, m.Org); err != nil {
			return nil, err
		}
	}
	if err := access.SignOut(ctx, r, u.ID, now, w.IDs); err != nil { // it locks some of them
		return nil, err
	}
	for _, m := range memberships {
		if err := access.PutMembership(ctx, r, m, m.Removed(now), now, w.IDs); err != nil {
			return nil, err
		}
		if err := members.ReleaseMember(ctx, r, m.Org, u.ID, w.Clock.Now()); err != nil {
			return nil, err
		}
		if email != "" {
			if err := r.Directory().InvitationSets().Forget(ctx, m.Org, email); err != nil {
				return nil, err
			}
		}
		if err := archives.WithdrawExports(ctx, r, m.Org, u.ID, now); err != nil {
			return nil, err
		}
	}
	for _, m := range memberships {
		if remaining, err := w.erasePersonal(ctx, r, m.Org, u.ID); err != nil || remaining != nil {
			return remaining, err
		}
	}
	return nil, nil
}

// erasePersonal removes a part of the user's personal data in an organisation, with at most
// one workspace, and returns what remains as erase does.
func (w *Webhooks) erasePersonal(ctx context.Context, r ports.Records, o id.Org, u id.User) (*cleanup, error) {
	if remaining, err := w.remove(ctx, r, cleanup{org: o, files: object.Filter{Owner: u}}); err != nil || remaining != nil {
		return remaining, err
	}
	teams, err := r.Work().Teams().Refs(ctx, o)
	if err != nil {
		return nil, err
	}
	workspaces, err := r.Work().Workspaces().Refs(ctx, o)
	if err != nil {
		return nil, err
	}
	alone := &object.Audience{Users: []id.User{u}}
	removed := false
	for _, t := range teams {
		if t.Kind != team.Personal || t.CreatedBy != u {
			continue
		}
		for _, s := range workspaces {
			if s.Team != t.ID {
				continue
			}
			tasks := cleanup{org: o, tasks: s.ID}
			if removed {
				return &tasks, nil
			}
			removed = true
			files := cleanup{org: o, files: object.Filter{Workspace: s.ID, Scope: object.Shared}, audience: alone}
			for _, part := range []cleanup{files, tasks} {
				if remaining, err := w.remove(ctx, r, part); err != nil || remaining != nil {
					return remaining, err
				}
			}
			if err := r.Work().Workspaces().Remove(ctx, o, s.ID); err != nil {
				return nil, err
			}
		}
		if remaining, err := w.remove(ctx, r, cleanup{org: o, files: object.Filter{Team: t.ID}, audience: alone}); err != nil || remaining != nil {
			return remaining, err
		}
		if err := r.Work().Teams().Remove(ctx, o, t.ID); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// applyInvitation applies an event about an invitation. An unknown provider id is given to our
// pending invitation for the same address, if there is one.
func (w *Webhooks) applyInvitation(ctx context.Context, r ports.Records, e identity.Event) error {
	now := w.Clock.Now()
	var inviter id.User
	if e.Invitation.InvitedBy != "" {
		u, err := w.upsertUser(ctx, r, e.Invitation.InvitedBy, func(u org.User) org.User { return u })
		if err != nil {
			return err
		}
		inviter = u.ID
	}
	o, err := w.upsertOrg(ctx, r, e.Org, func(o org.Organisation) org.Organisation { return o.Mentioned(e.Org, now) })
	if err != nil || o.Closed() {
		return err
	}
	if _, err := r.Directory().Organisations().Lock(ctx, o.ID); err != nil {
		return err
	}
	all := r.Directory().Invitations()
	was, err := all.ByProvider(ctx, o.ID, e.Invitation.ProviderID)
	if fault.Is(err, fault.NotFound) {
		was, err = w.invitationFor(ctx, r, o.ID, e)
	}
	if err != nil {
		return err
	}
	return all.Put(ctx, o.ID, was.Observed(e, w.Roles.Role(e.Invitation.Role), inviter, now))
}

// invitationFor returns the pending invitation for the address of the event that has no provider id and that the event
// may be about, or a new one without a state.
func (w *Webhooks) invitationFor(ctx context.Context, r ports.Records, o id.Org, e identity.Event) (invitation.Invitation, error) {
	pending, err := r.Directory().Invitations().Pending(ctx, o, e.Invitation.Email, w.Clock.Now())
	if err != nil {
		return invitation.Invitation{}, err
	}
	for _, i := range pending {
		if i.ProviderID == "" && i.IsAbout(e) {
			return i, nil
		}
	}
	return invitation.Invitation{ID: id.Invitation(w.IDs.New()), Org: o}, nil
}
