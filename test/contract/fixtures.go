package contract

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"collab/domain/audit"
	"collab/domain/connector"
	"collab/domain/id"
	"collab/domain/identity"
	"collab/domain/invitation"
	"collab/domain/object"
	"collab/domain/org"
	"collab/domain/plan"
	"collab/domain/quota"
	"collab/domain/session"
	"collab/domain/task"
	"collab/domain/team"
	"collab/domain/usage"
	"collab/domain/workspace"
	"collab/ports"
	"collab/test/must"
)

// someUser returns a user that is not stored yet, with every field set that a
// living user has.
func someUser() org.User {
	u := fresh[id.User]()
	return must.Full(org.User{
		ID: u, ProviderID: "user_" + string(u), Name: "Åse O'Neill 🦉", Email: "Ase." + string(u) + "@Example.com",
		AvatarURL: "https://example.com/a?b=c&d=%20", CreatedAt: at(1), UpdatedAt: at(2), Full: true, Blocked: true,
		Seen:         identity.Stamp{At: at(3), Rank: identity.RankUpdated, Message: "msg_1"},
		NameIssuedAt: at(4), EmailIssuedAt: at(5), AvatarURLIssuedAt: at(6),
	}, "DeletedAt")
}

// someSession returns a session that is not stored yet, with every field set that
// one in force has.
func someSession(u id.User, o id.Org) session.Session {
	return must.Full(session.Session{
		ID: fresh[id.Session](), User: u, Org: o, CreatedAt: at(1), LastUsedAt: at(2), ExpiresAt: at(3), Address: "2001:db8::1",
		UserAgent: "Agent/1.0 (ünïcödé 🦉)", Unnamed: true,
	}, "Org", "Ended")
}

// someOrg returns an organisation that is not stored yet.
func someOrg() org.Organisation {
	o := fresh[id.Org]()
	return must.Full(org.Organisation{
		ID: o, ProviderID: "org_" + string(o), Name: "Łódź & Søn \"A/S\"", Slug: "lodz-son", CreatedAt: at(1), UpdatedAt: at(2),
		Full: true, Seen: identity.Stamp{At: at(3), Rank: identity.RankUpdated, Message: "msg_1"}, SlugIssuedAt: at(5), EmailsUntil: at(6),
		CreatedBy: "user_x", CreatedBySeen: identity.Stamp{At: at(4), Rank: identity.RankCreated, Message: "msg_2"},
	}, "ClosedAt", "ErasedAt")
}

// someInvitation returns a pending invitation that is not stored yet.
func someInvitation(o id.Org, by id.User) invitation.Invitation {
	i := fresh[id.Invitation]()
	return must.Full(invitation.New(invitation.Invitation{
		ID: i, Org: o, Email: "Guest." + string(i) + "@Example.com", Role: org.Member, InvitedBy: by, ProviderID: "inv_" + string(i),
		ResendsUntil: at(6),
	}, strings.Repeat("0", 28)+string(i), at(5)), "AcceptedAt", "Seen")
}

// someTask returns a task that is not stored yet, with every field set that is not the store's.
func someTask(o id.Org, in *id.Workspace, by id.User) task.Task {
	return must.Full(task.Task{
		ID: fresh[id.Task](), Org: o, Title: "Say \"it's\" 100 % — done? \\ 🦉", Description: new("Two\nlines,\tand ünïcödé"),
		Priority: task.Urgent, Assignee: new(by), Workspace: in, Due: new(instant(at(86_400_000))), Tags: []string{"z", "a b", "ä"},
		Metadata: "{ \"b\": 1.0,\n\t\"a\": [\"\\u0041\", null, 1e2],  \"b\": {} }", CreatedBy: by, CreatedAt: at(6), UpdatedAt: at(7), Version: 1,
	}.Restore(task.Done, new(at(8))), "Workspace", "SortOrder")
}

// user adds a user.
func (w *fixture) user() org.User {
	w.Helper()
	return must.Do(w.Users().Upsert(w.ctx, someUser(), keep)).Or(w)
}

