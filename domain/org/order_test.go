package org_test

import (
	"fmt"
	"testing"
	"time"

	"collab/domain/identity"
	"collab/domain/org"

	"pgregory.net/rapid"
)

// message is an event or a token, with its effect on each record.
type message struct {
	about  string
	user   func(org.User) org.User
	org    func(org.Organisation) org.Organisation
	member func(org.Membership) org.Membership
}

// someMessage draws an event of the number n, which no other event has, or a
// token, which no other token is as old as. Times are few, so that many are equal.
func someMessage(t *rapid.T, n int) message {
	minute := rapid.IntRange(1, 6).Draw(t, "minute")
	text := func(what string) string { return rapid.SampledFrom([]string{"", "a", "b", "c"}).Draw(t, what) }
	user := identity.UserData{Name: text("name"), Email: text("email"), AvatarURL: text("picture")}
	slug, role := text("slug"), rapid.SampledFrom([]string{"", "admin", "member", "viewer"}).Draw(t, "role")
	s := identity.Stamp{At: later(minute), Rank: identity.RankUpdated, Message: fmt.Sprint(n)}
	o := identity.OrgData{Name: "name", Slug: slug, Stamp: s}
	join := identity.MemberData{Role: role, JoinedAt: later(minute)}
	message := message{
		user:   func(u org.User) org.User { return u.Mentioned(user, s, noon) },
		org:    func(x org.Organisation) org.Organisation { return x.Mentioned(o, noon) },
		member: func(m org.Membership) org.Membership { return m.Observed(join, s, org.RoleMapping{}, noon) },
	}
	kind := rapid.SampledFrom([]string{"token", "user", "organisation", "joined", "left"}).Draw(t, "kind")
	message.about = fmt.Sprintf("%s at %d: %+v, slug %q, role %q", kind, minute, user, slug, role)
	switch kind {
	case "token":
		c := identity.Claims{Name: user.Name, Email: user.Email, AvatarURL: user.AvatarURL, OrgSlug: slug, OrgRole: role, IssuedAt: s.At.Add(time.Duration(n) * time.Second)}
		message.user = func(u org.User) org.User { return u.Presented(c, identity.UserData{}, noon) }
		message.org = func(x org.Organisation) org.Organisation { return x.Presented(c, "", "", noon) }
		message.member = func(m org.Membership) org.Membership {
			if m.Org == "" {
				return org.NewMembership("o", "u", c.OrgRole, c.IssuedAt, org.RoleMapping{}, noon)
			}
			return m.Exchanged(c.OrgRole, c.IssuedAt, org.RoleMapping{}, noon)
		}
	case "user":
		message.user = func(u org.User) org.User { return u.Observed(user, s, noon) }
		message.org, message.member = nil, nil
	case "organisation":
		message.org = func(x org.Organisation) org.Organisation { return x.Observed(o, noon) }
		message.user, message.member = nil, nil
	case "left":
		join.EndedAt = s.At.Add(time.Duration(n) * time.Second)
		message.member = func(m org.Membership) org.Membership { return m.Ended(join, s) }
	}
	return message
}

func TestAnyOrderOfTheSameTokensAndEventsEndsInOneState(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var all []message
		for n := range rapid.IntRange(1, 6).Draw(t, "messages") {
			all = append(all, someMessage(t, n))
		}
		type state struct {
			name, email, picture, slug string
			active                     bool
			removed                    time.Time
			role                       org.Role
		}
		end := func(all []message) state {
			u, o, m := org.User{ID: "u"}, org.Organisation{ID: "o"}, org.Membership{}
			for _, x := range all {
				if x.user != nil {
					u = x.user(u)
				}
				if x.org != nil {
					o = x.org(o)
				}
				if x.member != nil {
					if m = x.member(m); m.Org == "" {
						m.Org, m.User = "o", "u"
					}
				}
			}
			s := state{name: u.Name, email: u.Email, picture: u.AvatarURL, slug: o.Slug, active: m.Active()}
			if s.active {
				s.role = m.Role
			} else {
				s.removed = *m.RemovedAt
			}
			return s
		}
		want := end(all)
		other := rapid.Permutation(all).Draw(t, "another order")
		if got := end(other); got != want {
			for _, x := range other {
				t.Log(x.about)
			}
			t.Fatalf("%+v\nin the order of their making %+v", got, want)
		}
	})
}
