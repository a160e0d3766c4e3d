package contract

import (
	"context"
	"slices"
	"time"

	"collab/domain/id"
	"collab/ports"
	"collab/test/must"
)

// collection is one of records that organisations own.
type collection[V any, ID ~string] interface {
	Get(ctx context.Context, o id.Org, i ID) (V, error)
	List(ctx context.Context, o id.Org, ids []ID) ([]V, error)
	Add(ctx context.Context, o id.Org, v V) error
	Put(ctx context.Context, o id.Org, v V) error
	Remove(ctx context.Context, o id.Org, i ID) error
}

// owned describes the records of a collection.
type owned[V any, ID ~string] struct {
	of          func(ports.Work) collection[V, ID]
	some        func(tenant) V // a record that is not stored yet
	there       func(tenant) V // one that is
	all         func(*fixture, id.Org) ([]V, error)
	change      func(tenant, *V) // changes every field that may change
	id          func(*V) *ID
	created     func(*V) *time.Time
	description func(*V) **string
}

// suite is the sub-tests of a collection.
func (c owned[V, ID]) suite() suite {
	in := func(w *fixture) collection[V, ID] { return c.of(w.Work) }
	// as returns a record of the tenant that is not stored yet, with the id of another one.
	as := func(tn tenant, other V) V {
		v := c.some(tn)
		*c.id(&v) = *c.id(&other)
		return v
	}
	return suite{
		"an unknown record is not found, nor is another organisation's": func(w *fixture) {
			tn, other := w.tenant(), w.tenant()
			was, untouched := w.content(tn), w.content(other)
			for _, v := range []V{c.some(tn), as(tn, c.there(other))} {
				resultOf(in(w).Get(w.ctx, tn.ID, *c.id(&v))).wantNotFound(w)
				w.wantNotFound(in(w).Put(w.ctx, tn.ID, v))
				w.wantNotFound(in(w).Remove(w.ctx, tn.ID, *c.id(&v)))
			}
			wantEqual(w, w.content(tn), was)
			wantEqual(w, w.content(other), untouched)
		},
		"a record is returned with every field as stored": func(w *fixture) {
			tn := w.tenant()
			full, unset, empty := c.some(tn), c.some(tn), c.some(tn)
			*c.description(&unset), *c.description(&empty) = nil, new("")
			for _, v := range []V{full, unset, empty} {
				w.ok(in(w).Add(w.ctx, tn.ID, v))
				resultOf(in(w).Get(w.ctx, tn.ID, *c.id(&v))).is(w, v)
			}
			c.change(tn, &full)
			for _, description := range []*string{nil, new("")} {
				*c.description(&full) = description
				w.ok(in(w).Put(w.ctx, tn.ID, full))
				resultOf(in(w).Get(w.ctx, tn.ID, *c.id(&full))).is(w, full)
			}
			resultOf(in(w).Get(w.ctx, tn.ID, *c.id(&unset))).is(w, unset)
		},
		"references are ordered by creation, then id": func(w *fixture) {
			tn := w.tenant()
			w.tenant()
			want := must.Do(c.all(w, tn.ID)).Or(w)
			ids := several[ID](4)
			add := func(i, created int) V {
				v := c.some(tn)
				*c.id(&v), *c.created(&v) = ids[i], at(created)
				w.ok(in(w).Add(w.ctx, tn.ID, v))
				return v
			}
			d, c3, a, b := add(0, 70), add(3, 60), add(2, 50), add(1, 60)
			resultOf(c.all(w, tn.ID)).is(w, append(want, a, b, c3, d))
		},
		"list returns the existing records in the order of the ids": func(w *fixture) {
			tn, other := w.tenant(), w.tenant()
			records := []V{c.there(tn), c.some(tn), c.some(tn)}
			for _, v := range records[1:] {
				w.ok(in(w).Add(w.ctx, tn.ID, v))
			}
			slices.Reverse(records)
			var ids []ID
			for _, v := range append([]V{c.some(tn), c.there(other)}, records...) {
				ids = append(ids, *c.id(&v), "none")
			}
			resultOf(in(w).List(w.ctx, tn.ID, ids)).is(w, records)
			resultOf(in(w).List(w.ctx, tn.ID, nil)).is(w, nil)
		},
		"a taken id is a conflict, and replaces no record of another organisation": func(w *fixture) {
			tn, other := w.tenant(), w.tenant()
			was := w.content(tn)
			w.wantConflict(in(w).Add(w.ctx, tn.ID, as(tn, c.there(tn))))
			wantEqual(w, w.content(tn), was)
			if err := in(w).Add(w.ctx, tn.ID, as(tn, c.there(other))); err != nil {
				w.wantConflict(err)
			}
			there := c.there(other)
			resultOf(in(w).Get(w.ctx, other.ID, *c.id(&there))).is(w, there)
		},
		"arguments and results belong to the caller": func(w *fixture) {
			tn := w.tenant()
			v := c.some(tn)
			get := func() V { return must.Do(in(w).Get(w.ctx, tn.ID, *c.id(&v))).Or(w) }
			listed := func() V { return must.Do(in(w).List(w.ctx, tn.ID, []ID{*c.id(&v)})).Or(w)[0] }
			keepsNothing(w, v, func(v V) error { return in(w).Add(w.ctx, tn.ID, v) }, get)
			keepsNothing(w, v, func(v V) error { return in(w).Put(w.ctx, tn.ID, v) }, get, listed)
		},
	}
}
