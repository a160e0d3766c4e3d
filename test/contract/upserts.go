package contract

import (
	"context"
	"errors"
	"maps"

	"collab/domain/identity"
	"collab/ports"
	"collab/test/must"
)

// upserter is a collection of records that the identity provider names.
type upserter[V any, ID ~string] interface {
	Get(ctx context.Context, i ID) (V, error)
	ByProvider(ctx context.Context, providerID string) (V, error)
	Upsert(ctx context.Context, fresh V, fn func(V) (V, error)) (V, error)
}

// upserted describes the records of an upserter.
type upserted[V any, ID ~string] struct {
	of       func(ports.Directory) upserter[V, ID]
	some     func() V  // a record that is not stored yet
	bare     func() V  // one with no field set that need not be
	fill     func(*V)  // sets the optional fields that some leaves unset
	change   func(V) V // changes or unsets every field that may change
	id       func(*V) *ID
	provider func(*V) *string
	seen     func(*V) *identity.Stamp
}

// and returns both suites.
func (s suite) and(more suite) suite {
	maps.Copy(s, more)
	return s
}

// suite is the sub-tests of an upserter.
func (u upserted[V, ID]) suite() suite {
	in := func(w *fixture) upserter[V, ID] { return u.of(w.Directory) }
	// provided is a record with a provider's id.
	provided := func(provider string) V {
		v := u.some()
		*u.provider(&v), u.seen(&v).Rank = provider, 0
		return v
	}
	counted := func(v V) (V, error) {
		u.seen(&v).Rank++
		return v, nil
	}
	return suite{
		"an unknown record is not found": func(w *fixture) {
			resultOf(in(w).Get(w.ctx, fresh[ID]())).wantNotFound(w)
			resultOf(in(w).ByProvider(w.ctx, "x_"+nextID())).wantNotFound(w)
			resultOf(in(w).ByProvider(w.ctx, "")).wantNotFound(w)
		},
		"a record is returned with every field as stored": func(w *fixture) {
			full := u.some()
			u.fill(&full)
			for _, v := range []V{full, u.bare()} {
				resultOf(in(w).Upsert(w.ctx, v, keep)).is(w, v)
				resultOf(in(w).Get(w.ctx, *u.id(&v))).is(w, v)
				resultOf(in(w).ByProvider(w.ctx, *u.provider(&v))).is(w, v)
			}
		},
		"the provider's id is compared exactly": func(w *fixture) {
			same := nextID()
			lower, upper := provided("x"+same), provided("X"+same)
			must.Do(in(w).Upsert(w.ctx, lower, keep)).Or(w)
			for _, other := range []string{"X" + same, "x" + same + " ", " x" + same} {
				resultOf(in(w).ByProvider(w.ctx, other)).wantNotFound(w)
			}
			resultOf(in(w).Upsert(w.ctx, upper, keep)).is(w, upper)
			resultOf(in(w).ByProvider(w.ctx, "x"+same)).is(w, lower)
		},
		"upsert calls fn with the fresh or the existing record and stores its result": func(w *fixture) {
			first, second := u.some(), u.some()
			*u.provider(&second) = *u.provider(&first)
			changed := u.change(first)
			upsert := func(fresh, given, made V) {
				w.Helper()
				resultOf(in(w).Upsert(w.ctx, fresh, func(v V) (V, error) {
					wantEqual(w, v, given)
					return made, nil
				})).is(w, made)
				resultOf(in(w).Get(w.ctx, *u.id(&first))).is(w, made)
			}
			upsert(first, first, changed)
			upsert(second, changed, first)
			resultOf(in(w).Get(w.ctx, *u.id(&second))).wantNotFound(w)
		},
		"an error of fn is returned and nothing is added": func(w *fixture) {
			v, failure := u.some(), errors.New("failure")
			_, err := in(w).Upsert(w.ctx, v, func(v V) (V, error) { return u.change(v), failure })
			w.wantSameError(err, failure)
			resultOf(in(w).Get(w.ctx, *u.id(&v))).wantNotFound(w)
			resultOf(in(w).ByProvider(w.ctx, *u.provider(&v))).wantNotFound(w)
		},
		"a taken id is a conflict": func(w *fixture) {
			there, other := u.some(), u.some()
			*u.id(&other) = *u.id(&there)
			must.Do(in(w).Upsert(w.ctx, there, keep)).Or(w)
			resultOf(in(w).Upsert(w.ctx, other, keep)).wantConflict(w)
			resultOf(in(w).Get(w.ctx, *u.id(&there))).is(w, there)
			resultOf(in(w).ByProvider(w.ctx, *u.provider(&other))).wantNotFound(w)
		},
		"concurrent upserts of one provider id make one record and lose no update": func(w *fixture) {
			provider := "x_" + nextID()
			w.allOK(concurrently(concurrent, func(int) error {
				return must.ErrorOf(in(w).Upsert(w.ctx, provided(provider), counted))
			}))
			v := must.Do(in(w).ByProvider(w.ctx, provider)).Or(w)
			wantEqual(w, u.seen(&v).Rank, concurrent)
		},
		"an upsert in a transaction locks the record until it ends": func(w *fixture) {
			provider := "x_" + nextID()
			w.allOK(concurrently(concurrent, func(int) error {
				v := provided(provider)
				return w.store.Atomic(w.ctx, func(r ports.Records) error {
					if _, err := u.of(r.Directory()).Upsert(w.ctx, v, counted); err != nil {
						return err
					}
					return must.ErrorOf(u.of(r.Directory()).Upsert(w.ctx, v, counted))
				})
			}))
			v := must.Do(in(w).ByProvider(w.ctx, provider)).Or(w)
			wantEqual(w, u.seen(&v).Rank, 2*concurrent)
		},
		"arguments and results belong to the caller": func(w *fixture) {
			v := u.some()
			u.fill(&v)
			upsert := func(fn func(V) (V, error)) (V, error) { return in(w).Upsert(w.ctx, copied(v), fn) }
			get := func() V { return must.Do(in(w).Get(w.ctx, *u.id(&v))).Or(w) }
			provided := func() V { return must.Do(in(w).ByProvider(w.ctx, *u.provider(&v))).Or(w) }
			keepsNothing(w, v, func(v V) error { return must.ErrorOf(in(w).Upsert(w.ctx, v, keep)) }, append(updates(w, get, upsert), provided)...)
		},
	}
}
