package contract

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"collab/domain/id"
	"collab/domain/org"
	"collab/domain/words"
	"collab/ports"
	"collab/test/must"
)

// Members is the suite of ports.Members.
func Members(t *testing.T, open func(t *testing.T) Opened) {
	suite{
		"a user who is no member of the organisation is not found": func(w *fixture) {
			o, other := w.org(), w.org()
			theirs := w.member(other.ID, org.Owner)
			for _, u := range []id.User{w.user().ID, fresh[id.User](), theirs.ID} {
				resultOf(w.Members().Get(w.ctx, o.ID, u)).wantNotFound(w)
				resultOf(w.Members().GetLocked(w.ctx, o.ID, u)).wantNotFound(w)
			}
			resultOf(w.Members().ByEmail(w.ctx, o.ID, theirs.Email)).is(w, false)
			wantEqual(w, w.profiles(o.ID, id.Position[id.User]{}, 0), nil)
		},
		"the epoch is the organisation's, and one greater in a transaction that has its lock": func(w *fixture) {
			o, other := w.org(), w.org()
			resultOf(w.Members().Epoch(w.ctx, fresh[id.Org]())).wantNotFound(w)
			w.incrementEpoch(o.ID)
			was := w.epoch(o.ID)
			resultOf(w.Members().Epoch(w.ctx, o.ID)).is(w, was)
			w.atomic(func(r ports.Records) error {
				before, err := r.Directory().Members().Epoch(w.ctx, o.ID)
				if err != nil {
					return err
				}
				wantEqual(w, before, was)
				if _, err := r.Directory().Organisations().Lock(w.ctx, o.ID); err != nil {
					return err
				}
				within, err := r.Directory().Members().Epoch(w.ctx, o.ID)
				wantEqual(w, within, was+1)
				return err
			})
			resultOf(w.Members().Epoch(w.ctx, o.ID)).is(w, was+1)
			resultOf(w.Members().Epoch(w.ctx, other.ID)).is(w, w.epoch(other.ID))
		},
		"a membership is returned with every field as stored": func(w *fixture) {
			o := w.org()
			full := w.join(o.ID, w.user().ID, org.Admin, at(10))
			removed := w.join(o.ID, w.user().ID, org.Viewer, at(10))
			removed.RemovedAt, removed.RoleSetHere = new(at(20)), false
			bare := org.Membership{Org: o.ID, User: w.user().ID, Role: org.Member, JoinedAt: at(10)}
			for _, m := range []org.Membership{full, removed, bare} {
				w.ok(w.Members().Put(w.ctx, o.ID, m))
				resultOf(w.Members().Get(w.ctx, o.ID, m.User)).is(w, m)
				resultOf(w.Members().GetLocked(w.ctx, o.ID, m.User)).is(w, m)
				w.atomic(func(r ports.Records) error {
					held, err := r.Directory().Members().GetLocked(w.ctx, o.ID, m.User)
					if err == nil {
						wantEqual(w, held, m)
					}
					return err
				})
			}
			got := must.Do(w.Members().Get(w.ctx, o.ID, bare.User)).Or(w)
			if !got.Seen.IsZero() || !got.UsedAt.IsZero() {
				w.Fatalf("the stamp %v and the time %v were never set", got.Seen, got.UsedAt)
			}
		},
		"put replaces the membership and no other": func(w *fixture) {
			o, other := w.org(), w.org()
			u, neighbour := w.user(), w.user()
			w.join(o.ID, u.ID, org.Owner, at(10))
			beside := w.join(o.ID, neighbour.ID, org.Admin, at(10))
			elsewhere := w.join(other.ID, u.ID, org.Viewer, at(11))
			want := org.Membership{Org: o.ID, User: u.ID, Role: org.Member, JoinedAt: at(12), RemovedAt: new(at(13))}
			w.ok(w.Members().Put(w.ctx, o.ID, want))
			resultOf(w.Members().Get(w.ctx, o.ID, u.ID)).is(w, want)
			want.RemovedAt = nil
			w.ok(w.Members().Put(w.ctx, o.ID, want))
			resultOf(w.Members().Get(w.ctx, o.ID, u.ID)).is(w, want)
			resultOf(w.Members().Get(w.ctx, o.ID, neighbour.ID)).is(w, beside)
			resultOf(w.Members().Get(w.ctx, other.ID, u.ID)).is(w, elsewhere)
		},
		"a locked membership is not changed by others before the transaction ends": func(w *fixture) {
			o := w.org()
			m := w.join(o.ID, w.user().ID, org.Member, at(10))
			errs := concurrently(concurrent, func(int) error {
				return w.store.Atomic(w.ctx, func(r ports.Records) error {
					held, err := r.Directory().Members().GetLocked(w.ctx, o.ID, m.User)
					if err != nil {
						return err
					}
					held.Seen.Rank++
					return r.Directory().Members().Put(w.ctx, o.ID, held)
				})
			})
			w.allOK(errs)
			m.Seen.Rank += concurrent
			resultOf(w.Members().Get(w.ctx, o.ID, m.User)).is(w, m)
		},
		"list is ordered by time of joining, then user id, with what the users are now, without removed ones": func(w *fixture) {
			o, other := w.org(), w.org()
			var users []org.User
			for range 6 {
				users = append(users, w.user())
			}
			join := func(i, joined int) org.Profile {
				return org.Profile{Membership: w.join(o.ID, users[i].ID, org.Member, at(joined)), Person: users[i]}
			}
			e, c, a, d, b := join(4, 30), join(3, 20), join(1, 10), join(5, 20), join(2, 20)
			users[5] = must.Do(w.Users().Upsert(w.ctx, users[5], func(u org.User) (org.User, error) { return u.Erased(at(99)), nil })).Or(w)
			d.Person = users[5]
			removed := w.join(o.ID, users[0].ID, org.Owner, at(15))
			removed.RemovedAt = new(at(16))
			w.ok(w.Members().Put(w.ctx, o.ID, removed))
			w.member(other.ID, org.Member)

			want := []org.Profile{a, b, c, d, e}
			pages(w, want, func(p org.Profile) id.Position[id.User] { return id.Position[id.User]{At: p.JoinedAt, ID: p.User} },
				func(after id.Position[id.User], limit int) ([]org.Profile, error) {
					return w.profiles(o.ID, after, limit), nil
				})
			wantEqual(w, w.profiles(o.ID, id.Position[id.User]{At: at(19), ID: users[5].ID}, 2), []org.Profile{b, c})
			wantEqual(w, w.profiles(o.ID, id.Position[id.User]{At: at(15), ID: users[0].ID}, 0), []org.Profile{b, c, d, e})
			wantStop(w, func(each func(org.Profile) error) error {
				return w.Members().List(w.ctx, o.ID, org.MemberFilter{}, each)
			})
		},
		"a search lists the members who have all words in the name or the e-mail address, in any case": func(w *fixture) {
			o, other := w.org(), w.org()
			called := func(of id.Org, joined int, name, email string) org.Profile {
				u := someUser()
				u.Name, u.Email = name, email
				must.Do(w.Users().Upsert(w.ctx, u, keep)).Or(w)
				return org.Profile{Membership: w.join(of, u.ID, org.Member, at(joined)), Person: u}
			}
			ada, percent := called(o.ID, 10, "Ada Ångström", "ada@example.com"), called(o.ID, 11, "100% Ada_", "percent@example.com")
			greek, backslash, none := called(o.ID, 12, "ΣΊΣΥΦΟΣ", "sis@example.com"), called(o.ID, 13, `Back\slash`, ""), called(o.ID, 14, "", "nobody@example.com")
			left := called(o.ID, 15, "Ada Gone", "gone@example.com")
			left.RemovedAt = new(at(16))
			w.ok(w.Members().Put(w.ctx, o.ID, left.Membership))
			called(other.ID, 10, "Ada Elsewhere", "elsewhere@example.com")
			for text, want := range map[string][]org.Profile{
				"ada": {ada, percent}, "ADA ÅNG": {ada}, "a\u030angstro\u0308m": {ada}, "ang": nil, "gstr ada@": {ada}, "EXAMPLE.COM 100": {percent},
				"σίσυφοσ": {greek}, "ςίς": {greek}, "%": {percent}, "_": {percent}, "ad_": nil, `\`: {backslash}, `\\`: nil, "nobody": {none}, "ångströmada": nil,
				"ada gone": nil, "\x00": nil, "'": nil, "@example.com": {ada, percent, greek, none},
			} {
				wantEqual(w, w.membersOf(o.ID, org.MemberFilter{Words: words.Of(text)}), want)
			}
			found := org.MemberFilter{Words: words.Of("example.com")}
			pages(w, []org.Profile{ada, percent, greek, none}, func(p org.Profile) id.Position[id.User] { return id.Position[id.User]{At: p.JoinedAt, ID: p.User} },
				func(after id.Position[id.User], limit int) ([]org.Profile, error) {
					f := found
					f.After, f.Limit = after, limit
					return w.membersOf(o.ID, f), nil
				})
			found.ExamineLimit = 4
			wantEqual(w, w.membersOf(o.ID, found), []org.Profile{ada, percent, greek})
			found.After, found.Limit = id.Position[id.User]{At: ada.JoinedAt, ID: ada.User}, 2
			wantEqual(w, w.membersOf(o.ID, found), []org.Profile{percent, greek})
			wantStop(w, func(each func(org.Profile) error) error {
				return w.Members().List(w.ctx, o.ID, org.MemberFilter{Words: words.Of("ada")}, each)
			})
		},
		"a search finds the last of many members": func(w *fixture) {
			o := w.org()
			many := make([]org.Profile, 2100)
			w.atomic(func(r ports.Records) error {
				for i := range many {
					u := someUser()
					u.Name = fmt.Sprintf("Person %d.", i)
					if _, err := r.Directory().Users().Upsert(w.ctx, u, keep); err != nil {
						return err
					}
					many[i] = org.Profile{Membership: org.Membership{Org: o.ID, User: u.ID, Role: org.Member, JoinedAt: at(i)}, Person: u}
					if err := r.Directory().Members().Put(w.ctx, o.ID, many[i].Membership); err != nil {
						return err
					}
				}
				return nil
			})
			wantEqual(w, w.membersOf(o.ID, org.MemberFilter{Words: words.Of("2099.")}), many[2099:])
			wantEqual(w, w.membersOf(o.ID, org.MemberFilter{Words: words.Of("99."), Limit: 20}), []org.Profile{
				many[99], many[199], many[299], many[399], many[499], many[599], many[699], many[799], many[899], many[999],
				many[1099], many[1199], many[1299], many[1399], many[1499], many[1599], many[1699], many[1799], many[1899], many[1999],
			})
			wantEqual(w, len(w.membersOf(o.ID, org.MemberFilter{Words: words.Of("person")})), len(many))
			wantEqual(w, w.membersOf(o.ID, org.MemberFilter{Words: words.Of("2000."), ExamineLimit: 2001}), many[2000:2001])
			wantEqual(w, w.membersOf(o.ID, org.MemberFilter{Words: words.Of("2000."), ExamineLimit: 2000}), nil)
		},
		"members are listed by their ids, those of the organisation alone": func(w *fixture) {
			o, other := w.org(), w.org()
			profile := func(of id.Org, joined int) org.Profile {
				u := w.user()
				return org.Profile{Membership: w.join(of, u.ID, org.Member, at(joined)), Person: u}
			}
			c, a, b, elsewhere, left := profile(o.ID, 30), profile(o.ID, 10), profile(o.ID, 20), profile(other.ID, 10), profile(o.ID, 15)
			left.RemovedAt = new(at(16))
			w.ok(w.Members().Put(w.ctx, o.ID, left.Membership))
			named := []id.User{b.User, elsewhere.User, left.User, fresh[id.User](), "no id", a.User, c.User, a.User}
			wantEqual(w, w.membersOf(o.ID, org.MemberFilter{Users: named}), []org.Profile{a, b, c})
			wantEqual(w, w.membersOf(o.ID, org.MemberFilter{Users: named, After: id.Position[id.User]{At: a.JoinedAt, ID: a.User}, Limit: 1}), []org.Profile{b})
			wantEqual(w, w.membersOf(other.ID, org.MemberFilter{Users: named}), []org.Profile{elsewhere})
			wantEqual(w, w.membersOf(o.ID, org.MemberFilter{Users: []id.User{}}), nil)
		},
		"former members are those who were removed, by user id, with what their users are now": func(w *fixture) {
			o, other := w.org(), w.org()
			former := func(of id.Org) org.Profile {
				u := w.user()
				m := w.join(of, u.ID, org.Member, at(10))
				m.RemovedAt = new(at(11))
				w.ok(w.Members().Put(w.ctx, of, m))
				return org.Profile{Membership: m, Person: u}
			}
			want := []org.Profile{former(o.ID), former(o.ID), former(o.ID)}
			former(other.ID)
			w.member(o.ID, org.Owner)
			want[1].Person = must.Do(w.Users().Upsert(w.ctx, want[1].Person, func(u org.User) (org.User, error) { return u.Erased(at(99)), nil })).Or(w)
			slices.SortFunc(want, func(a, b org.Profile) int { return strings.Compare(string(a.User), string(b.User)) })
			pages(w, want, func(p org.Profile) id.User { return p.User }, func(after id.User, limit int) (all []org.Profile, err error) {
				err = w.Users().Former(w.ctx, o.ID, after, limit, collect(&all))
				return all, err
			})
			wantStop(w, func(each func(org.Profile) error) error { return w.Users().Former(w.ctx, o.ID, "", 0, each) })
		},
		"an e-mail address is found without regard to case, while its member is active": func(w *fixture) {
			o := w.org()
			u := someUser()
			domain := "@" + nextID() + ".Example.com"
			u.Email = "ÄrgerLich" + domain
			must.Do(w.Users().Upsert(w.ctx, u, keep)).Or(w)
			m := w.join(o.ID, u.ID, org.Member, at(10))
			for email, want := range map[string]bool{
				"ÄrgerLich" + domain: true, "ärgerlich" + domain: true, "ÄRGERLICH" + domain: true,
				"argerlich" + domain: false, "%" + domain: false, "_rgerlich" + domain: false, "": false,
			} {
				if got := must.Do(w.Members().ByEmail(w.ctx, o.ID, email)).Or(w); got != want {
					w.Errorf("%q: %t, want %t", email, got, want)
				}
			}
			must.Do(w.Users().Upsert(w.ctx, u, func(u org.User) (org.User, error) {
				u.Email = "New" + domain
				return u, nil
			})).Or(w)
			resultOf(w.Members().ByEmail(w.ctx, o.ID, "ärgerlich"+domain)).is(w, false)
			resultOf(w.Members().ByEmail(w.ctx, o.ID, "new"+domain)).is(w, true)
			m.RemovedAt = new(at(20))
			w.ok(w.Members().Put(w.ctx, o.ID, m))
			resultOf(w.Members().ByEmail(w.ctx, o.ID, "new"+domain)).is(w, false)
		},
		"arguments and results belong to the caller": func(w *fixture) {
			o := w.org()
			u := someUser()
			u.DeletedAt = new(at(30))
			must.Do(w.Users().Upsert(w.ctx, copied(u), keep)).Or(w)
			m := w.join(o.ID, u.ID, org.Member, at(10))
			spoil(w.profiles(o.ID, id.Position[id.User]{}, 0))
			wantEqual(w, w.profiles(o.ID, id.Position[id.User]{}, 0)[0].Person, u)
			m.RemovedAt = new(at(20))
			keepsNothing(w, m, func(m org.Membership) error { return w.Members().Put(w.ctx, o.ID, m) },
				func() org.Membership { return must.Do(w.Members().Get(w.ctx, o.ID, u.ID)).Or(w) },
				func() org.Membership { return must.Do(w.Members().GetLocked(w.ctx, o.ID, u.ID)).Or(w) })
		},
	}.run(t, open)
}
