package contract

import (
	"errors"
	"fmt"
	"runtime"
	"testing"

	"collab/domain/audit"
	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/object"
	"collab/domain/org"
	"collab/domain/quota"
	"collab/domain/replay"
	"collab/domain/task"
	"collab/domain/team"
	"collab/domain/usage"
	"collab/domain/workspace"
	"collab/ports"
	"collab/test/must"
)

// Atomic is the suite of ports.Store.Atomic.
func Atomic(t *testing.T, open func(t *testing.T) Opened) {
	suite{
		"a nil error commits the changes of fn": func(w *fixture) {
			tn := w.tenant()
			x := newWholeTransaction(tn)
			was := w.content(tn)
			w.atomic(func(r ports.Records) error { return x.run(w, r) })
			if d := diff(w.content(tn), was); d == "" {
				w.Fatal("nothing has changed")
			}
			x.wantCommitted(w)
		},
		"an error rolls every collection back and is returned unchanged": func(w *fixture) {
			for _, failure := range []error{errors.New("failure"), fault.Missing("Anything"), fmt.Errorf("around: %w", fault.New(fault.Conflict, "No"))} {
				tn, other := w.tenant(), w.tenant()
				was, untouched := w.content(tn), w.content(other)
				x := newWholeTransaction(tn)
				w.wantSameError(w.store.Atomic(w.ctx, func(r ports.Records) error {
					if err := x.run(w, r); err != nil {
						return err
					}
					return failure
				}), failure)
				wantEqual(w, w.content(tn), was)
				wantEqual(w, w.content(other), untouched)
				x.wantRolledBack(w)
			}
		},
		"a panic rolls every collection back and continues": func(w *fixture) {
			tn := w.tenant()
			was := w.content(tn)
			x := newWholeTransaction(tn)
			var got any
			func() {
				defer func() { got = recover() }()
				err := w.store.Atomic(w.ctx, func(r ports.Records) error {
					if err := x.run(w, r); err != nil {
						return err
					}
					panic("oh")
				})
				w.Errorf("Atomic has returned %v", err)
			}()
			if got != "oh" {
				w.Fatalf("the panic is %v", got)
			}
			wantEqual(w, w.content(tn), was)
			x.wantRolledBack(w)
		},
		"a goroutine that exits inside fn rolls back": func(w *fixture) {
			tn := w.tenant()
			was := w.content(tn)
			x := newWholeTransaction(tn)
			done := make(chan error, 1)
			go func() {
				defer close(done)
				w.store.Atomic(w.ctx, func(r ports.Records) error {
					if err := x.run(w, r); err != nil {
						done <- err
						return err
					}
					runtime.Goexit()
					return nil
				})
			}()
			w.ok(<-done)
			wantEqual(w, w.content(tn), was)
			x.wantRolledBack(w)
		},
		"a failed transaction releases its lock": func(w *fixture) {
			o := w.org()
			for range 3 {
				w.rolledBack(lockOf(w, o.ID))
			}
			w.incrementEpoch(o.ID)
		},
		"reads inside fn see fn's own writes": func(w *fixture) {
			tn := w.tenant()
			x := newWholeTransaction(tn)
			w.atomic(func(r ports.Records) error {
				if err := x.run(w, r); err != nil {
					return err
				}
				x.wantCommitted(w.in(r))
				return nil
			})
		},
		"a failed method changes nothing, and the transaction continues": func(w *fixture) {
			tn, other := w.tenant(), w.tenant()
			message := nextID()
			w.ok(w.Inbox().Accept(w.ctx, "identity", message, at(0)))
			pending := "pending " + nextID()
			w.ok(w.BlobNames().Announce(w.ctx, tn.ID, pending, 0, at(0)))
			var added task.Task
			was := w.content(tn)
			w.atomic(func(r ports.Records) error {
				taken := tn.team
				taken.Name = "Never"
				orphan := someTask(tn.ID, &other.workspace.ID, tn.owner.ID)
				repeated := someInvitation(tn.ID, tn.owner.ID)
				repeated.ProviderID = tn.invitation.ProviderID
				sameKey := tn.sharedObject
				sameKey.ID = fresh[id.Object]()
				lost := tn.sharedObject
				lost.ID = fresh[id.Object]()
				w.wantConflict(r.Journal().Inbox().Accept(w.ctx, "identity", message, at(1)))
				w.wantConflict(r.Storage().Objects().Add(w.ctx, tn.ID, sameKey))
				w.wantNotFound(r.Storage().Objects().Put(w.ctx, tn.ID, lost))
				w.wantConflict(r.Storage().BlobNames().Announce(w.ctx, tn.ID, pending, 0, at(1)))
				w.wantNotFound(r.Storage().BlobNames().Forget(w.ctx, object.Blob{Org: tn.ID, Name: pending, Discarded: true}))
				resultOf(r.Usage().Quotas().ReserveAt(w.ctx, 0, tn.lease, 1000, quota.Need{Output: 1})).wantConflict(w)
				w.wantConflict(r.Usage().Ledger().Settle(w.ctx, tn.ID, someUsage(tn.ID, tn.owner.ID), tn.used))
				w.wantConflict(r.Work().Teams().Add(w.ctx, tn.ID, someTeam(tn.ID, team.Shared, tn.owner.ID)))
				w.wantConflict(r.Work().Teams().Add(w.ctx, tn.ID, taken))
				w.wantConflict(r.Work().Teams().Remove(w.ctx, tn.ID, tn.team.ID))
				w.wantConflict(r.Directory().Invitations().Put(w.ctx, tn.ID, repeated))
				resultOf(r.Work().Tasks().Add(w.ctx, tn.ID, tn.unplaced)).wantConflict(w)
				resultOf(r.Work().Tasks().Add(w.ctx, tn.ID, orphan)).wantNotFound(w)
				w.wantNotFound(r.Work().Workspaces().Add(w.ctx, tn.ID, someWorkspace(tn.ID, other.team.ID, tn.owner.ID)))
				w.wantNotFound(must.ErrorOf(r.Work().TeamMembers().Put(w.ctx, tn.ID, team.Member{Team: other.team.ID, User: tn.owner.ID, JoinedAt: at(1)})))
				w.wantNotFound(r.Work().TaskHistory().Add(w.ctx, tn.ID, []task.Change{someChange(tn.unplaced), someChange(orphan)}))
				resultOf(r.Work().Tasks().Revise(w.ctx, tn.ID, other.unplaced.ID, touched)).wantNotFound(w)
				var err error
				added, err = r.Work().Tasks().Add(w.ctx, tn.ID, someTask(tn.ID, nil, tn.owner.ID))
				return err
			})
			want := was
			want.Tasks = []task.Task{tn.inside, tn.unplaced, added}
			wantEqual(w, w.content(tn), want)
		},
		"a transaction is visible completely or not at all": func(w *fixture) {
			o := w.org()
			by := w.member(o.ID, org.Owner).ID
			actor := org.Actor{User: by, Org: o.ID}
			w.allOK(concurrently(concurrent, func(i int) error {
				if i%2 == 0 {
					return w.store.Atomic(w.ctx, func(r ports.Records) error {
						for range 3 {
							if _, err := r.Work().Tasks().Add(w.ctx, o.ID, bare(someTask(o.ID, nil, by))); err != nil {
								return err
							}
						}
						return nil
					})
				}
				var all []task.Task
				err := w.Tasks().List(w.ctx, o.ID, actor, task.Filter{}, collect(&all))
				if err == nil && len(all)%3 != 0 {
					err = fmt.Errorf("%d tasks of threes", len(all))
				}
				return err
			}))
			wantEqual(w, len(w.listed(o.ID, actor, task.Filter{})), 3*concurrent/2)
		},
	}.run(t, open)
}

