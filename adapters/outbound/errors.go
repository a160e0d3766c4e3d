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
func (f *failure) Timeout() bool {
	e, ok := errors.AsType[net.Error](f.cause)
	return ok && e.Timeout()
}

// failed returns err as a failure. A refusal is returned unchanged.
func failed(err error) error {
	f := &failure{"the connection broke off, or the server does not speak HTTP", err}
	switch {
	case hasType[*refusal](err):
		refused, _ := errors.AsType[*refusal](err)
		return refused
	case errors.Is(err, context.Canceled):
		f.message = context.Canceled.Error()
	case hasType[*http.MaxBytesError](err):
		f.message = "the answer is too long"
	case f.Timeout():
		f.message = "the server did not answer in time"
	case hasType[*net.DNSError](err):
		f.message = "the name of the server could not be resolved"
	case hasType[*tls.CertificateVerificationError](err):
		f.message = "the certificate of the server cannot be verified"
	case hasType[tls.AlertError](err), hasType[tls.RecordHeaderError](err):
		f.message = "TLS could not be agreed on with the server"
	case hasType[syscall.Errno](err):
		errno, _ := errors.AsType[syscall.Errno](err)
		f.message = "the network says: " + errno.Error()
	}
	return f
}

func hasType[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}
