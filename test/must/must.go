// Package must ends tests on errors that they do not expect.
package must

// T is a test, a benchmark, a case of a property or a fixture with one of them.
type T interface {
	Helper()
	Fatal(args ...any)
}

// NoError ends the test if err is not nil.
func NoError(t T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Get returns v. It panics if err is not nil.
func Get[V any](v V, err error) V {
	if err != nil {
		panic(err)
	}
	return v
}

// ErrorOf returns the error of a call that has another result.
func ErrorOf[V any](_ V, err error) error { return err }
