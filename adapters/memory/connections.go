package memory

import (
	"cmp"
	"context"
	"slices"
	"time"

	"collab/domain/connector"
	"collab/domain/fault"
	"collab/domain/id"
	"collab/ports"
)

func (r records) Connectors() ports.Connectors   { return connectors{r.run} }
func (r records) Credentials() ports.Credentials { return credentials{r.run} }
func (r records) Flows() ports.Flows             { return flows{r.run} }
func (r records) Clients() ports.Clients         { return clients{r.run} }
func (r records) Revocations() ports.Revocations { return revocations{r.run} }

// connectorKey identifies a connector.
type connectorKey struct {
	org id.Org
	id  id.Connector
}

// compareDue orders by when something is due, then by connector.
func compareDue(a time.Time, i connectorKey, b time.Time, j connectorKey) int {
	return cmp.Or(a.Compare(b), cmp.Compare(i.org, j.org), cmp.Compare(i.id, j.id))
}

// clientKey identifies a client: the authorization server that has registered it, and its redirect URL.
type clientKey struct{ issuer, redirect string }

type connectors struct{ run runner }

func compareConnectors(a, b connector.Instance) int {
	return byTime(a.CreatedAt, b.CreatedAt, a.ID, b.ID)
}

func (c connectors) Get(_ context.Context, o id.Org, i id.Connector) (connector.Instance, error) {
	return result(c.run, func(x *tx) (connector.Instance, error) { return x.tenant(o).Connectors.get(i) })
}

func (c connectors) List(_ context.Context, o id.Org, after id.Position[id.Connector], limit int, each func(connector.Instance) error) error {
	found, err := result(c.run, func(x *tx) ([]connector.Instance, error) {
		return x.tenant(o).Connectors.page(always, compareConnectors, connector.Instance{CreatedAt: after.At, ID: after.ID}, limit), nil
	})
	return forEach(found, err, each)
}

func (c connectors) Add(_ context.Context, o id.Org, i connector.Instance) error {
	return c.run.in(o, func(x *tx, tenant *tenant) error {
		return tenant.Connectors.add(x, i.ID, i)
	})
}

func (c connectors) Update(_ context.Context, o id.Org, i id.Connector, fn func(connector.Instance) (connector.Instance, error)) (connector.Instance, error) {
	return result(c.run, func(x *tx) (connector.Instance, error) { return x.tenant(o).Connectors.update(x, i, fn) })
}

func (c connectors) Remove(_ context.Context, o id.Org, i id.Connector) error {
	return c.run(func(x *tx) error {
		tenant := x.tenant(o)
		if err := tenant.Connectors.delete(x, i); err != nil {
			return err
		}
		tenant.Credentials.remove(x, i)
		x.Flows.removeWhere(x, func(f connector.Flow) bool { return f.Org == o && f.Instance == i })
		return nil
	})
}

func (c connectors) Claim(_ context.Context, now time.Time, without ...id.Org) (connector.Instance, error) {
	return result(c.run, func(x *tx) (connector.Instance, error) {
		var due []connector.Instance
		for _, t := range x.Tenants.rows {
			for _, i := range t.Connectors.rows {
				if i.DueAt != nil && !i.DueAt.After(now) && !slices.Contains(without, i.Org) {
					due = append(due, clone(i))
				}
			}
		}
		if len(due) == 0 {
			return connector.Instance{}, fault.Missing("Connector")
		}
		claimed, err := slices.MinFunc(due, func(a, b connector.Instance) int {
			return compareDue(*a.DueAt, connectorKey{a.Org, a.ID}, *b.DueAt, connectorKey{b.Org, b.ID})
		}).Claimed(now)
		if err == nil {
			x.tenant(claimed.Org).Connectors.put(x, claimed.ID, claimed)
		}
		return claimed, err
	})
}

type credentials struct{ run runner }

func (c credentials) Get(_ context.Context, o id.Org, i id.Connector) (connector.Sealed, error) {
	return result(c.run, func(x *tx) (connector.Sealed, error) { return x.tenant(o).Credentials.get(i) })
}

func (c credentials) Put(_ context.Context, o id.Org, s connector.Sealed) error {
	return c.run(func(x *tx) error {
		tenant := x.tenant(o)
		if !tenant.Connectors.has(s.Instance) {
			return tenant.Connectors.missing()
		}
		tenant.Credentials.put(x, s.Instance, s)
		return nil
	})
}

type flows struct{ run runner }