// wholeTransaction is a change to every collection at once.
type wholeTransaction struct {
	tenant
	user         org.User
	organisation org.Organisation
	added        team.Team
	inside       workspace.Workspace
	task         task.Task
	message      string
	replay       replay.Record
	object       object.Object
	replaced     object.Object // the shared one
	lease        quota.Lease
	used         usage.Entry
}

func newWholeTransaction(tn tenant) wholeTransaction {
	x := wholeTransaction{tenant: tn, user: someUser(), organisation: someOrg(), message: nextID()}
	x.added = someTeam(tn.ID, team.Standard, tn.owner.ID)
	x.inside = someWorkspace(tn.ID, x.added.ID, tn.owner.ID)
	x.task = someTask(tn.ID, &x.inside.ID, tn.owner.ID)
	x.replay = replay.Record{Key: nextID(), Fingerprint: nextID(), Claim: nextID(), ExpiresAt: at(1000)}
	x.object = someObject(tn.ID, object.Place{Kind: object.Artifact, Scope: object.Shared, Workspace: &x.inside.ID}, "a.md", tn.owner.ID)
	next := object.Content{Blob: tn.sharedObject.BlobName(nextID()), Size: 1}
	x.replaced = tn.sharedObject.WithContent(next, tn.owner.ID, at(309))
	x.object.N, x.replaced.N = tn.personalObject.N+1, tn.personalObject.N+2
	x.lease, x.used = someLease(tn.ID, tn.owner.ID), someUsage(tn.ID, x.user.ID)
	return x
}

