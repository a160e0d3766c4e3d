// Package directory fills a store with organisations and members for tests.
package directory

import (
	"errors"
	"testing"

	"collab/domain/audit"
	"collab/domain/id"
	"collab/domain/org"
	"collab/ports"
	"collab/test/must"
)

// Directory adds organisations and members to a store. An error ends the test.
type Directory struct {
	testing.TB
	Store ports.Store
	Clock ports.Clock
	IDs   ports.IDs
}

// Must ends the test if err is not nil.
func (d Directory) Must(err error) {
	d.Helper()
	must.NoError(d, err)
}

// AuditLog returns the audit log of an organisation in a store, the newest entries first.
func AuditLog(t testing.TB, store ports.Store, o id.Org) (all []audit.Entry) {
	t.Helper()
	must.NoError(t, store.Journal().Audit().List(t.Context(), o, audit.Filter{}, func(e audit.Entry) error {
		all = append(all, e)
		return nil
	}))
	return all
}

// Organisation adds an organisation.
func (d Directory) Organisation() id.Org {
	d.Helper()
	o := org.Organisation{ID: id.Org(d.IDs.New()), Name: "Office"}
	o.ProviderID = string(o.ID)
	must.Do(d.Store.Directory().Organisations().Upsert(d.Context(), o, func(o org.Organisation) (org.Organisation, error) { return o, nil })).Or(d)
	return o.ID
}

// Member adds a user who is a member of the organisation. The actor has no visibility.
func (d Directory) Member(o id.Org, role org.Role) org.Actor {
	d.Helper()
	u := org.User{ID: id.User(d.IDs.New()), Name: "Ada", Email: "ada@example.com"}
	u.ProviderID = string(u.ID)
	must.Do(d.Store.Directory().Users().Upsert(d.Context(), u, func(u org.User) (org.User, error) { return u, nil })).Or(d)
	d.Put(org.Membership{Org: o, User: u.ID, Role: role, JoinedAt: d.Clock.Now()})
	return org.Actor{User: u.ID, Org: o, Role: role}
}

// Put stores a membership.
func (d Directory) Put(m org.Membership) {
	d.Helper()
	d.Locked(m.Org, func(r ports.Records) error { return r.Directory().Members().Put(d.Context(), m.Org, m) })
}

// Remove ends a membership.
func (d Directory) Remove(o id.Org, u id.User) {
	d.Helper()
	m := must.Do(d.Store.Directory().Members().Get(d.Context(), o, u)).Or(d)
	d.Put(m.Removed(d.Clock.Now()))
}

// Close closes the organisation, as its deletion at the identity provider does.
func (d Directory) Close(o id.Org) {
	d.Helper()
	d.Must(d.Store.Atomic(d.Context(), func(r ports.Records) error {
		organisations := r.Directory().Organisations()
		_, err := organisations.Upsert(d.Context(), org.Organisation{ProviderID: string(o)}, func(o org.Organisation) (org.Organisation, error) {
			return o.Close(d.Clock.Now()), nil
		})
		_, lock := organisations.Lock(d.Context(), o)
		return errors.Join(err, lock)
	}))
}

// Locked runs fn in a transaction that holds the organisation's lock, which increments its
// epoch.
func (d Directory) Locked(o id.Org, fn func(ports.Records) error) {
	d.Helper()
	d.Must(d.Store.Atomic(d.Context(), func(r ports.Records) error {
		if _, err := r.Directory().Organisations().Lock(d.Context(), o); err != nil {
			return err
		}
		return fn(r)
	}))
}
