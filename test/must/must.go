// Package must ends tests on errors that they do not expect, and fails them without
// errors that they do. It also has what tests of many packages need.
package must

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/go-cmp/cmp"

	"collab/domain/fault"
)

// T is a test, a benchmark, a case of a property or a fixture with one of them.
type T interface {
	Helper()
	Errorf(format string, args ...any)
	Fatal(args ...any)
}

// NoError ends the test if err is not nil.
func NoError(t T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Succeed fails the test if err is not nil. The test continues, so that any goroutine may call it.
func Succeed(t T, err error) {
	t.Helper()
	if err != nil {
		t.Errorf("%v", err)
	}
}

// FailIs fails the test unless err is, or wraps, the target. The test continues.
func FailIs(t T, err, target error) {
	t.Helper()
	if !errors.Is(err, target) {
		t.Errorf("the error is %v, want %v", err, target)
	}
}

// Fail fails the test unless err is of the kind. The test continues.
func Fail(t T, err error, kind fault.Kind) {
	t.Helper()
	if err == nil || !fault.Is(err, kind) {
		t.Errorf("the error is %v of kind %d, want kind %d", err, fault.KindOf(err), kind)
	}
}

// Equal fails the test unless got equals want. The test continues.
func Equal[V any](t T, want, got V, options ...cmp.Option) {
	t.Helper()
	if diff := cmp.Diff(want, got, options...); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Is fails the test unless got is want. The test continues.
func Is[V comparable](t T, want, got V) {
	t.Helper()
	if got != want {
		t.Errorf("got %#v, want %#v", got, want)
	}
}

// Outcome is the result of a call.
type Outcome[V any] struct {
	value V
	err   error
}

// Do returns the outcome of a call that has to succeed.
func Do[V any](v V, err error) Outcome[V] { return Outcome[V]{v, err} }

// Or returns the value, or ends the test on an error.
func (o Outcome[V]) Or(t T) V {
	t.Helper()
	NoError(t, o.err)
	return o.value
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

// Wait waits until is returns true. It ends the test after a minute.
func Wait(t T, about string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("timed out waiting until " + about)
		}
	}
}

// Sum returns the SHA-256 of content in hexadecimal digits.
func Sum[C string | []byte](content C) string {
	return fmt.Sprintf("%x", sha256.Sum256([]byte(content)))
}

// Log is a buffer for concurrent use.
type Log struct {
	mu   sync.Mutex
	text strings.Builder // guarded by mu
}

func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// String returns what has been written so far.
func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// Full returns v. It panics if a field of v, or of a struct that a field is or points to, is zero,
// unless it is one of unset. Fixtures that are compared with what a mapping returns are full, so
// that a field that is added and not mapped is noticed.
func Full[V any](v V, unset ...string) V {
	if zero := zeroFields(reflect.ValueOf(v), unset); len(zero) > 0 {
		panic(fmt.Sprintf("%T has no %s", v, strings.Join(zero, ", ")))
	}
	return v
}

func zeroFields(v reflect.Value, unset []string) (names []string) {
	for field, value := range v.Fields() {
		switch inner := reflect.Indirect(value); {
		case slices.Contains(unset, field.Name):
		case value.IsZero():
			names = append(names, field.Name)
		case inner.Kind() == reflect.Struct && inner.NumField() > 0 && inner.Type().Field(0).IsExported():
			names = append(names, zeroFields(inner, unset)...)
		}
	}
	return names
}