func (s flows) Add(_ context.Context, f connector.Flow) error {
	return s.run(func(x *tx) error {
		tenant := x.tenant(f.Org)
		if !tenant.Connectors.has(f.Instance) {
			return tenant.Connectors.missing()
		}
		return x.Flows.add(x, f.State, f)
	})
}

func (s flows) Get(_ context.Context, state string) (connector.Flow, error) {
	return result(s.run, func(x *tx) (connector.Flow, error) { return x.Flows.get(state) })
}

func (s flows) Update(_ context.Context, state string, fn func(connector.Flow) (connector.Flow, error)) (connector.Flow, error) {
	return result(s.run, func(x *tx) (connector.Flow, error) { return x.Flows.update(x, state, fn) })
}

func (s flows) Sweep(_ context.Context, before time.Time) error {
	return s.run.do(func(x *tx) {
		x.Flows.removeWhere(x, func(f connector.Flow) bool { return f.ExpiresAt.Before(before) })
	})
}

type clients struct{ run runner }

func (c clients) Get(_ context.Context, issuer, redirect string) (connector.Registered, error) {
	return result(c.run, func(x *tx) (connector.Registered, error) { return x.Clients.get(clientKey{issuer, redirect}) })
}

func (c clients) Put(_ context.Context, v connector.Registered, expires time.Time) (connector.Registered, error) {
	return result(c.run, func(x *tx) (connector.Registered, error) {
		key := clientKey{v.Issuer, v.Redirect}
		existing, err := x.Clients.get(key)
		if err == nil && (existing.ExpiresAt == nil || !existing.ExpiresAt.Before(expires)) {
			return existing, nil
		}
		x.Clients.put(x, key, v)
		return x.Clients.get(key)
	})
}

func (c clients) Use(_ context.Context, v connector.Registered) error {
	return c.run(func(x *tx) error {
		key := clientKey{v.Issuer, v.Redirect}
		existing, err := x.Clients.get(key)
		if err != nil {
			return err
		}
		if existing.ID != v.ID {
			return x.Clients.missing()
		}
		existing.UsedAt = v.UsedAt
		x.Clients.put(x, key, existing)
		return nil
	})
}

func (c clients) Remove(_ context.Context, issuer, redirect, id string) error {
	return c.run.do(func(x *tx) {
		key := clientKey{issuer, redirect}
		if x.Clients.rows[key].ID == id {
			x.Clients.remove(x, key)
		}
	})
}

func (c clients) Sweep(_ context.Context, before time.Time, limit int) (int, error) {
	return result(c.run, func(x *tx) (int, error) {
		if limit == 0 {
			return 0, nil
		}
		old := x.Clients.list(func(v connector.Registered) bool { return v.UsedAt.Before(before) },
			func(a, b connector.Registered) int { return a.UsedAt.Compare(b.UsedAt) }, limit)
		for _, v := range old {
			x.Clients.remove(x, clientKey{v.Issuer, v.Redirect})
		}
		return len(old), nil
	})
}

type revocations struct{ run runner }

func (s revocations) Add(_ context.Context, r connector.Revocation) error {
	return s.run(func(x *tx) error {
		if _, err := x.Tenants.get(r.Org); err != nil {
			return err
		}
		return x.Revocations.add(x, connectorKey{r.Org, r.ID}, r)
	})
}

func (s revocations) Claim(_ context.Context, now, until time.Time, without ...id.Org) (connector.Revocation, error) {
	return result(s.run, func(x *tx) (connector.Revocation, error) {
		due := x.Revocations.list(func(r connector.Revocation) bool {
			return !r.DueAt.After(now) && !slices.Contains(without, r.Org)
		}, func(a, b connector.Revocation) int {
			return compareDue(a.DueAt, connectorKey{a.Org, a.ID}, b.DueAt, connectorKey{b.Org, b.ID})
		}, 1)
		if len(due) == 0 {
			return connector.Revocation{}, fault.Missing("Revocation")
		}
		due[0].DueAt = until
		x.Revocations.put(x, connectorKey{due[0].Org, due[0].ID}, due[0])
		return due[0], nil
	})
}

func (s revocations) Put(_ context.Context, r connector.Revocation) error {
	return s.run(func(x *tx) error { return x.Revocations.replace(x, connectorKey{r.Org, r.ID}, r) })
}

func (s revocations) Remove(_ context.Context, o id.Org, i id.Connector) error {
	return s.run.do(func(x *tx) { x.Revocations.remove(x, connectorKey{o, i}) })
}