// org adds an organisation.
func (w *fixture) org() org.Organisation {
	w.Helper()
	return must.Do(w.Organisations().Upsert(w.ctx, someOrg(), keep)).Or(w)
}

// erase erases an organisation in small parts.
func (w *fixture) erase(o id.Org, now time.Time) {
	w.Helper()
	const limit = 2
	for before := must.Do(w.Organisations().Get(w.ctx, o)).Or(w); must.Do(w.Organisations().Erase(w.ctx, o, now, limit)).Or(w) == limit; {
		resultOf(w.Organisations().Get(w.ctx, o)).is(w, before)
	}
}

// member adds a user and makes them a member.
func (w *fixture) member(o id.Org, r org.Role) org.User {
	w.Helper()
	u := w.user()
	w.join(o, u.ID, r, at(10))
	return u
}

// join makes a user a member.
func (w *fixture) join(o id.Org, u id.User, r org.Role, joined time.Time) org.Membership {
	w.Helper()
	m := must.Full(org.Membership{
		Org: o, User: u, Role: r, OnboardingCompleted: true, JoinedAt: joined, UsedAt: at(11), ProviderRole: "org:" + string(r), RoleIssuedAt: at(13), RoleSetHere: true,
		Seen: identity.Stamp{At: at(12), Rank: identity.RankCreated, Message: "msg_3"},
	}, "RemovedAt")
	w.ok(w.Members().Put(w.ctx, o, m))
	return m
}

// team adds a STANDARD team.
func (w *fixture) team(o id.Org, by id.User) team.Team {
	w.Helper()
	t := someTeam(o, team.Standard, by)
	w.ok(w.Teams().Add(w.ctx, o, t))
	return t
}

func someTeam(o id.Org, kind team.Kind, by id.User) team.Team {
	return must.Full(team.Team{
		ID: fresh[id.Team](), Org: o, Name: "Tëam % 'x'", Description: new("For\nall"), Kind: kind,
		CreatedBy: by, CreatedAt: at(20), UpdatedAt: at(21),
	})
}

// workspace adds a workspace.
func (w *fixture) workspace(o id.Org, in id.Team, by id.User) workspace.Workspace {
	w.Helper()
	s := someWorkspace(o, in, by)
	w.ok(w.Workspaces().Add(w.ctx, o, s))
	return s
}

func someWorkspace(o id.Org, in id.Team, by id.User) workspace.Workspace {
	return must.Full(workspace.Workspace{
		ID: fresh[id.Workspace](), Org: o, Team: in, Name: "Wörk _ 'y'", Description: new("Of\nall"),
		CreatedBy: by, CreatedAt: at(30), UpdatedAt: at(31),
	})
}

// task adds a task.
func (w *fixture) task(o id.Org, in *id.Workspace, by id.User) task.Task {
	w.Helper()
	return must.Do(w.Tasks().Add(w.ctx, o, someTask(o, in, by))).Or(w)
}

// change adds a line to a task's history.
func (w *fixture) change(t task.Task) task.Change {
	w.Helper()
	c := someChange(t)
	w.ok(w.TaskHistory().Add(w.ctx, t.Org, []task.Change{c}))
	return c
}

func someChange(t task.Task) task.Change {
	return must.Full(task.Change{
		ID: fresh[id.Entry](), Org: t.Org, Task: t.ID, At: at(40), By: t.CreatedBy, Reason: "Because \"so\"",
		Fields: []task.Delta{
			{Field: "title", From: new("a"), To: new("")}, {Field: "description"},
			{Field: "assigneeId", To: new("ü")}, {Field: "dueDate", From: new("2026-01-31")},
		},
	})
}

