package memory

import (
	"cmp"
	"context"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"collab/domain/audit"
	"collab/domain/connector"
	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/identity"
	"collab/domain/invitation"
	"collab/domain/org"
	"collab/domain/plan"
	"collab/domain/session"
	"collab/ports"
)

func (r records) Users() ports.Users                   { return users{r.run} }
func (r records) Organisations() ports.Organisations   { return organisations(r) }
func (r records) Members() ports.Members               { return members{r.run} }
func (r records) Seats() ports.Seats                   { return seats{r.run} }
func (r records) Invitations() ports.Invitations       { return invitations{r.run} }
func (r records) InvitationSets() ports.InvitationSets { return invitationSets{r.run} }
func (r records) Subscriptions() ports.Subscriptions   { return subscriptions{r.run} }

type users struct{ run runner }

func (u users) Get(_ context.Context, user id.User) (org.User, error) {
	return result(u.run, func(x *tx) (org.User, error) { return x.Users.get(user) })
}

func (u users) ByProvider(_ context.Context, providerID string) (org.User, error) {
	return result(u.run, func(x *tx) (org.User, error) {
		return x.Users.find(func(v org.User) bool { return v.ProviderID == providerID })
	})
}

func (u users) Upsert(_ context.Context, fresh org.User, fn func(org.User) (org.User, error)) (org.User, error) {
	return result(u.run, func(x *tx) (org.User, error) {
		v, _, err := x.Users.upsert(x, func(v org.User) id.User { return v.ID }, fresh,
			func(v org.User) bool { return v.ProviderID == fresh.ProviderID }, fn)
		return v, err
	})
}

func (u users) Profile(_ context.Context, o id.Org, user id.User) (p org.Profile, organisation org.Organisation, err error) {
	err = u.run(func(x *tx) error {
		if p.Membership, err = x.tenant(o).Members.get(user); err == nil {
			p.Person, err = x.Users.get(user)
		}
		if err == nil {
			organisation, err = x.Orgs.get(o)
		}
		return err
	})
	return p, organisation, err
}

func (u users) Memberships(_ context.Context, user id.User) ([]org.Membership, error) {
	return result(u.run, func(x *tx) ([]org.Membership, error) {
		var all []org.Membership
		for _, t := range x.Tenants.rows {
			if m, err := t.Members.get(user); err == nil {
				all = append(all, m)
			}
		}
		slices.SortFunc(all, func(a, b org.Membership) int {
			return cmp.Or(b.UsedAt.Compare(a.UsedAt), b.JoinedAt.Compare(a.JoinedAt), cmp.Compare(b.Org, a.Org))
		})
		return all, nil
	})
}

type organisations records

func (s organisations) Get(_ context.Context, o id.Org) (org.Organisation, error) {
	return result(s.run, func(x *tx) (org.Organisation, error) { return x.Orgs.get(o) })
}

func (s organisations) ByProvider(_ context.Context, providerID string) (org.Organisation, error) {
	return result(s.run, func(x *tx) (org.Organisation, error) {
		return x.Orgs.find(func(v org.Organisation) bool { return v.ProviderID == providerID })
	})
}

func (s organisations) Upsert(_ context.Context, fresh org.Organisation, fn func(org.Organisation) (org.Organisation, error)) (org.Organisation, error) {
	return result(s.run, func(x *tx) (org.Organisation, error) {
		v, added, err := x.Orgs.upsert(x, func(v org.Organisation) id.Org { return v.ID }, fresh,
			func(v org.Organisation) bool { return v.ProviderID == fresh.ProviderID }, fn)
		if err == nil && added {
			x.Tenants.put(x, v.ID, newTenant())
			x.Epochs.put(x, v.ID, 0)
		}
		return v, err
	})
}

// Lock increments the epoch, the first time in a transaction. It needs no lock, because transactions run one after
// the other.
func (s organisations) Lock(_ context.Context, o id.Org) (org.Organisation, error) {
	if !s.inside {
		return org.Organisation{}, fault.New(fault.Internal, "An organisation was locked outside a transaction")
	}
	return result(s.run, func(x *tx) (org.Organisation, error) {
		existing, err := x.Orgs.get(o)
		if err == nil && !x.locked[o] {
			x.Epochs.put(x, o, x.Epochs.rows[o]+1)
			x.locked[o] = true
			x.undo = append(x.undo, func() { delete(x.locked, o) })
		}
		return existing, err
	})
}

