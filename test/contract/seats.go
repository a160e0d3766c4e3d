package contract

import (
	"testing"

	"collab/domain/id"
	"collab/domain/invitation"
	"collab/domain/org"
)

// Seats is the suite of ports.Seats.
func Seats(t *testing.T, open func(t *testing.T) Opened) {
	suite{
		"seats are the active owners, the active members and the pending invitations": func(w *fixture) {
			o, without := w.org().ID, w.org().ID
			wantEqual(w, w.seatsOf(o), org.Seats{})
			by := w.member(o, org.Owner).ID
			w.ok(w.Invitations().Put(w.ctx, without, someInvitation(without, by)))
			wantEqual(w, w.seatsOf(without), org.Seats{Pending: 1})
			for _, r := range org.Roles() {
				w.member(o, r)
			}
			gone := w.join(o, w.user().ID, org.Owner, at(10))
			gone.RemovedAt = new(at(11))
			w.ok(w.Members().Put(w.ctx, o, gone))
			wantEqual(w, w.seatsOf(o), org.Seats{Owners: 2, Members: 5})
			for range 3 {
				w.ok(w.Invitations().Put(w.ctx, o, someInvitation(o, by)))
			}
			for _, ended := range []invitation.Status{invitation.Accepted, invitation.Revoked} {
				w.ok(w.Invitations().Put(w.ctx, o, someInvitation(o, by).Restore(ended)))
			}
			wantEqual(w, w.seatsOf(o), org.Seats{Owners: 2, Members: 5, Pending: 3})
		},
		"an invitation counts until it expires": func(w *fixture) {
			a, b := w.org().ID, w.org().ID
			for o, expires := range map[id.Org][]int{a: {1000, 1001, 1001}, b: {1000}} {
				by := w.member(o, org.Owner).ID
				for _, ms := range expires {
					i := someInvitation(o, by)
					i.ExpiresAt = at(ms)
					w.ok(w.Invitations().Put(w.ctx, o, i))
				}
			}
			for ms, want := range map[int][2]int{6: {3, 1}, 999: {3, 1}, 1000: {2, 0}, 1001: {0, 0}} {
				resultOf(w.Seats().Count(w.ctx, []id.Org{a}, at(ms))).is(w, map[id.Org]org.Seats{a: {Owners: 1, Members: 1, Pending: want[0]}})
				resultOf(w.Seats().Count(w.ctx, []id.Org{a, b}, at(ms))).is(w, map[id.Org]org.Seats{
					a: {Owners: 1, Members: 1, Pending: want[0]}, b: {Owners: 1, Members: 1, Pending: want[1]},
				})
			}
		},
		"each of several organisations has its own seats": func(w *fixture) {
			a, b, empty, beside := w.org().ID, w.org().ID, w.org().ID, w.org().ID
			unknown := fresh[id.Org]()
			u := w.member(a, org.Owner).ID
			w.member(a, org.Member)
			w.join(b, u, org.Viewer, at(10))
			w.ok(w.Invitations().Put(w.ctx, b, someInvitation(b, u)))
			w.join(beside, u, org.Owner, at(10))
			w.ok(w.Invitations().Put(w.ctx, beside, someInvitation(beside, u)))

			resultOf(w.Seats().Count(w.ctx, nil, at(6))).is(w, nil)
			wantEqual(w, w.seatsOf(a), org.Seats{Owners: 1, Members: 2})
			wantEqual(w, w.seatsOf(b), org.Seats{Members: 1, Pending: 1})
			resultOf(w.Seats().Count(w.ctx, []id.Org{b, unknown, a, b, empty}, at(6))).is(w, map[id.Org]org.Seats{
				a: {Owners: 1, Members: 2}, b: {Members: 1, Pending: 1}, empty: {}, unknown: {},
			})
		},
	}.run(t, open)
}