// tenant is an organisation with records of every kind. The owner made them
// all and so sees every task.
type tenant struct {
	org.Organisation
	owner, removed               org.User
	shared, team                 team.Team
	workspace                    workspace.Workspace
	inside, unplaced             task.Task // in the workspace, and in none
	invitation                   invitation.Invitation
	entry                        audit.Entry
	sharedObject, personalObject object.Object // shared, and the owner's own with a note of the workspace
	lease                        quota.Lease   // of the owner's, with 100 tokens
	used                         usage.Entry
}

// actor returns the owner.
func (tn tenant) actor() org.Actor { return org.Actor{User: tn.owner.ID, Org: tn.ID} }

// tenant adds one.
func (w *fixture) tenant() tenant {
	w.Helper()
	o := w.org()
	tn := tenant{Organisation: o, owner: w.member(o.ID, org.Owner), removed: w.user()}
	gone := w.join(o.ID, tn.removed.ID, org.Member, at(13))
	gone.RemovedAt = new(at(14))
	w.ok(w.Members().Put(w.ctx, o.ID, gone))

	tn.invitation = someInvitation(o.ID, tn.owner.ID)
	w.ok(w.Invitations().Put(w.ctx, o.ID, tn.invitation))
	w.ok(w.Subscriptions().Put(w.ctx, o.ID, someSubscription(o.ID)))

	tn.shared = someTeam(o.ID, team.Shared, tn.owner.ID)
	w.ok(w.Teams().Add(w.ctx, o.ID, tn.shared))
	tn.team = w.team(o.ID, tn.owner.ID)
	must.Do(w.TeamMembers().Put(w.ctx, o.ID, team.Member{Team: tn.team.ID, User: tn.owner.ID, JoinedAt: at(22)})).Or(w)

	tn.workspace = w.workspace(o.ID, tn.team.ID, tn.owner.ID)
	w.ok(w.Orders().Update(w.ctx, o.ID, tn.owner.ID, func(workspace.Order) (workspace.Order, error) {
		return workspace.Order{tn.workspace.ID}, nil
	}))
	tn.inside = w.task(o.ID, &tn.workspace.ID, tn.owner.ID)
	tn.unplaced = w.task(o.ID, nil, tn.owner.ID)
	w.change(tn.inside)
	w.change(tn.unplaced)

	tn.entry = someEntry(o.ID, tn.owner.ID)
	w.ok(w.Audit().Add(w.ctx, tn.entry))

	own := object.Place{Kind: object.Artifact, Scope: object.Personal, Workspace: &tn.workspace.ID, Owner: &tn.owner.ID}
	tn.sharedObject = w.addObject(someObject(o.ID, object.Place{Kind: object.Template, Scope: object.Shared}, "shared.md", tn.owner.ID))
	tn.personalObject = w.addObject(someObject(o.ID, own, "personal/a.md", tn.owner.ID))

	tn.lease = w.lease(someLease(o.ID, tn.owner.ID), 100)
	tn.used = someUsage(o.ID, tn.owner.ID)
	w.ok(w.Ledger().Settle(w.ctx, tn.ID, tn.used))
	return tn
}

// someObject returns an object that is not stored yet, with every field set.
func someObject(o id.Org, in object.Place, path string, by id.User) object.Object {
	v := object.Object{
		Place: in, ID: fresh[id.Object](), Org: o, Path: path, MimeType: "text/markdown; charset=\"utf-8\"", Version: 3,
		CreatedBy: fresh[id.User](), UpdatedBy: by, CreatedAt: at(70), UpdatedAt: at(71),
	}
	v.Content = object.Content{
		Blob: v.BlobName(nextID()), Size: 5 << 40, Checksum: strings.Repeat("0123456789abcdef", 4), Text: true,
	}
	return must.Full(v, "Workspace", "Team", "Owner", "UpdatedBy", "N")
}

// addObject adds an object and the change that it makes.
func (w *fixture) addObject(v object.Object) object.Object {
	w.Helper()
	return w.addObjects(v)[0]
}

// appends returns what append and logged run that only append changes.
func appends(made ...object.Change) func(ports.Storage) ([]object.Change, error) {
	return func(ports.Storage) ([]object.Change, error) { return made, nil }
}

