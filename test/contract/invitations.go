package contract

import (
	"testing"

	"collab/domain/id"
	"collab/domain/identity"
	"collab/domain/invitation"
	"collab/domain/org"
	"collab/test/must"
)

// Invitations is the suite of ports.Invitations.
func Invitations(t *testing.T, open func(t *testing.T) Opened) {
	suite{
		"an unknown invitation is not found, nor is another organisation's, which cannot be replaced": func(w *fixture) {
			o, other := w.org(), w.org()
			i := someInvitation(other.ID, w.member(other.ID, org.Owner).ID)
			w.ok(w.Invitations().Put(w.ctx, other.ID, i))
			for _, unknown := range []invitation.Invitation{i, someInvitation(o.ID, i.InvitedBy)} {
				resultOf(w.Invitations().Get(w.ctx, o.ID, unknown.ID)).wantNotFound(w)
				resultOf(w.Invitations().ByProvider(w.ctx, o.ID, unknown.ProviderID)).wantNotFound(w)
			}
			resultOf(w.Invitations().ByToken(w.ctx, nextID())).wantNotFound(w)
			resultOf(w.pending(o.ID, at(6), id.Position[id.Invitation]{}, 0)).is(w, nil)
			resultOf(w.Invitations().Pending(w.ctx, o.ID, i.Email, at(6))).is(w, nil)
			theirs := someInvitation(o.ID, w.member(o.ID, org.Owner).ID)
			theirs.ID = i.ID
			if err := w.Invitations().Put(w.ctx, o.ID, theirs); err != nil {
				w.wantConflict(err)
			}
			resultOf(w.Invitations().Get(w.ctx, other.ID, i.ID)).is(w, i)
		},
		"an invitation is returned with every field as stored, in every state": func(w *fixture) {
			o := w.org()
			by := w.member(o.ID, org.Owner)
			pending := someInvitation(o.ID, by.ID)
			accepted := someInvitation(o.ID, by.ID).Restore(invitation.Accepted)
			accepted.AcceptedAt, accepted.TokenHash = new(at(70)), ""
			accepted.Seen = identity.Stamp{At: at(70), Rank: identity.RankEnded, Message: "msg_9"}
			revoked := must.Do(someInvitation(o.ID, by.ID).Withdrawn(at(80))).Or(w)
			revoked.ProviderID, revoked.InvitedBy = "", ""
			for _, i := range []invitation.Invitation{pending, accepted, revoked} {
				w.ok(w.Invitations().Put(w.ctx, o.ID, i))
				resultOf(w.Invitations().Get(w.ctx, o.ID, i.ID)).is(w, i)
			}
			resultOf(w.Invitations().ByProvider(w.ctx, o.ID, pending.ProviderID)).is(w, pending)
			resultOf(w.Invitations().ByProvider(w.ctx, o.ID, accepted.ProviderID)).is(w, accepted)
			resultOf(w.Invitations().ByToken(w.ctx, pending.TokenHash)).is(w, pending)
		},
		"put replaces the invitation": func(w *fixture) {
			o := w.org()
			i := someInvitation(o.ID, w.member(o.ID, org.Owner).ID)
			w.ok(w.Invitations().Put(w.ctx, o.ID, i))
			was := i
			i = must.Do(i.Resent(nextID(), at(1000))).Or(w)
			i.Role, i.Email, i.ProviderID = org.Viewer, "other@example.com", "inv_"+nextID()
			w.ok(w.Invitations().Put(w.ctx, o.ID, i))
			resultOf(w.Invitations().Get(w.ctx, o.ID, i.ID)).is(w, i)
			resultOf(w.Invitations().ByToken(w.ctx, i.TokenHash)).is(w, i)
			resultOf(w.Invitations().ByProvider(w.ctx, o.ID, i.ProviderID)).is(w, i)
			resultOf(w.Invitations().ByToken(w.ctx, was.TokenHash)).wantNotFound(w)
			resultOf(w.Invitations().ByProvider(w.ctx, o.ID, was.ProviderID)).wantNotFound(w)

			i = must.Do(i.Withdrawn(at(1001))).Or(w)
			w.ok(w.Invitations().Put(w.ctx, o.ID, i))
			resultOf(w.Invitations().Get(w.ctx, o.ID, i.ID)).is(w, i)
		},
		"an empty token or provider id belongs to no invitation": func(w *fixture) {
			o := w.org()
			for range 2 {
				i := someInvitation(o.ID, w.member(o.ID, org.Owner).ID)
				i.TokenHash, i.ProviderID = "", ""
				w.ok(w.Invitations().Put(w.ctx, o.ID, i))
			}
			resultOf(w.Invitations().ByToken(w.ctx, "")).wantNotFound(w)
			resultOf(w.Invitations().ByProvider(w.ctx, o.ID, "")).wantNotFound(w)
			wantEqual(w, len(must.Do(w.pending(o.ID, at(6), id.Position[id.Invitation]{}, 0)).Or(w)), 2)
		},
		"a provider id of another invitation is a conflict": func(w *fixture) {
			o := w.org()
			by := w.member(o.ID, org.Owner)
			first, second := someInvitation(o.ID, by.ID), someInvitation(o.ID, by.ID)
			w.ok(w.Invitations().Put(w.ctx, o.ID, first))
			w.ok(w.Invitations().Put(w.ctx, o.ID, second))
			w.ok(w.Invitations().Put(w.ctx, o.ID, first))

			taken := second
			taken.ProviderID, taken.Email = first.ProviderID, "never@example.com"
			w.wantConflict(w.Invitations().Put(w.ctx, o.ID, taken))
			resultOf(w.Invitations().Get(w.ctx, o.ID, second.ID)).is(w, second)

			third := someInvitation(o.ID, by.ID)
			third.ProviderID = first.ProviderID
			w.wantConflict(w.Invitations().Put(w.ctx, o.ID, third))
			resultOf(w.Invitations().Get(w.ctx, o.ID, third.ID)).wantNotFound(w)
			resultOf(w.Invitations().ByProvider(w.ctx, o.ID, first.ProviderID)).is(w, first)
		},
		"pending lists those that can be accepted, by creation, then id": func(w *fixture) {
			o := w.org()
			by := w.member(o.ID, org.Owner)
			ids := several[id.Invitation](6)
			put := func(i int, created int, email string) invitation.Invitation {
				v := someInvitation(o.ID, by.ID)
				v.ID, v.ProviderID, v.Email = ids[i], "inv_"+string(ids[i]), email
				v.CreatedAt, v.ExpiresAt = at(created), at(created+1000)
				w.ok(w.Invitations().Put(w.ctx, o.ID, v))
				return v
			}
			d, c := put(0, 30, "İẗ.one@Example.com"), put(3, 20, "two@example.com")
			b, a := put(1, 20, "i\u0307ẗ.ONE@example.com"), put(5, 10, "Two@example.com")
			accepted := put(2, 25, "two@example.com").Restore(invitation.Accepted)
			revoked := put(4, 25, "two@example.com").Restore(invitation.Revoked)
			w.ok(w.Invitations().Put(w.ctx, o.ID, accepted))
			w.ok(w.Invitations().Put(w.ctx, o.ID, revoked))

			all := []invitation.Invitation{a, b, c, d}
			resultOf(w.pending(o.ID, at(1010), id.Position[id.Invitation]{}, 0)).is(w, all[1:])
			resultOf(w.pending(o.ID, at(1020), id.Position[id.Invitation]{}, 0)).is(w, all[3:])
			resultOf(w.pending(o.ID, at(1030), id.Position[id.Invitation]{}, 0)).is(w, nil)
			pages(w, all, func(i invitation.Invitation) id.Position[id.Invitation] {
				return id.Position[id.Invitation]{At: i.CreatedAt, ID: i.ID}
			},
				func(after id.Position[id.Invitation], limit int) ([]invitation.Invitation, error) {
					return w.pending(o.ID, at(1009), after, limit)
				})
			resultOf(w.pending(o.ID, at(1010), id.Position[id.Invitation]{At: at(20), ID: "00000000-0000-0000-0000-000000000000"}, 1)).is(w, all[1:2])
			wantStop(w, func(each func(invitation.Invitation) error) error {
				return w.Invitations().List(w.ctx, o.ID, at(6), id.Position[id.Invitation]{}, 0, each)
			})
			resultOf(w.Invitations().Pending(w.ctx, o.ID, "I\u0307T\u0308.ONE@EXAMPLE.COM", at(0))).is(w, []invitation.Invitation{b, d})
			resultOf(w.Invitations().Pending(w.ctx, o.ID, "two@example.com", at(0))).is(w, []invitation.Invitation{a, c})
			resultOf(w.Invitations().Pending(w.ctx, o.ID, "two@example.com", at(1010))).is(w, []invitation.Invitation{c})
			resultOf(w.Invitations().Pending(w.ctx, o.ID, "%@example.com", at(0))).is(w, nil)
		},
		"arguments and results belong to the caller": func(w *fixture) {
			o := w.org()
			i := someInvitation(o.ID, w.member(o.ID, org.Owner).ID)
			i.AcceptedAt = new(at(70))
			keepsNothing(w, i, func(i invitation.Invitation) error { return w.Invitations().Put(w.ctx, o.ID, i) },
				func() invitation.Invitation { return must.Do(w.Invitations().Get(w.ctx, o.ID, i.ID)).Or(w) },
				func() invitation.Invitation {
					return must.Do(w.Invitations().ByProvider(w.ctx, o.ID, i.ProviderID)).Or(w)
				},
				func() invitation.Invitation { return must.Do(w.Invitations().ByToken(w.ctx, i.TokenHash)).Or(w) },
				func() invitation.Invitation {
					return must.Do(w.pending(o.ID, at(6), id.Position[id.Invitation]{}, 0)).Or(w)[0]
				})
		},
	}.run(t, open)
}

