package contract

import (
	"testing"

	"collab/domain/id"
	"collab/domain/identity"
	"collab/domain/invitation"
	"collab/domain/org"
)

// Invitations is the suite of ports.Invitations.
func Invitations(t *testing.T, open func(t *testing.T) Opened) {
	suite{
		"an unknown invitation is not found": func(w *world) {
			o := w.org()
			that(w.invitations().Get(w.ctx, o.ID, fresh[id.Invitation]())).missing(w)
			that(w.invitations().ByProvider(w.ctx, o.ID, "inv_"+nextID())).missing(w)
			that(w.invitations().ByToken(w.ctx, nextID())).missing(w)
		},
		"another organisation's invitation is not found": func(w *world) {
			o, other := w.org(), w.org()
			i := someInvitation(other.ID, w.member(other.ID, org.Owner).ID)
			w.ok(w.invitations().Put(w.ctx, other.ID, i))
			that(w.invitations().Get(w.ctx, o.ID, i.ID)).missing(w)
			that(w.invitations().ByProvider(w.ctx, o.ID, i.ProviderID)).missing(w)
			that(w.pending(o.ID, at(6), invitation.Position{}, 0)).is(w, nil)
			that(w.invitations().Pending(w.ctx, o.ID, i.Email, at(6))).is(w, nil)
		},
		"another organisation cannot replace an invitation": func(w *world) {
			o, other := w.org(), w.org()
			i := someInvitation(other.ID, w.member(other.ID, org.Owner).ID)
			w.ok(w.invitations().Put(w.ctx, other.ID, i))
			theirs := someInvitation(o.ID, w.member(o.ID, org.Owner).ID)
			theirs.ID = i.ID
			if err := w.invitations().Put(w.ctx, o.ID, theirs); err != nil {
				w.conflict(err)
			}
			that(w.invitations().Get(w.ctx, other.ID, i.ID)).is(w, i)
		},
		"an invitation comes back with every field as it went in, in every state": func(w *world) {
			o := w.org()
			by := w.member(o.ID, org.Owner)
			pending := someInvitation(o.ID, by.ID)
			accepted := someInvitation(o.ID, by.ID).Restore(invitation.Accepted)
			accepted.AcceptedAt, accepted.TokenHash = new(at(70)), ""
			accepted.Seen = identity.Stamp{At: at(70), Rank: identity.RankEnded, Message: "msg_9"}
			revoked := that(someInvitation(o.ID, by.ID).Withdrawn(at(80))).must(w)
			revoked.ProviderID, revoked.InvitedBy = "", ""
			for _, i := range []invitation.Invitation{pending, accepted, revoked} {
				w.ok(w.invitations().Put(w.ctx, o.ID, i))
				that(w.invitations().Get(w.ctx, o.ID, i.ID)).is(w, i)
			}
			that(w.invitations().ByProvider(w.ctx, o.ID, pending.ProviderID)).is(w, pending)
			that(w.invitations().ByProvider(w.ctx, o.ID, accepted.ProviderID)).is(w, accepted)
			that(w.invitations().ByToken(w.ctx, pending.TokenHash)).is(w, pending)
		},
		"put replaces the invitation": func(w *world) {
			o := w.org()
			i := someInvitation(o.ID, w.member(o.ID, org.Owner).ID)
			w.ok(w.invitations().Put(w.ctx, o.ID, i))
			was := i
			i = that(i.Resent(nextID(), at(1000))).must(w)
			i.Role, i.Email, i.ProviderID = org.Viewer, "other@example.com", "inv_"+nextID()
			w.ok(w.invitations().Put(w.ctx, o.ID, i))
			that(w.invitations().Get(w.ctx, o.ID, i.ID)).is(w, i)
			that(w.invitations().ByToken(w.ctx, i.TokenHash)).is(w, i)
			that(w.invitations().ByProvider(w.ctx, o.ID, i.ProviderID)).is(w, i)
			that(w.invitations().ByToken(w.ctx, was.TokenHash)).missing(w)
			that(w.invitations().ByProvider(w.ctx, o.ID, was.ProviderID)).missing(w)

			i = that(i.Withdrawn(at(1001))).must(w)
			w.ok(w.invitations().Put(w.ctx, o.ID, i))
			that(w.invitations().Get(w.ctx, o.ID, i.ID)).is(w, i)
		},
		"an empty token or provider id belongs to no invitation": func(w *world) {
			o := w.org()
			for range 2 {
				i := someInvitation(o.ID, w.member(o.ID, org.Owner).ID)
				i.TokenHash, i.ProviderID = "", ""
				w.ok(w.invitations().Put(w.ctx, o.ID, i))
			}
			that(w.invitations().ByToken(w.ctx, "")).missing(w)
			that(w.invitations().ByProvider(w.ctx, o.ID, "")).missing(w)
			same(w, len(that(w.pending(o.ID, at(6), invitation.Position{}, 0)).must(w)), 2)
		},
		"a provider id of another invitation is a conflict": func(w *world) {
			o := w.org()
			by := w.member(o.ID, org.Owner)
			first, second := someInvitation(o.ID, by.ID), someInvitation(o.ID, by.ID)
			w.ok(w.invitations().Put(w.ctx, o.ID, first))
			w.ok(w.invitations().Put(w.ctx, o.ID, second))
			w.ok(w.invitations().Put(w.ctx, o.ID, first))

			taken := second
			taken.ProviderID, taken.Email = first.ProviderID, "never@example.com"
			w.conflict(w.invitations().Put(w.ctx, o.ID, taken))
			that(w.invitations().Get(w.ctx, o.ID, second.ID)).is(w, second)

			third := someInvitation(o.ID, by.ID)
			third.ProviderID = first.ProviderID
			w.conflict(w.invitations().Put(w.ctx, o.ID, third))
			that(w.invitations().Get(w.ctx, o.ID, third.ID)).missing(w)
			that(w.invitations().ByProvider(w.ctx, o.ID, first.ProviderID)).is(w, first)
		},
		"pending lists those that can be accepted, by creation, then id": func(w *world) {
			o := w.org()
			by := w.member(o.ID, org.Owner)
			ids := several[id.Invitation](6)
			put := func(i int, created int, email string) invitation.Invitation {
				v := someInvitation(o.ID, by.ID)
				v.ID, v.ProviderID, v.Email = ids[i], "inv_"+string(ids[i]), email
				v.CreatedAt, v.ExpiresAt = at(created), at(created+1000)
				w.ok(w.invitations().Put(w.ctx, o.ID, v))
				return v
			}
			d, c := put(0, 30, "Ö.one@Example.com"), put(3, 20, "two@example.com")
			b, a := put(1, 20, "ö.ONE@example.com"), put(5, 10, "Two@example.com")
			accepted := put(2, 25, "two@example.com").Restore(invitation.Accepted)
			revoked := put(4, 25, "two@example.com").Restore(invitation.Revoked)
			w.ok(w.invitations().Put(w.ctx, o.ID, accepted))
			w.ok(w.invitations().Put(w.ctx, o.ID, revoked))

			all := []invitation.Invitation{a, b, c, d}
			that(w.pending(o.ID, at(1010), invitation.Position{}, 0)).is(w, all[1:])
			that(w.pending(o.ID, at(1020), invitation.Position{}, 0)).is(w, all[3:])
			that(w.pending(o.ID, at(1030), invitation.Position{}, 0)).is(w, nil)
			pages(w, all, func(i invitation.Invitation) invitation.Position {
				return invitation.Position{CreatedAt: i.CreatedAt, ID: i.ID}
			},
				func(after invitation.Position, limit int) ([]invitation.Invitation, error) {
					return w.pending(o.ID, at(1009), after, limit)
				})
			that(w.pending(o.ID, at(1010), invitation.Position{CreatedAt: at(20), ID: "00000000-0000-0000-0000-000000000000"}, 1)).is(w, all[1:2])
			stops(w, func(each func(invitation.Invitation) error) error {
				return w.invitations().List(w.ctx, o.ID, at(6), invitation.Position{}, 0, each)
			})
			that(w.invitations().Pending(w.ctx, o.ID, "Ö.ONE@EXAMPLE.COM", at(0))).is(w, []invitation.Invitation{b, d})
			that(w.invitations().Pending(w.ctx, o.ID, "two@example.com", at(0))).is(w, []invitation.Invitation{a, c})
			that(w.invitations().Pending(w.ctx, o.ID, "two@example.com", at(1010))).is(w, []invitation.Invitation{c})
			that(w.invitations().Pending(w.ctx, o.ID, "%@example.com", at(0))).is(w, nil)
		},
		"what is passed in and handed out is the caller's": func(w *world) {
			o := w.org()
			i := someInvitation(o.ID, w.member(o.ID, org.Owner).ID)
			i.AcceptedAt = new(at(70))
			want := i
			want.AcceptedAt = new(at(70))
			spoil := func(i invitation.Invitation) { *i.AcceptedAt = at(999) }
			w.ok(w.invitations().Put(w.ctx, o.ID, i))
			spoil(i)
			that(w.invitations().Get(w.ctx, o.ID, i.ID)).is(w, want)
			spoil(that(w.invitations().Get(w.ctx, o.ID, i.ID)).must(w))
			spoil(that(w.invitations().ByProvider(w.ctx, o.ID, i.ProviderID)).must(w))
			spoil(that(w.invitations().ByToken(w.ctx, i.TokenHash)).must(w))
			spoil(that(w.pending(o.ID, at(6), invitation.Position{}, 0)).must(w)[0])
			that(w.invitations().Get(w.ctx, o.ID, i.ID)).is(w, want)
		},
	}.run(t, open)
}