func (s organisations) List(_ context.Context, f org.Filter) ([]org.Organisation, error) {
	return result(s.run, func(x *tx) ([]org.Organisation, error) {
		selects := func(v org.Organisation) bool {
			due := f.ClosedBefore == nil || v.ClosedAt != nil && v.ErasedAt == nil && !v.ClosedAt.After(*f.ClosedBefore)
			return v.ID > f.After && due && (f.IDs == nil || slices.Contains(f.IDs, v.ID))
		}
		byID := func(a, b org.Organisation) int { return cmp.Compare(a.ID, b.ID) }
		if f.Search == "" {
			return x.Orgs.list(selects, byID, f.Limit), nil
		}
		named := slices.DeleteFunc(x.Orgs.list(selects, byID, f.ExamineLimit), func(v org.Organisation) bool { return !v.Matches(f.Search) })
		own := x.Orgs.list(func(v org.Organisation) bool { return selects(v) && string(v.ID) == strings.ToLower(f.Search) }, byID, 0)
		return f.Merge(named, own), nil
	})
}

// Erase removes all records at once and counts none.
func (s organisations) Erase(_ context.Context, o id.Org, now time.Time, _ int) (int, error) {
	return 0, s.run(func(x *tx) error {
		existing, err := x.Orgs.get(o)
		if err != nil {
			return err
		}
		for _, v := range x.tenant(o).Objects.rows {
			x.discard(o, v.Blob, now)
		}
		x.discardVersions(o, always, math.MaxInt64, 0, now)
		for name, v := range x.Blobs.rows {
			if v.Org == o {
				x.discard(o, name, now)
			}
		}
		x.Orgs.put(x, o, existing.Erased(now))
		x.Tenants.put(x, o, newTenant())
		x.Heads.remove(x, o)
		x.Audit.removeWhere(x, func(e audit.Entry) bool { return e.Org == o })
		x.Flows.removeWhere(x, func(f connector.Flow) bool { return f.Org == o })
		x.Sessions.removeWhere(x, func(s session.Session) bool { return s.Org == o })
		x.Devices.removeWhere(x, func(g session.DeviceGrant) bool { return g.Org == o })
		return nil
	})
}

type members struct{ run runner }

func compareMembers(a, b org.Membership) int { return byTime(a.JoinedAt, b.JoinedAt, a.User, b.User) }

func (m members) Get(_ context.Context, o id.Org, user id.User) (org.Membership, error) {
	return result(m.run, func(x *tx) (org.Membership, error) { return x.tenant(o).Members.get(user) })
}

// GetLocked is Get: a transaction has the whole store to itself.
func (m members) GetLocked(ctx context.Context, o id.Org, user id.User) (org.Membership, error) {
	return m.Get(ctx, o, user)
}

func (m members) Put(_ context.Context, o id.Org, v org.Membership) error {
	return m.run.in(o, func(x *tx, tenant *tenant) error {
		if !x.Users.has(v.User) {
			return x.Users.missing()
		}
		tenant.Members.put(x, v.User, v)
		return nil
	})
}

func (m members) List(_ context.Context, o id.Org, f org.MemberFilter, each func(org.Profile) error) error {
	profiles, err := result(m.run, func(x *tx) ([]org.Profile, error) {
		selects := func(v org.Membership) bool {
			return v.Active() && (f.Users == nil || slices.Contains(f.Users, v.User))
		}
		limit := f.Limit
		if len(f.Words) > 0 {
			limit = f.ExamineLimit
		}
		from := org.Membership{JoinedAt: f.After.At, User: f.After.ID}
		found := x.profiles(x.tenant(o).Members.page(selects, compareMembers, from, limit))
		return first(slices.DeleteFunc(found, func(p org.Profile) bool { return !f.HasWords(p) }), f.Limit), nil
	})
	return forEach(profiles, err, each)
}