// InvitationSets is the suite of ports.InvitationSets.
func InvitationSets(t *testing.T, open func(t *testing.T) Opened) {
	suite{
		"forget removes an address from the accepted invitations of one organisation": func(w *fixture) {
			o, other := w.org(), w.org()
			email, folded := "Ö.guest@Example.com", "ö.GUEST@example.com"
			put := func(in id.Org, email string, s invitation.Status) invitation.Invitation {
				i := someInvitation(in, w.member(in, org.Owner).ID)
				i.Email = email
				i = i.Restore(s)
				w.ok(w.Invitations().Put(w.ctx, in, i))
				return i
			}
			accepted, again := put(o.ID, email, invitation.Accepted), put(o.ID, folded, invitation.Accepted)
			kept := []invitation.Invitation{
				put(o.ID, email, invitation.Pending), put(o.ID, "other@example.com", invitation.Accepted), put(other.ID, email, invitation.Accepted),
			}
			for range 2 {
				w.ok(w.InvitationSets().Forget(w.ctx, o.ID, folded))
				for _, i := range []invitation.Invitation{accepted, again} {
					i.Email = ""
					resultOf(w.Invitations().Get(w.ctx, o.ID, i.ID)).is(w, i)
				}
				for _, i := range kept {
					resultOf(w.Invitations().Get(w.ctx, i.Org, i.ID)).is(w, i)
				}
			}
			resultOf(w.Invitations().Pending(w.ctx, o.ID, email, at(6))).is(w, kept[:1])
		},
		"sweep removes invitations that expired and were last seen before a time, in every state": func(w *fixture) {
			o, other := w.org(), w.org()
			put := func(in id.Org, expires, seen int, s invitation.Status) invitation.Invitation {
				i := someInvitation(in, w.member(in, org.Owner).ID)
				i.ExpiresAt, i.Seen = longAgo(expires), identity.Stamp{At: longAgo(seen), Rank: identity.RankEnded}
				i = i.Restore(s)
				w.ok(w.Invitations().Put(w.ctx, in, i))
				return i
			}
			never := someInvitation(o.ID, w.member(o.ID, org.Owner).ID)
			never.ExpiresAt = longAgo(1)
			w.ok(w.Invitations().Put(w.ctx, o.ID, never))
			old := []invitation.Invitation{
				never, put(o.ID, 2, 1, invitation.Pending), put(o.ID, 3, 9, invitation.Accepted), put(other.ID, 9, 9, invitation.Revoked),
			}
			kept := []invitation.Invitation{
				put(o.ID, 10, 1, invitation.Pending), put(o.ID, 1, 10, invitation.Accepted), put(other.ID, 10, 10, invitation.Revoked),
			}
			resultOf(w.InvitationSets().Sweep(w.ctx, longAgo(1), 9)).is(w, 0)
			resultOf(w.InvitationSets().Sweep(w.ctx, longAgo(10), 3)).is(w, 3)
			resultOf(w.InvitationSets().Sweep(w.ctx, longAgo(10), 3)).is(w, 1)
			resultOf(w.InvitationSets().Sweep(w.ctx, longAgo(10), 3)).is(w, 0)
			for _, i := range old {
				resultOf(w.Invitations().Get(w.ctx, i.Org, i.ID)).wantNotFound(w)
			}
			for _, i := range kept {
				resultOf(w.Invitations().Get(w.ctx, i.Org, i.ID)).is(w, i)
			}
			resultOf(w.InvitationSets().Sweep(w.ctx, longAgo(11), 9)).is(w, len(kept)) // for the next run
		},
	}.run(t, open)
}
