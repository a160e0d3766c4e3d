package memory

import (
	"cmp"
	"reflect"
	"sort"
	"time"

	"collab/domain/fault"
)

// table has the records of one kind. It stores and returns copies.
type table[K comparable, V any] struct {
	what string  // a record's name in errors
	rows map[K]V // read directly only where nothing is changed or returned
}

func (t *table[K, V]) init(what string) { t.what, t.rows = what, map[K]V{} }

// makeTables makes the tables of a struct: its fields with the tag record, which is a record's name in errors.
func makeTables(of any) {
	v := reflect.ValueOf(of).Elem()
	for i := range v.NumField() {
		if what, ok := v.Type().Field(i).Tag.Lookup("record"); ok {
			v.Field(i).Addr().Interface().(interface{ init(what string) }).init(what)
		}
	}
}

func (t *table[K, V]) missing() error { return fault.Missing(t.what) }
func (t *table[K, V]) errTaken() error {
	return fault.New(fault.Conflict, "%s is there already", t.what)
}

func (t *table[K, V]) has(k K) bool {
	_, ok := t.rows[k]
	return ok
}

// get returns the record, NotFound when there is none.
func (t *table[K, V]) get(k K) (V, error) {
	v, ok := t.rows[k]
	if !ok {
		return v, t.missing()
	}
	return clone(v), nil
}

// find returns a record that matches, NotFound when there is none.
func (t *table[K, V]) find(matches func(V) bool) (V, error) {
	for _, v := range t.rows {
		if matches(v) {
			return clone(v), nil
		}
	}
	var zero V
	return zero, t.missing()
}

// getAll returns the existing records of the keys, in the order of the keys.
func (t *table[K, V]) getAll(keys []K) (vs []V) {
	for _, k := range keys {
		if v, ok := t.rows[k]; ok {
			vs = append(vs, clone(v))
		}
	}
	return vs
}

// add puts a record whose key must be free, else Conflict.
func (t *table[K, V]) add(x *tx, k K, v V) error {
	if t.has(k) {
		return t.errTaken()
	}
	t.put(x, k, v)
	return nil
}

// replace stores a record over an existing one, NotFound when there is none.
func (t *table[K, V]) replace(x *tx, k K, v V) error {
	if !t.has(k) {
		return t.missing()
	}
	t.put(x, k, v)
	return nil
}

// update replaces a record, NotFound when there is none, by what fn returns for it. It
// returns a copy of that.
func (t *table[K, V]) update(x *tx, k K, fn func(V) (V, error)) (V, error) {
	previous, err := t.get(k)
	if err != nil {
		return previous, err
	}
	next, err := fn(previous)
	if err != nil {
		return next, err
	}
	t.put(x, k, next)
	return clone(next), nil
}

// upsert updates the record that matches, or else fresh, whose key must be free. It
// returns a copy of the record and whether it is new.
func (t *table[K, V]) upsert(x *tx, key func(V) K, fresh V, matches func(V) bool, fn func(V) (V, error)) (v V, added bool, err error) {
	previous, err := t.find(matches)
	if added = err != nil; added {
		if previous = clone(fresh); t.has(key(fresh)) {
			return previous, true, t.errTaken()
		}
	}
	next, err := fn(previous)
	if err == nil {
		t.put(x, key(next), next)
	}
	return clone(next), added, err
}

// list returns the records that match in the order of compare, at most limit;
// 0: all.
func (t *table[K, V]) list(matches func(V) bool, compare func(a, b V) int, limit int) []V {
	var vs []V
	for _, v := range t.rows {
		if matches(v) {
			vs = append(vs, v)
		}
	}
	sort.Slice(vs, func(i, j int) bool { return compare(vs[i], vs[j]) < 0 }) // slices.SortFunc is compiled for each type: 0.4 MB
	vs = first(vs, limit)
	for i, v := range vs {
		vs[i] = clone(v)
	}
	return vs
}

// first returns the first values, at most limit; 0: all.
func first[V any](vs []V, limit int) []V {
	if limit > 0 {
		vs = vs[:min(limit, len(vs))]
	}
	return vs
}

// each calls fn with the records in the order of compare.
func (t *table[K, V]) each(compare func(a, b V) int, fn func(*V)) {
	for _, v := range t.list(always, compare, 0) {
		fn(&v)
	}
}

// page is list for the records after one that need not be there.
func (t *table[K, V]) page(matches func(V) bool, compare func(a, b V) int, after V, limit int) []V {
	return t.list(func(v V) bool { return matches(v) && compare(v, after) > 0 }, compare, limit)
}

// put adds or replaces a record.
func (t *table[K, V]) put(x *tx, k K, v V) {
	t.saveUndo(x, k)
	t.rows[k] = clone(v)
}

// remove deletes the record, which may be absent.
func (t *table[K, V]) remove(x *tx, k K) {
	t.saveUndo(x, k)
	delete(t.rows, k)
}

// delete removes a record, NotFound when there is none.
func (t *table[K, V]) delete(x *tx, k K) error {
	if !t.has(k) {
		return t.missing()
	}
	t.remove(x, k)
	return nil
}

// removeWhere deletes the records that match.
func (t *table[K, V]) removeWhere(x *tx, matches func(V) bool) {
	for k, v := range t.rows {
		if matches(v) {
			t.remove(x, k)
		}
	}
}

// saveUndo adds an undo step that restores the present record.
func (t *table[K, V]) saveUndo(x *tx, k K) {
	previous, found := t.rows[k]
	x.undo = append(x.undo, func() {
		if found {
			t.rows[k] = previous
		} else {
			delete(t.rows, k)
		}
	})
}

// always matches every record.
func always[V any](V) bool { return true }

// byTime compares two records by a time and then by their ids.
func byTime[K cmp.Ordered](a, b time.Time, i, j K) int {
	return cmp.Or(a.Compare(b), cmp.Compare(i, j))
}

// clone returns a copy of a record that shares nothing with it that can be changed
// from outside.
func clone[V any](v V) V {
	if own, ok := any(v).(interface{ Clone() V }); ok {
		return own.Clone()
	}
	deepCopy(reflect.ValueOf(&v).Elem())
	return v
}

// deepCopy gives a value its own copies of what its pointers and slices lead to.
func deepCopy(v reflect.Value) {
	switch {
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			if f := v.Field(i); f.CanSet() {
				deepCopy(f)
			}
		}
	case v.Kind() == reflect.Pointer && !v.IsNil():
		own := reflect.New(v.Type().Elem())
		own.Elem().Set(v.Elem())
		deepCopy(own.Elem())
		v.Set(own)
	case v.Kind() == reflect.Slice && !v.IsNil():
		own := reflect.AppendSlice(reflect.MakeSlice(v.Type(), 0, v.Len()), v)
		for i := range own.Len() {
			deepCopy(own.Index(i))
		}
		v.Set(own)
	}
}