func (u users) Former(_ context.Context, o id.Org, after id.User, limit int, each func(org.Profile) error) error {
	profiles, err := result(u.run, func(x *tx) ([]org.Profile, error) {
		removed := func(v org.Membership) bool { return !v.Active() }
		byUser := func(a, b org.Membership) int { return cmp.Compare(a.User, b.User) }
		return x.profiles(x.tenant(o).Members.page(removed, byUser, org.Membership{User: after}, limit)), nil
	})
	return forEach(profiles, err, each)
}

// profiles returns memberships with their users.
func (x *tx) profiles(memberships []org.Membership) []org.Profile {
	profiles := make([]org.Profile, len(memberships))
	for i, v := range memberships {
		profiles[i].Membership = v
		profiles[i].Person, _ = x.Users.get(v.User)
	}
	return profiles
}

func (m members) ByEmail(_ context.Context, o id.Org, email string) (bool, error) {
	return result(m.run, func(x *tx) (bool, error) {
		_, err := x.tenant(o).Members.find(func(v org.Membership) bool {
			return v.Active() && sameEmail(x.Users.rows[v.User].Email, email)
		})
		return err == nil, nil
	})
}

func (m members) Epoch(_ context.Context, o id.Org) (int64, error) {
	return result(m.run, func(x *tx) (int64, error) { return x.Epochs.get(o) })
}

func sameEmail(a, b string) bool {
	return identity.FoldEmail(a) == identity.FoldEmail(b)
}

type seats struct{ run runner }

func (s seats) Count(_ context.Context, orgs []id.Org, now time.Time) (map[id.Org]org.Seats, error) {
	return ofEach(s.run, orgs, func(x *tx, o id.Org) (org.Seats, error) { return x.tenant(o).seats(now), nil })
}

func (t *tenant) seats(now time.Time) (n org.Seats) {
	for _, m := range t.Members.rows {
		if !m.Active() {
			continue
		}
		n.Members++
		if m.Role == org.Owner {
			n.Owners++
		}
	}
	for _, i := range t.Invitations.rows {
		if i.Status(now) == invitation.Pending {
			n.Pending++
		}
	}
	return n
}

type invitations struct{ run runner }

func compareInvitations(a, b invitation.Invitation) int {
	return byTime(a.CreatedAt, b.CreatedAt, a.ID, b.ID)
}

func (i invitations) Get(_ context.Context, o id.Org, invited id.Invitation) (invitation.Invitation, error) {
	return result(i.run, func(x *tx) (invitation.Invitation, error) { return x.tenant(o).Invitations.get(invited) })
}

func (i invitations) ByProvider(_ context.Context, o id.Org, providerID string) (invitation.Invitation, error) {
	return result(i.run, func(x *tx) (invitation.Invitation, error) {
		return x.tenant(o).Invitations.find(func(v invitation.Invitation) bool {
			return providerID != "" && v.ProviderID == providerID
		})
	})
}

func (i invitations) ByToken(_ context.Context, tokenHash string) (invitation.Invitation, error) {
	return result(i.run, func(x *tx) (invitation.Invitation, error) {
		for _, t := range x.Tenants.rows {
			v, err := t.Invitations.find(func(v invitation.Invitation) bool { return tokenHash != "" && v.TokenHash == tokenHash })
			if err == nil {
				return v, nil
			}
		}
		return invitation.Invitation{}, fault.Missing("Invitation")
	})
}

func (i invitations) List(
	_ context.Context, o id.Org, now time.Time, after id.Position[id.Invitation], limit int,
	each func(invitation.Invitation) error,
) error {
	found, err := i.pending(o, now, after, limit, always)
	return forEach(found, err, each)
}

func (i invitations) Pending(_ context.Context, o id.Org, email string, now time.Time) ([]invitation.Invitation, error) {
	return i.pending(o, now, id.Position[id.Invitation]{}, 0, func(v invitation.Invitation) bool { return sameEmail(v.Email, email) })
}

