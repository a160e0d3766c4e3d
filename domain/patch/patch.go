// Package patch distinguishes the three states of a field in a partial update (RFC 7396):
// absent, null, and a value.
package patch

// Field is one field of a partial update. The zero value is absent.
type Field[T any] struct {
	present bool
	null    bool
	value   T
}

// Value returns a field that was sent with a value.
func Value[T any](v T) Field[T] { return Field[T]{present: true, value: v} }

// Null returns a field that was sent as an explicit null, which clears it.
func Null[T any]() Field[T] { return Field[T]{present: true, null: true} }

// Present reports whether the field was sent at all.
func (f Field[T]) Present() bool { return f.present }

// IsNull reports whether the field was sent as null.
func (f Field[T]) IsNull() bool { return f.null }

// Get returns the value; ok is false when the field is absent or null.
func (f Field[T]) Get() (v T, ok bool) { return f.value, f.present && !f.null }

// Over returns the value after the update: absent keeps current, null clears it.
func (f Field[T]) Over(current *T) *T {
	switch {
	case !f.present:
		return current
	case f.null:
		return nil
	}
	return new(f.value)
}
