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

// refusal is the error for an address that is not called.
type refusal struct{ message string }

func (r *refusal) Error() string { return r.message }

func refuse(message string) error { return &refusal{message} }

// Blocked reports whether a call failed because its address, or one of a redirect, is
// refused. Retrying is useless.
func Blocked(err error) bool {
	u, ok := errors.AsType[*url.Error](err)
	return is[*refusal](err) || ok && u.Op == "parse"
}

// Cause returns the error below a *url.Error, whose text has the URL with its query. Causes
// of the clients' errors contain neither the URL, but perhaps its host, nor text of the
// server.
func Cause(err error) error {
	u, ok := errors.AsType[*url.Error](err)
	switch {
	case !ok:
		return err
	case u.Op == "parse": // what is under this one may quote a password
		return refuse("The address cannot be read")
	}
	return u.Err
}

// failure is the error of a failed call. Its text has nothing of the cause, which may
// contain text of the server.
type failure struct {
	what  string
	cause error
}

func (f *failure) Error() string { return f.what }
func (f *failure) Unwrap() error { return f.cause }

// Timeout is what url.Error.Timeout asks.
func (f *failure) Timeout() bool {
	e, ok := errors.AsType[net.Error](f.cause)
	return ok && e.Timeout()
}

// failed returns err as a failure. A refusal is returned unchanged.
func failed(err error) error {
	f := &failure{"the connection broke off, or the server does not speak HTTP", err}
	switch {
	case is[*refusal](err):
		refused, _ := errors.AsType[*refusal](err)
		return refused
	case errors.Is(err, context.Canceled):
		f.what = context.Canceled.Error()
	case is[*http.MaxBytesError](err):
		f.what = "the answer is too long"
	case f.Timeout():
		f.what = "the server did not answer in time"
	case is[*net.DNSError](err):
		f.what = "the name of the server could not be resolved"
	case is[*tls.CertificateVerificationError](err):
		f.what = "the certificate of the server cannot be verified"
	case is[tls.AlertError](err), is[tls.RecordHeaderError](err):
		f.what = "TLS could not be agreed on with the server"
	case is[syscall.Errno](err):
		errno, _ := errors.AsType[syscall.Errno](err)
		f.what = "the network says: " + errno.Error()
	}
	return f
}

func is[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}