// run adds to, replaces and removes from every collection. It may run again.
func (x wholeTransaction) run(w *fixture, r ports.Records) error {
	o, d, k, j, s := x.ID, r.Directory(), r.Work(), r.Journal(), r.Storage()
	closed := func(o org.Organisation) (org.Organisation, error) { return o.Close(at(300)), nil }
	erased := func(u org.User) (org.User, error) { return u.Erased(at(301)), nil }
	withdrawn, err := x.invitation.Withdrawn(at(304))
	placed := func(_ int, p task.Placement) (task.Placement, error) { return p, nil }
	order := func(workspace.Order) (workspace.Order, error) { return workspace.Order{x.inside.ID}, nil }
	reserve := func() error {
		epoch, err := d.Members().Epoch(w.ctx, o)
		_, err2 := r.Usage().Quotas().ReserveAt(w.ctx, epoch, x.lease, 1<<50, quota.Need{Output: 7})
		return errors.Join(err, err2)
	}
	for step, err := range []error{
		err,
		must.ErrorOf(d.Organisations().Lock(w.ctx, o)),
		must.ErrorOf(d.Users().Upsert(w.ctx, x.user, keep)),
		must.ErrorOf(d.Organisations().Upsert(w.ctx, x.organisation, keep)),
		must.ErrorOf(d.Organisations().Upsert(w.ctx, x.Organisation, closed)),
		must.ErrorOf(d.Users().Upsert(w.ctx, x.owner, erased)),
		d.Members().Put(w.ctx, o, org.Membership{Org: o, User: x.user.ID, Role: org.Owner, JoinedAt: at(302)}),
		d.Members().Put(w.ctx, o, org.Membership{Org: o, User: x.owner.ID, Role: org.Viewer, JoinedAt: at(303)}),
		d.Invitations().Put(w.ctx, o, withdrawn),
		d.Subscriptions().Put(w.ctx, o, someSubscription(o).Restore("OTHER")),
		k.Teams().Add(w.ctx, o, x.added),
		k.Workspaces().Add(w.ctx, o, x.inside),
		must.ErrorOf(k.TeamMembers().Put(w.ctx, o, team.Member{Team: x.added.ID, User: x.owner.ID, JoinedAt: at(305)})),
		k.TeamMembers().Remove(w.ctx, o, x.team.ID, x.owner.ID),
		must.ErrorOf(k.Tasks().Add(w.ctx, o, x.task)),
		k.TaskHistory().Add(w.ctx, o, []task.Change{someChange(x.task), someChange(x.unplaced)}),
		must.ErrorOf(k.Tasks().Revise(w.ctx, o, x.unplaced.ID, touched)),
		k.TaskSets().Move(w.ctx, o, []id.Task{x.unplaced.ID}, at(305), placed),
		k.Tasks().Unassign(w.ctx, o, x.owner.ID, at(306)),
		k.Workspaces().Remove(w.ctx, o, x.workspace.ID),
		k.Teams().Remove(w.ctx, o, x.team.ID),
		k.Orders().Update(w.ctx, o, x.owner.ID, order),
		j.Inbox().Accept(w.ctx, "identity", x.message, at(307)),
		j.Audit().Add(w.ctx, someEntry(o, x.user.ID)),
		must.ErrorOf(j.Replays().Begin(w.ctx, x.replay, at(0))),
		must.ErrorOf(s.Changes().Lock(w.ctx, o)),
		s.Objects().Add(w.ctx, o, x.object),
		s.Objects().Put(w.ctx, o, x.replaced),
		s.Objects().Remove(w.ctx, o, []id.Object{x.personalObject.ID}),
		s.BlobNames().Announce(w.ctx, o, x.object.BlobName("next"), 0, at(309)),
		s.BlobNames().Discard(w.ctx, o, []string{x.sharedObject.Blob}, at(309)),
		must.ErrorOf(s.Changes().Append(w.ctx, o, x.changes()...)),
		reserve(),
		r.Usage().Ledger().Settle(w.ctx, o, ended(x.tenant.lease, 20), x.used),
	} {
		if err != nil {
			return fmt.Errorf("step %d: %w", step, err)
		}
	}
	return nil
}

