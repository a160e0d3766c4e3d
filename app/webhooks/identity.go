// Package webhooks takes the messages of providers and makes each have its
// effect once, in whatever order and however often they come.
package webhooks

import (
	"context"
	"errors"
	"slices"
	"strings"

	"collab/app/access"
	"collab/app/billing"
	"collab/app/objects"
	"collab/domain/audit"
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

// Options are what Webhooks needs.
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

// New returns the use cases.
func New(o Options) *Webhooks { return &Webhooks{o} }

// Identity verifies a message of the identity provider and applies it. A
// message that was applied before, and one of a type that we do not act on,
// changes nothing and is no error.
func (w *Webhooks) Identity(ctx context.Context, header func(string) string, body []byte) error {
	e, err := w.Options.Identity.Read(header, body)
	if err != nil {
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
	if errors.Is(err, errSeen) {
		return nil
	}
	return err
}

// accept notes a message in the inbox; errSeen when it was there.
func (w *Webhooks) accept(ctx context.Context, r ports.Records, source, message string) error {
	err := r.Journal().Inbox().Accept(ctx, source, message, w.Clock.Now())
	if fault.Is(err, fault.Conflict) {
		return errSeen
	}
	return err
}

var errSeen = fault.New(fault.Conflict, "The message was applied before")

// apply is the one place where an event meets the records. Records are taken
// in one order, users before organisations before what is in them, so that
// concurrent messages do not wait for each other in a circle.
func (w *Webhooks) apply(ctx context.Context, r ports.Records, e identity.Event) error {
	switch e.Kind {
	case identity.UserChanged:
		var blocked bool
		u, err := w.user(ctx, r, e.User.ProviderID, func(u org.User) org.User {
			blocked = u.Blocked
			return u.Observed(e.User, e.Stamp, w.Clock.Now())
		})
		if err != nil || u.Blocked == blocked {
			return err
		}
		return access.SignOut(ctx, r, u.ID, w.Clock.Now(), w.IDs)
	case identity.OrgChanged:
		_, err := w.org(ctx, r, e.Org, func(o org.Organisation) org.Organisation {
			return o.Observed(e.Org, w.Clock.Now())
		})
		return err
	case identity.OrgDeleted:
		o, err := w.org(ctx, r, e.Org, func(o org.Organisation) org.Organisation {
			return o.Close(w.Clock.Now())
		})
		if err != nil {
			return err
		}
		_, err = r.Directory().Organisations().Lock(ctx, o.ID)
		return err
	case identity.MemberChanged, identity.MemberRemoved:
		return w.member(ctx, r, e)
	case identity.InvitationCreated, identity.InvitationAccepted, identity.InvitationRevoked:
		return w.invitation(ctx, r, e)
	}
	return nil
}

func (w *Webhooks) user(ctx context.Context, r ports.Records, providerID string, fn func(org.User) org.User) (org.User, error) {
	now := w.Clock.Now()
	fresh := org.User{ID: id.User(w.IDs.New()), ProviderID: providerID, CreatedAt: now, UpdatedAt: now}
	return r.Directory().Users().Upsert(ctx, fresh, func(u org.User) (org.User, error) { return fn(u), nil })
}

// org stores what fn makes of the organisation. When its creator becomes known
// or changes, the roles that follow from that are derived again.
func (w *Webhooks) org(ctx context.Context, r ports.Records, f identity.OrgFacts, fn func(org.Organisation) org.Organisation) (org.Organisation, error) {
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
		if err := w.rename(ctx, r, o, providerID); err != nil {
			return o, err
		}
	}
	return o, nil
}

func (w *Webhooks) rename(ctx context.Context, r ports.Records, o org.Organisation, providerID string) error {
	u, err := r.Directory().Users().ByProvider(ctx, providerID)
	if err == nil {
		var m org.Membership
		if m, err = r.Directory().Members().Hold(ctx, o.ID, u.ID); err == nil {
			return w.put(ctx, r, m, m.Renamed(o.Naming(w.Roles, u.ProviderID)))
		}
	}
	if fault.Is(err, fault.NotFound) {
		return nil
	}
	return err
}

func (w *Webhooks) member(ctx context.Context, r ports.Records, e identity.Event) error {
	now := w.Clock.Now()
	u, err := w.user(ctx, r, e.User.ProviderID, func(u org.User) org.User { return u.Mentioned(e.User, e.Stamp, now) })
	if err != nil {
		return err
	}
	o, err := w.org(ctx, r, e.Org, func(o org.Organisation) org.Organisation { return o.Mentioned(e.Org, now) })
	if err != nil || u.Deleted() || o.Closed() {
		return err
	}
	if _, err := r.Directory().Organisations().Lock(ctx, o.ID); err != nil {
		return err
	}
	was, err := r.Directory().Members().Hold(ctx, o.ID, u.ID)
	if fault.Is(err, fault.NotFound) {
		was, err = org.Membership{Org: o.ID, User: u.ID, Role: org.Member}, nil
	}
	if err != nil {
		return err
	}
	is := was.Observed(e.Member, e.Stamp, o.Naming(w.Roles, u.ProviderID), now)
	if e.Kind == identity.MemberRemoved {
		is = was.Ended(e.Stamp)
	}
	if is == was {
		return nil
	}
	if err := w.put(ctx, r, was, is); err != nil || is.Active() {
		return err
	}
	return w.leave(ctx, r, o.ID, u.ID)
}

// put stores a membership, and what changed for an active one in the audit log.
func (w *Webhooks) put(ctx context.Context, r ports.Records, was, is org.Membership) error {
	if err := r.Directory().Members().Put(ctx, is.Org, is); err != nil || was.JoinedAt.IsZero() {
		return err
	}
	if c, ok := object.MembershipChange(was, is, "", w.Clock.Now()); ok {
		if _, err := r.Storage().Changes().Append(ctx, is.Org, c); err != nil {
			return err
		}
	}
	if !was.Active() {
		return nil
	}
	action, detail := audit.MemberRemoved, string(was.Role)
	if is.Active() {
		if is.Role == was.Role {
			return nil
		}
		action, detail = audit.RoleChanged, string(was.Role)+" -> "+string(is.Role)
	}
	return r.Journal().Audit().Add(ctx, audit.ByProvider(id.Entry(w.IDs.New()), is.Org, action, string(is.User), detail, w.Clock.Now()))
}

// leave takes a user whose membership ended out of the organisation's work.
func (w *Webhooks) leave(ctx context.Context, r ports.Records, o id.Org, u id.User) error {
	if err := r.Work().TeamMembers().RemoveUser(ctx, o, u); err != nil {
		return err
	}
	return r.Work().Tasks().Unassign(ctx, o, u, w.Clock.Now())
}

// tasksAtOnce is how many tasks one transaction deletes, so that others write in between.
const tasksAtOnce = 100

// deleteUser ends the user everywhere: memberships and assignments, and what was the
// user's alone, in several transactions where that is much. What the user made for
// others stays. The last transaction notes the message: where one before it fails, the
// provider sends the message again, and the rest is deleted then.
func (w *Webhooks) deleteUser(ctx context.Context, e identity.Event) error {
	for {
		var left *remainder
		err := w.Store.Atomic(ctx, func(r ports.Records) (err error) {
			if left, err = w.erase(ctx, r, e); err != nil || left != nil {
				return err
			}
			return w.accept(ctx, r, identitySource, e.Message)
		})
		if err != nil || left == nil {
			return err
		}
		for left != nil {
			from := *left
			err := w.Store.Atomic(ctx, func(r ports.Records) (err error) {
				left, err = w.remove(ctx, r, from)
				return err
			})
			if err != nil {
				return err
			}
		}
	}
}

// remainder is what one deletion has left for other transactions: the files that the
// filter selects, or the tasks in a workspace after a place.
type remainder struct {
	org   id.Org
	files object.Filter
	told  *object.Audience
	tasks id.Workspace
	after task.Position
}

// remove deletes the first part of what is left. It returns nil if there is no more
// after that.
func (w *Webhooks) remove(ctx context.Context, r ports.Records, left remainder) (_ *remainder, err error) {
	more := false
	if left.tasks != "" {
		left.after, more, err = r.Work().TaskSets().RemoveIn(ctx, left.org, left.tasks, left.after, tasksAtOnce)
	} else {
		left.files.After, err = w.Objects.Sweep(ctx, r, left.org, left.files, "", left.told)
		more = left.files.After != ""
	}
	if err != nil || !more {
		return nil, err
	}
	return &left, nil
}

// erase ends the user, and removes a part of what was theirs alone. It returns what is
// left of that part, and nil if nothing of anything is.
func (w *Webhooks) erase(ctx context.Context, r ports.Records, e identity.Event) (*remainder, error) {
	now := w.Clock.Now()
	u, err := w.user(ctx, r, e.User.ProviderID, func(u org.User) org.User { return u.Erased(now) })
	if err != nil {
		return nil, err
	}
	if err := access.SignOut(ctx, r, u.ID, now, w.IDs); err != nil {
		return nil, err
	}
	places, err := r.Directory().Users().Memberships(ctx, u.ID)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(places, func(a, b org.Membership) int { return strings.Compare(string(a.Org), string(b.Org)) })
	for _, m := range places {
		if _, err := r.Directory().Organisations().Lock(ctx, m.Org); err != nil {
			return nil, err
		}
		if err := w.put(ctx, r, m, m.Removed(now)); err != nil {
			return nil, err
		}
		if err := w.leave(ctx, r, m.Org, u.ID); err != nil {
			return nil, err
		}
	}
	for _, m := range places {
		if left, err := w.erasePersonal(ctx, r, m.Org, u.ID); err != nil || left != nil {
			return left, err
		}
	}
	return nil, nil
}

// erasePersonal removes a part of what is the user's alone in an organisation, with one
// workspace at most, and returns what is left, as erase does.
func (w *Webhooks) erasePersonal(ctx context.Context, r ports.Records, o id.Org, u id.User) (*remainder, error) {
	if left, err := w.remove(ctx, r, remainder{org: o, files: object.Filter{Owner: u}}); err != nil || left != nil {
		return left, err
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
	gone := false
	for _, t := range teams {
		if t.Kind != team.Personal || t.CreatedBy != u {
			continue
		}
		for _, s := range workspaces {
			if s.Team != t.ID {
				continue
			}
			tasks := remainder{org: o, tasks: s.ID}
			if gone {
				return &tasks, nil
			}
			gone = true
			files := remainder{org: o, files: object.Filter{Workspace: s.ID, Scope: object.Shared}, told: alone}
			for _, all := range []remainder{files, tasks} {
				if left, err := w.remove(ctx, r, all); err != nil || left != nil {
					return left, err
				}
			}
			if err := r.Work().Workspaces().Remove(ctx, o, s.ID); err != nil {
				return nil, err
			}
		}
		if left, err := w.remove(ctx, r, remainder{org: o, files: object.Filter{Team: t.ID}, told: alone}); err != nil || left != nil {
			return left, err
		}
		if err := r.Work().Teams().Remove(ctx, o, t.ID); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// invitation applies an event about an invitation. One that the provider did
// not tell us of before joins a pending one of ours for the same address.
func (w *Webhooks) invitation(ctx context.Context, r ports.Records, e identity.Event) error {
	now := w.Clock.Now()
	var inviter id.User
	if e.Invitation.InvitedBy != "" {
		u, err := w.user(ctx, r, e.Invitation.InvitedBy, func(u org.User) org.User { return u })
		if err != nil {
			return err
		}
		inviter = u.ID
	}
	o, err := w.org(ctx, r, e.Org, func(o org.Organisation) org.Organisation { return o.Mentioned(e.Org, now) })
	if err != nil || o.Closed() {
		return err
	}
	if _, err := r.Directory().Organisations().Lock(ctx, o.ID); err != nil {
		return err
	}
	all := r.Directory().Invitations()
	was, err := all.ByProvider(ctx, o.ID, e.Invitation.ProviderID)
	if fault.Is(err, fault.NotFound) {
		was, err = w.unclaimed(ctx, r, o.ID, e.Invitation.Email)
	}
	if err != nil {
		return err
	}
	return all.Put(ctx, o.ID, was.Observed(e, w.Roles.Of(e.Invitation.Role), inviter, now))
}

// unclaimed returns the pending invitation for the address that the provider
// has no id for yet, else a new one without a state.
func (w *Webhooks) unclaimed(ctx context.Context, r ports.Records, o id.Org, email string) (invitation.Invitation, error) {
	pending, err := r.Directory().Invitations().Pending(ctx, o, email, w.Clock.Now())
	if err != nil {
		return invitation.Invitation{}, err
	}
	for _, i := range pending {
		if i.ProviderID == "" {
			return i, nil
		}
	}
	return invitation.Invitation{ID: id.Invitation(w.IDs.New()), Org: o}, nil
}