// addObjects adds objects of one organisation with their changes, and returns
// them with their numbers.
func (w *fixture) addObjects(vs ...object.Object) []object.Object {
	w.Helper()
	head := w.logged(vs[0].Org, func(s ports.Storage) (made []object.Change, err error) {
		for _, v := range vs {
			made = append(made, object.NewChange(v))
			err = errors.Join(err, s.Objects().Add(w.ctx, v.Org, v))
		}
		return made, err
	})
	for i := range vs {
		vs[i].N = head.N - int64(len(vs)-1-i)
	}
	return vs
}

// logged runs fn, which must not fail, under the Lock of the organisation's log
// and appends what it returns.
func (w *fixture) logged(o id.Org, fn func(ports.Storage) ([]object.Change, error)) object.Head {
	w.Helper()
	return must.Do(w.append(o, fn)).Or(w)
}

// append is logged where it may fail.
func (w *fixture) append(o id.Org, fn func(ports.Storage) ([]object.Change, error)) (head object.Head, err error) {
	err = w.store.Atomic(w.ctx, func(r ports.Records) error {
		if _, err := r.Storage().Changes().Lock(w.ctx, o); err != nil {
			return err
		}
		made, err := fn(r.Storage())
		if err == nil {
			head, err = r.Storage().Changes().Append(w.ctx, o, made...)
		}
		return err
	})
	return head, err
}

// someSubscription returns a subscription with every field set. It is not due.
func someSubscription(o id.Org) plan.Subscription {
	return must.Full(plan.Subscription{
		Org: o, Plan: plan.Premium, PurchasedSeats: new(7), CurrentPeriodStart: new(at(50)), CurrentPeriodEnd: new(at(51)),
		CancelAtPeriodEnd: true, TrialEnd: new(at(53)), ManagedExternally: true, HasPaymentMethod: true, EverPaid: true, UpdatedAt: at(52),
		Customer: "cus_" + string(o), ProviderID: "sub_ü", SyncedAt: at(54), Attempts: 2, ClaimedAt: at(55), Revision: 3,
		Checkout: &plan.Checkout{Key: "key 'x'", Plan: plan.Standard, Session: "cs_1", URL: "https://pay.example.com/a?b=c#d%20", ExpiresAt: at(55)},
	}.Restore(plan.PastDue))
}

// storedSubscription is a subscription as it comes back after it was put.
func storedSubscription(s plan.Subscription) plan.Subscription {
	s.Revision++
	return s
}

func someEntry(o id.Org, by id.User) audit.Entry {
	return must.Full(audit.Entry{
		ID: fresh[id.Entry](), Org: o, At: at(60), Actor: by, Operator: true, Action: audit.RoleChanged, Target: string(by),
		Detail: "MEMBER -> ADMIN", Address: "2001:db8::1", Request: "req \"1\"",
	}, "Org", "Actor", "Target")
}

// content is all that the store holds of a tenant.
type content struct {
	Organisation org.Organisation
	Profiles     []org.Profile
	Removed      org.Membership
	Seats        org.Seats
	Pending      []invitation.Invitation
	Subscription plan.Subscription
	Teams        []team.Team
	InTeam       []team.Profile
	TeamsOf      []id.Team
	Workspaces   []workspace.Workspace
	Order        workspace.Order
	Tasks        []task.Task
	Inside       []task.Change
	Unplaced     []task.Change
	Audit        []audit.Entry
	Epoch        int64
	Objects      []object.Object
	Used         object.Usage
	Log          []object.Change
	Head         object.Head
	Account      quota.Account
	Usage        totals
	Entries      []usage.Entry
}

