package outbound

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/url"
	"syscall"
)

// refusal is the error for a blocked address.
type refusal struct{ message string }

func (r *refusal) Error() string { return r.message }

func refuse(message string) error { return &refusal{message} }

// Blocked reports whether a call failed because its address, or one of a redirect, is
// blocked. Retrying is useless.
func Blocked(err error) bool {
	u, ok := errors.AsType[*url.Error](err)
	return hasType[*refusal](err) || ok && u.Op == "parse"
}

// failure is the error of a failed call. Its text omits the cause, which may contain text of
// the server.
type failure struct {
	message string
	cause   error
}

func (f *failure) Error() string { return f.message }
func (f *failure) Unwrap() error { return f.cause }

// Timeout implements the interface that url.Error.Timeout uses.
func (f *failure) Timeout() bool { return IsTimeout(f.cause) }

// failed returns err as a failure. A refusal is returned unchanged.
func failed(err error) error {
	if refused, ok := errors.AsType[*refusal](err); ok {
		return refused
	}
	return &failure{Reason(err), err}
}

// Reason returns why a call failed. Errors of net/http contain URLs and text of servers; the
// reason does not.
func Reason(err error) string {
	if f, ok := errors.AsType[*failure](err); ok {
		return f.message
	}
	switch {
	case errors.Is(err, context.Canceled):
		return context.Canceled.Error()
	case hasType[*http.MaxBytesError](err):
		return "the answer is too long"
	case IsTimeout(err):
		return "the server did not answer in time"
	case hasType[*net.DNSError](err):
		return "the name of the server could not be resolved"
	case hasType[*tls.CertificateVerificationError](err):
		return "the certificate of the server cannot be verified"
	case hasType[tls.AlertError](err), hasType[tls.RecordHeaderError](err):
		return "TLS handshake failed"
	}
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		return "the network says: " + errno.Error()
	}
	return "the connection broke off, or the server does not speak HTTP"
}

// IsTimeout reports whether a call failed because it took too long.
func IsTimeout(err error) bool {
	e, ok := errors.AsType[net.Error](err)
	return ok && e.Timeout()
}

func hasType[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}