// changes are what the transaction does to objects.
func (x wholeTransaction) changes() []object.Change {
	return []object.Change{object.NewChange(x.object), object.NewChange(x.replaced), object.NewDeletion(x.personalObject, x.owner.ID, at(309), nil)}
}

// wantCommitted ends the sub-test unless the changes of the transaction are visible.
func (x wholeTransaction) wantCommitted(w *fixture) {
	w.Helper()
	o := x.ID
	resultOf(w.Users().Get(w.ctx, x.user.ID)).is(w, x.user)
	resultOf(w.Users().ByProvider(w.ctx, x.owner.ProviderID)).is(w, x.owner.Erased(at(301)))
	resultOf(w.Organisations().Get(w.ctx, x.organisation.ID)).is(w, x.organisation)
	resultOf(w.Organisations().Get(w.ctx, o)).is(w, x.Close(at(300)))
	wantEqual(w, w.seatsOf(o), org.Seats{Owners: 1, Members: 2})
	resultOf(w.Invitations().ByToken(w.ctx, x.invitation.TokenHash)).wantNotFound(w)
	resultOf(w.Subscriptions().Get(w.ctx, o)).is(w, storedSubscription(someSubscription(o).Restore("OTHER")))
	resultOf(w.allTeams(o)).is(w, []team.Team{x.shared, x.added})
	resultOf(w.TeamMembers().OfUser(w.ctx, o, x.owner.ID)).is(w, []id.Team{x.added.ID})
	resultOf(w.allWorkspaces(o)).is(w, []workspace.Workspace{x.inside})
	resultOf(w.Orders().Get(w.ctx, o, x.owner.ID)).is(w, workspace.Order{x.inside.ID})
	resultOf(w.Tasks().Get(w.ctx, o, x.tenant.inside.ID)).wantNotFound(w)
	loose, _ := touched(x.unplaced)
	resultOf(w.Tasks().Get(w.ctx, o, x.unplaced.ID)).is(w, loose.Placed(x.unplaced.Placement(), at(305)).Unassigned(at(306)))
	wantEqual(w, len(w.listed(o, x.actor(), task.Filter{})), 2)
	wantEqual(w, len(must.Do(w.historyOf(o, x.unplaced.ID, id.Position[id.Entry]{}, 0)).Or(w)), 2)
	wantEqual(w, len(must.Do(w.audited(o, audit.Filter{})).Or(w)), 2)
	w.wantConflict(w.Inbox().Accept(w.ctx, "identity", x.message, at(308)))
	other := x.replay
	other.Claim = nextID()
	resultOf(w.Replays().Begin(w.ctx, other, at(1))).is(w, x.replay)
	wantEqual(w, w.objectsOf(o, object.Filter{}), []object.Object{x.replaced, x.object})
	numbered := x.changes()
	for i := range numbered {
		numbered[i].N = x.personalObject.N + 1 + int64(i)
	}
	wantEqual(w, must.Do(w.Changes().List(w.ctx, o, x.personalObject.N, 100)).Or(w), numbered)
	wantEqual(w, w.head(o).N, x.personalObject.N+3)
	w.wantKnown(map[string]bool{x.object.BlobName("next"): true, x.sharedObject.Blob: true, x.object.Blob: true, x.personalObject.Blob: false})
	w.account(o, x.owner.ID, quota.Account{Used: x.tenant.used.Tokens.Total() + 20, Reserved: 7})
	settled := []usage.Entry{ended(x.tenant.lease, 20), x.tenant.used, x.used}
	resultOf(w.summary(o, "", always)).is(w, recount(settled, "", always))
	wantEqual(w, w.entries(o, always), settled)
}

// wantRolledBack ends the sub-test if a change of the transaction is visible outside
// of the tenant.
func (x wholeTransaction) wantRolledBack(w *fixture) {
	w.Helper()
	resultOf(w.Users().Get(w.ctx, x.user.ID)).wantNotFound(w)
	resultOf(w.Users().Get(w.ctx, x.owner.ID)).is(w, x.owner)
	resultOf(w.Organisations().Get(w.ctx, x.organisation.ID)).wantNotFound(w)
	resultOf(w.Invitations().Get(w.ctx, x.ID, x.invitation.ID)).is(w, x.invitation)
	w.ok(w.Inbox().Accept(w.ctx, "identity", x.message, at(308)))
	w.wantNotFound(w.Replays().Finish(w.ctx, x.replay))
	w.wantKnown(map[string]bool{x.object.BlobName("next"): false, x.object.Blob: false, x.sharedObject.Blob: true, x.personalObject.Blob: true})
}