// content reads all that the store holds of the tenant.
func (w *fixture) content(tn tenant) content {
	w.Helper()
	o := tn.ID
	var c content
	c.Organisation = must.Do(w.Organisations().Get(w.ctx, o)).Or(w)
	c.Profiles = w.profiles(o, id.Position[id.User]{}, 0)
	c.Removed = orZero(w, resultOf(w.Members().Get(w.ctx, o, tn.removed.ID)))
	c.Seats = w.seatsOf(o)
	c.Pending = must.Do(w.pending(o, at(6), id.Position[id.Invitation]{}, 0)).Or(w)
	c.Subscription = must.Do(w.Subscriptions().Get(w.ctx, o)).Or(w)
	c.Teams = must.Do(w.allTeams(o)).Or(w)
	c.InTeam = orZero(w, resultOf(w.inTeam(o, tn.team.ID)))
	c.TeamsOf = must.Do(w.TeamMembers().OfUser(w.ctx, o, tn.owner.ID)).Or(w)
	c.Workspaces = must.Do(w.allWorkspaces(o)).Or(w)
	c.Order = must.Do(w.Orders().Get(w.ctx, o, tn.owner.ID)).Or(w)
	c.Tasks = w.listed(o, tn.actor(), task.Filter{})
	c.Inside = orZero(w, resultOf(w.historyOf(o, tn.inside.ID, id.Position[id.Entry]{}, 0)))
	c.Unplaced = orZero(w, resultOf(w.historyOf(o, tn.unplaced.ID, id.Position[id.Entry]{}, 0)))
	c.Audit = must.Do(w.audited(o, audit.Filter{})).Or(w)
	c.Epoch = w.epoch(o)
	c.Objects = w.objectsOf(o, object.Filter{})
	c.Used = w.used(o)
	c.Log = w.log(o)
	c.Head = w.head(o)
	c.Account = must.Do(w.Quotas().Account(w.ctx, o, tn.owner.ID, tn.lease.Day)).Or(w)
	c.Usage = must.Do(w.summary(o, "", always)).Or(w)
	c.Usage.Period = usage.Period{} // not the tenant's
	c.Entries = w.entries(o, always)
	return c
}

// objectsOf reads a list of all members' objects.
func (w *fixture) objectsOf(o id.Org, f object.Filter) (all []object.Object) {
	w.Helper()
	w.ok(w.Objects().List(w.ctx, o, nil, f, nil, collect(&all)))
	return all
}

// log reads all that is left of an organisation's log.
func (w *fixture) log(o id.Org) []object.Change {
	w.Helper()
	const limit = 50
	return paged(w, limit, func(last *object.Change) []object.Change {
		var after int64
		if last != nil {
			after = last.N
		}
		return must.Do(w.Changes().List(w.ctx, o, after, limit)).Or(w)
	})
}

// head reads where an organisation's log stands.
func (w *fixture) head(o id.Org) object.Head {
	w.Helper()
	head, there := must.Do(w.Changes().Heads(w.ctx, []id.Org{o})).Or(w)[o]
	if !there {
		w.Fatalf("organisation %s has no head", o)
	}
	return head
}

// seatsOf counts one organisation's seats, before any invitation expires.
func (w *fixture) seatsOf(o id.Org) org.Seats {
	w.Helper()
	return must.Do(w.Seats().Count(w.ctx, []id.Org{o}, at(6))).Or(w)[o]
}

// orZero returns the zero value for what is not found.
func orZero[V any](w *fixture, o outcome[V]) (v V) {
	w.Helper()
	if o.err != nil {
		w.wantNotFound(o.err)
		return v
	}
	return o.value
}

// profiles reads the list of members.
func (w *fixture) profiles(o id.Org, after id.Position[id.User], limit int) []org.Profile {
	w.Helper()
	return w.membersOf(o, org.MemberFilter{After: after, Limit: limit})
}

// membersOf reads a list of members.
func (w *fixture) membersOf(o id.Org, f org.MemberFilter) (all []org.Profile) {
	w.Helper()
	w.ok(w.Members().List(w.ctx, o, f, collect(&all)))
	return all
}

