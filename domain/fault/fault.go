// Package fault defines the errors of the core: a kind that callers branch on,
// a message that is safe to show to users, and a cause for the log.
package fault

import (
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
)

// Kind classifies an error by what its caller can do about it.
type Kind uint8

// The kinds. Internal is the zero value: an error without a kind.
const (
	Internal        Kind = iota
	Invalid              // the input breaks a rule; Field names which part of it
	Unauthenticated      // no credentials, or credentials that do not verify
	Forbidden            // the caller is known and may not do this
	NotFound             // there is no such record for this caller
	Gone                 // it existed and was removed
	Conflict             // the present state does not allow it
	Stale                // a precondition named an older version
	Mismatch             // the same idempotency key came with another request
	TooLarge             // the input is over a size limit
	Unsupported          // the content type is not one we read
	Limited              // too many requests; RetryAfter says when to retry
	Unavailable          // a dependency does not answer
)

// Problem is one thing that is wrong with one field of an input.
type Problem struct {
	Field   string
	Message string
}

// Error is the error type of the core. Message is one sentence and
// never holds secrets or inner details; Cause is for the log alone.
type Error struct {
	Kind     Kind
	Message  string
	Problems []Problem // all that was found, for Invalid; the first is in Message
	Cause    error
	// RetryAfter is in whole seconds, for Limited and Unavailable; zero if unknown.
	RetryAfter int
}

func (e *Error) Error() string {
	if e.Cause != nil {
		return e.Message + ": " + e.Cause.Error()
	}
	return e.Message
}

func (e *Error) Unwrap() error { return e.Cause }

// RetryIn sets RetryAfter and returns the error.
func (e *Error) RetryIn(seconds int) *Error {
	e.RetryAfter = seconds
	return e
}

// New makes an error of the given kind with a message for people.
func New(kind Kind, format string, args ...any) *Error {
	return &Error{Kind: kind, Message: fmt.Sprintf(format, args...)}
}

// Wrap makes an error of the given kind that keeps its cause for the log.
func Wrap(kind Kind, cause error, format string, args ...any) *Error {
	return &Error{Kind: kind, Message: fmt.Sprintf(format, args...), Cause: cause}
}

// Field makes an Invalid error about one field.
func Field(field, format string, args ...any) *Error {
	message := fmt.Sprintf(format, args...)
	return &Error{Kind: Invalid, Message: field + " " + message, Problems: []Problem{{field, message}}}
}

// Missing returns the NotFound error for a kind of record, such as "Task".
func Missing(kind string) *Error {
	return New(NotFound, "%s not found", kind)
}

// KindOf returns the kind of the first Error in err's chain, Internal if none.
func KindOf(err error) Kind {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Kind
	}
	return Internal
}

// Is reports whether err is of one of the kinds.
func Is(err error, kinds ...Kind) bool {
	return err != nil && slices.Contains(kinds, KindOf(err))
}

// Catch calls fn and returns its error. If fn panics, it returns an Internal error with the panic and its
// stack, so that a goroutine without a caller that recovers does not end the process.
func Catch(fn func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	return fn()
}

// WithCause returns err with the cause of the first Error in its chain in the text, for commands,
// whose users are the operators.
func WithCause(err error) error {
	if e, ok := errors.AsType[*Error](err); ok && e.Cause != nil {
		return fmt.Errorf("%w (%v)", err, e.Cause)
	}
	return err
}