func (i invitations) pending(
	o id.Org, now time.Time, after id.Position[id.Invitation], limit int, matches func(invitation.Invitation) bool,
) ([]invitation.Invitation, error) {
	isPending := func(v invitation.Invitation) bool { return v.Status(now) == invitation.Pending && matches(v) }
	from := invitation.Invitation{CreatedAt: after.At, ID: after.ID}
	return result(i.run, func(x *tx) ([]invitation.Invitation, error) {
		return x.tenant(o).Invitations.page(isPending, compareInvitations, from, limit), nil
	})
}

func (i invitations) Put(_ context.Context, o id.Org, v invitation.Invitation) error {
	return i.run.in(o, func(x *tx, tenant *tenant) error {
		if _, err := tenant.Invitations.find(func(existing invitation.Invitation) bool {
			return v.ProviderID != "" && existing.ProviderID == v.ProviderID && existing.ID != v.ID
		}); err == nil {
			return fault.New(fault.Conflict, "Another invitation has this id of the identity provider")
		}
		tenant.Invitations.put(x, v.ID, v)
		return nil
	})
}

type invitationSets struct{ run runner }

func (i invitationSets) Forget(_ context.Context, o id.Org, email string) error {
	return i.run.in(o, func(x *tx, tenant *tenant) error {
		for key, v := range tenant.Invitations.rows {
			if v.StoredStatus() == invitation.Accepted && sameEmail(v.Email, email) {
				v.Email = ""
				tenant.Invitations.put(x, key, v)
			}
		}
		return nil
	})
}

func (i invitationSets) Sweep(_ context.Context, before time.Time, limit int) (n int, err error) {
	err = i.run.do(func(x *tx) {
		for _, t := range x.Tenants.rows {
			for key, v := range t.Invitations.rows {
				if n < limit && v.ExpiresAt.Before(before) && v.Seen.At.Before(before) {
					n++
					t.Invitations.remove(x, key)
				}
			}
		}
	})
	return n, err
}

type subscriptions struct{ run runner }

func (s subscriptions) Get(_ context.Context, o id.Org) (plan.Subscription, error) {
	return result(s.run, func(x *tx) (plan.Subscription, error) { return x.tenant(o).subscription(o), nil })
}

func (s subscriptions) Of(_ context.Context, orgs []id.Org) (map[id.Org]plan.Subscription, error) {
	return ofEach(s.run, orgs, func(x *tx, o id.Org) (plan.Subscription, error) { return x.tenant(o).subscription(o), nil })
}

func (t *tenant) subscription(o id.Org) plan.Subscription {
	existing, err := t.Subscriptions.get(o)
	if err != nil {
		return plan.Unsubscribed(o)
	}
	return existing
}

func (s subscriptions) Put(_ context.Context, o id.Org, v plan.Subscription) error {
	return s.run.in(o, func(x *tx, tenant *tenant) error {
		if existing, err := x.byCustomer(v.Customer); err == nil && existing != o {
			return fault.New(fault.Conflict, "Another organisation has this customer id of the payment provider")
		}
		v.Revision++
		tenant.Subscriptions.put(x, o, v)
		return nil
	})
}

func (s subscriptions) ByCustomer(_ context.Context, customer string) (id.Org, error) {
	return result(s.run, func(x *tx) (id.Org, error) { return x.byCustomer(customer) })
}

func (s *state) byCustomer(customer string) (id.Org, error) {
	for o, t := range s.Tenants.rows {
		if v, ok := t.Subscriptions.rows[o]; ok && customer != "" && v.Customer == customer {
			return o, nil
		}
	}
	return "", fault.Missing("Customer")
}

func (s subscriptions) Due(_ context.Context, now time.Time, limit int) ([]id.Org, error) {
	return result(s.run, func(x *tx) ([]id.Org, error) {
		due := map[id.Org]time.Time{}
		for o, t := range x.Tenants.rows {
			if at := t.subscription(o).Due(); at != nil && !at.After(now) {
				due[o] = *at
			}
		}
		orgs := slices.SortedFunc(maps.Keys(due), func(a, b id.Org) int {
			return cmp.Or(due[a].Compare(due[b]), cmp.Compare(a, b))
		})
		return orgs[:min(limit, len(orgs))], nil
	})
}
