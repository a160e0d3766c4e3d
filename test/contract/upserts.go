package contract

import (
	"context"
	"errors"
	"maps"

	"collab/domain/identity"
	"collab/ports"
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
	spoil    func(V)   // overwrites what these lead to
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
	in := func(w *world) upserter[V, ID] { return u.of(w.store.Directory()) }
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
		"an unknown record is not found": func(w *world) {
			that(in(w).Get(w.ctx, fresh[ID]())).missing(w)
			that(in(w).ByProvider(w.ctx, "x_"+nextID())).missing(w)
			that(in(w).ByProvider(w.ctx, "")).missing(w)
		},
		"a record comes back with every field as it went in": func(w *world) {
			full := u.some()
			u.fill(&full)
			for _, v := range []V{full, u.bare()} {
				that(in(w).Upsert(w.ctx, v, keep)).is(w, v)
				that(in(w).Get(w.ctx, *u.id(&v))).is(w, v)
				that(in(w).ByProvider(w.ctx, *u.provider(&v))).is(w, v)
			}
		},
		"the provider's id is compared exactly": func(w *world) {
			same := nextID()
			lower, upper := provided("x"+same), provided("X"+same)
			that(in(w).Upsert(w.ctx, lower, keep)).must(w)
			for _, other := range []string{"X" + same, "x" + same + " ", " x" + same} {
				that(in(w).ByProvider(w.ctx, other)).missing(w)
			}
			that(in(w).Upsert(w.ctx, upper, keep)).is(w, upper)
			that(in(w).ByProvider(w.ctx, "x"+same)).is(w, lower)
		},
		"upsert gives fn the fresh record, or the one that is there, and stores what fn makes of it": func(w *world) {
			first, second := u.some(), u.some()
			*u.provider(&second) = *u.provider(&first)
			changed := u.change(first)
			upsert := func(fresh, given, made V) {
				w.Helper()
				that(in(w).Upsert(w.ctx, fresh, func(v V) (V, error) {
					same(w, v, given)
					return made, nil
				})).is(w, made)
				that(in(w).Get(w.ctx, *u.id(&first))).is(w, made)
			}
			upsert(first, first, changed)
			upsert(second, changed, first)
			that(in(w).Get(w.ctx, *u.id(&second))).missing(w)
		},
		"an error of fn comes back and nothing is stored": func(w *world) {
			no := errors.New("no")
			refuse := func(v V) (V, error) { return u.change(v), no }
			v := u.some()
			_, err := in(w).Upsert(w.ctx, v, refuse)
			w.unchanged(err, no)
			that(in(w).Get(w.ctx, *u.id(&v))).missing(w)
			that(in(w).ByProvider(w.ctx, *u.provider(&v))).missing(w)

			that(in(w).Upsert(w.ctx, v, keep)).is(w, v)
			_, err = in(w).Upsert(w.ctx, v, refuse)
			w.unchanged(err, no)
			that(in(w).Get(w.ctx, *u.id(&v))).is(w, v)
		},
		"a taken id is a conflict": func(w *world) {
			there, other := u.some(), u.some()
			*u.id(&other) = *u.id(&there)
			that(in(w).Upsert(w.ctx, there, keep)).must(w)
			that(in(w).Upsert(w.ctx, other, keep)).conflict(w)
			that(in(w).Get(w.ctx, *u.id(&there))).is(w, there)
			that(in(w).ByProvider(w.ctx, *u.provider(&other))).missing(w)
		},
		"many upserts of one provider id at once make one record and lose no update": func(w *world) {
			provider := "x_" + nextID()
			w.allOK(together(concurrent, func(int) error { return drop(in(w).Upsert(w.ctx, provided(provider), counted)) }))
			v := that(in(w).ByProvider(w.ctx, provider)).must(w)
			same(w, u.seen(&v).Rank, concurrent)
		},
		"an upsert in a transaction holds the record until its end": func(w *world) {
			provider := "x_" + nextID()
			w.allOK(together(concurrent, func(int) error {
				v := provided(provider)
				return w.store.Atomic(w.ctx, func(r ports.Records) error {
					if _, err := u.of(r.Directory()).Upsert(w.ctx, v, counted); err != nil {
						return err
					}
					return drop(u.of(r.Directory()).Upsert(w.ctx, v, counted))
				})
			}))
			v := that(in(w).ByProvider(w.ctx, provider)).must(w)
			same(w, u.seen(&v).Rank, 2*concurrent)
		},
		"what is passed in and handed out is the caller's": func(w *world) {
			v := u.some()
			u.fill(&v)
			want := v
			u.fill(&want)
			unspoilt := func() {
				w.Helper()
				that(in(w).Get(w.ctx, *u.id(&v))).is(w, want)
			}
			u.spoil(that(in(w).Upsert(w.ctx, v, keep)).must(w))
			u.spoil(v)
			unspoilt()
			u.spoil(that(in(w).Get(w.ctx, *u.id(&v))).must(w))
			u.spoil(that(in(w).ByProvider(w.ctx, *u.provider(&v))).must(w))
			unspoilt()
			no := errors.New("no")
			_, err := in(w).Upsert(w.ctx, v, func(v V) (V, error) {
				u.spoil(v)
				return v, no
			})
			w.unchanged(err, no)
			var mine V
			that(in(w).Upsert(w.ctx, v, func(v V) (V, error) {
				mine = v
				return v, nil
			})).must(w)
			u.spoil(mine)
			unspoilt()
		},
	}
}