// allTeams reads every team of the organisation.
func (w *fixture) allTeams(o id.Org) ([]team.Team, error) {
	refs, err := w.Teams().Refs(w.ctx, o)
	return allOf(w, refs, err, func(r team.Ref) id.Team { return r.ID }, func(ids []id.Team) ([]team.Team, error) { return w.Teams().List(w.ctx, o, ids) }, team.Team.Ref)
}

// allOf reads the records of references, and expects the same references of them.
func allOf[V, R, ID any](w *fixture, refs []R, err error, idOf func(R) ID, list func([]ID) ([]V, error), ref func(V) R) ([]V, error) {
	if err != nil {
		return nil, err
	}
	ids := make([]ID, len(refs))
	for i, r := range refs {
		ids[i] = idOf(r)
	}
	all, err := list(ids)
	if len(all) != len(refs) {
		return nil, errors.Join(err, fmt.Errorf("%d records of %d", len(all), len(refs)))
	}
	for i, v := range all {
		wantEqual(w, refs[i], ref(v))
	}
	return all, err
}

// allWorkspaces reads every workspace of the organisation.
func (w *fixture) allWorkspaces(o id.Org) ([]workspace.Workspace, error) {
	refs, err := w.Workspaces().Refs(w.ctx, o)
	list := func(ids []id.Workspace) ([]workspace.Workspace, error) { return w.Workspaces().List(w.ctx, o, ids) }
	return allOf(w, refs, err, func(r workspace.Ref) id.Workspace { return r.ID }, list, func(v workspace.Workspace) workspace.Ref {
		return workspace.Ref{ID: v.ID, Team: v.Team}
	})
}

// inTeam reads the members of a team.
func (w *fixture) inTeam(o id.Org, t id.Team) (all []team.Profile, err error) {
	err = w.TeamMembers().List(w.ctx, o, t, id.Position[id.User]{}, 0, collect(&all))
	return all, err
}

// listed reads a list of tasks.
func (w *fixture) listed(o id.Org, a org.Actor, f task.Filter) (all []task.Task) {
	w.Helper()
	w.ok(w.Tasks().List(w.ctx, o, a, f, collect(&all)))
	return all
}

// instances returns a page of the organisation's connectors.
func (w *fixture) instances(o id.Org, after id.Position[id.Connector], limit int) ([]connector.Instance, error) {
	return collected(func(each func(connector.Instance) error) error {
		return w.Connectors().List(w.ctx, o, after, limit, each)
	})
}

// pending returns a page of the organisation's invitations that are pending at now.
func (w *fixture) pending(o id.Org, now time.Time, after id.Position[id.Invitation], limit int) ([]invitation.Invitation, error) {
	return collected(func(each func(invitation.Invitation) error) error {
		return w.Invitations().List(w.ctx, o, now, after, limit, each)
	})
}

// collect returns a function that appends to a list.
func collect[V any](all *[]V) func(V) error {
	return func(v V) error {
		*all = append(*all, v)
		return nil
	}
}

// collected returns what list calls each with.
func collected[V any](list func(each func(V) error) error) (all []V, err error) {
	err = list(collect(&all))
	return all, err
}

// historyOf reads a task's history.
func (w *fixture) historyOf(o id.Org, t id.Task, after id.Position[id.Entry], limit int) ([]task.Change, error) {
	return collected(func(each func(task.Change) error) error { return w.TaskHistory().List(w.ctx, o, t, after, limit, each) })
}

// audited reads an organisation's audit log.
func (w *fixture) audited(o id.Org, f audit.Filter) ([]audit.Entry, error) {
	return collected(func(each func(audit.Entry) error) error { return w.Audit().List(w.ctx, o, f, each) })
}

// epoch reads an organisation's epoch.
func (w *fixture) epoch(o id.Org) int64 {
	w.Helper()
	epoch, there := must.Do(w.epochs.Epochs(w.ctx, []id.Org{o})).Or(w)[o]
	if !there {
		w.Fatalf("organisation %s has no epoch", o)
	}
	return epoch
}
