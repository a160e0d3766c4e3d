package contract

import (
	"errors"
	"reflect"
	"time"

	"collab/test/must"
)

// keepsNothing checks that an adapter shares no memory with its callers: want is stored by put, unless that is
// nil, and read by each of gets, all that is reachable from what was given and returned is overwritten, and the
// first of gets must return want again.
func keepsNothing[V any](w *fixture, want V, put func(V) error, gets ...func() V) {
	w.Helper()
	if put != nil {
		given := copied(want)
		w.ok(put(given))
		spoil(given)
		wantEqual(w, gets[0](), want)
	}
	for _, get := range gets {
		spoil(get())
		wantEqual(w, gets[0](), want)
	}
}

// updates adds to get the reads by an update that calls fn with the stored value: what it returns, what fn was
// given, and what a failing fn was given, which overwrites it. That error is returned unchanged, with no value.
func updates[V any](w *fixture, get func() V, update func(fn func(V) (V, error)) (V, error)) []func() V {
	given := func(err error) V {
		w.Helper()
		var seen V
		made, got := update(func(v V) (V, error) {
			if seen = v; err != nil {
				spoil(v)
			}
			return v, err
		})
		if w.wantSameError(got, err); err != nil {
			wantEqual(w, made, *new(V))
		}
		return seen
	}
	return []func() V{
		get,
		func() V { return must.Do(update(keep[V])).Or(w) },
		func() V { return given(nil) },
		func() V { return given(errors.New("failure")) },
	}
}

// eachField returns copies of bare with one of the exported fields of full each, those of embedded structs among
// them, and for each pointer to a text or number one with a pointer to its zero value.
func eachField[V any](bare, full V) (all []V) {
	for _, field := range reflect.VisibleFields(reflect.TypeFor[V]()) {
		if field.Anonymous || !field.IsExported() {
			continue
		}
		values := []reflect.Value{reflect.ValueOf(full).FieldByIndex(field.Index)}
		if field.Type.Kind() == reflect.Pointer && field.Type.Elem().Kind() != reflect.Struct {
			values = append(values, reflect.New(field.Type.Elem()))
		}
		for _, value := range values {
			v := bare
			reflect.ValueOf(&v).Elem().FieldByIndex(field.Index).Set(value)
			all = append(all, v)
		}
	}
	return all
}

// copied returns a copy that shares no memory with v through exported fields.
func copied[V any](v V) V {
	each(reflect.ValueOf(&v).Elem(), func(to reflect.Value) {
		switch to.Kind() {
		case reflect.Pointer:
			n := reflect.New(to.Type().Elem())
			n.Elem().Set(to.Elem())
			to.Set(n)
		case reflect.Slice:
			n := reflect.MakeSlice(to.Type(), to.Len(), to.Len())
			reflect.Copy(n, to)
			to.Set(n)
		}
	}, func(reflect.Value) {})
	return v
}

// spoil overwrites all that pointers and slices in exported fields of v lead to.
func spoil[V any](v V) {
	each(reflect.ValueOf(&v).Elem(), func(reflect.Value) {}, func(to reflect.Value) {
		switch to.Kind() {
		case reflect.Pointer:
			to.Elem().SetZero()
		case reflect.Slice:
			for i := range to.Len() {
				to.Index(i).SetZero()
			}
		}
	})
}

// each calls before and after with every pointer and slice in v that is not nil, before and after those in what it leads to.
func each(v reflect.Value, before, after func(reflect.Value)) {
	switch v.Kind() {
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			return
		}
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				each(v.Field(i), before, after)
			}
		}
	case reflect.Pointer, reflect.Slice:
		if v.IsNil() {
			return
		}
		before(v)
		if v.Kind() == reflect.Pointer {
			each(v.Elem(), before, after)
		} else {
			for i := range v.Len() {
				each(v.Index(i), before, after)
			}
		}
		after(v)
	}
}
