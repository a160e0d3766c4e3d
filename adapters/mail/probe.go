package mail

import (
	"context"
	"errors"
	"fmt"
	netmail "net/mail"
	"net/textproto"

	"collab/domain/fault"
)

// Probe connects to the server as a delivery does, signs in, and leaves without
// a message. It reports whether the connection was encrypted. Invalid for
// options that make no sense, Unauthenticated when the server does not take the
// user, Unavailable when it does not answer as it must.
func Probe(ctx context.Context, o Options) (encrypted bool, err error) {
	s, err := parseServer(o.URL)
	if err != nil {
		return false, fault.Wrap(fault.Invalid, err, "COLLAB_SMTP_URL")
	}
	if _, err := netmail.ParseAddress(o.From); err != nil {
		return false, fault.New(fault.Invalid, "COLLAB_MAIL_FROM: must be an e-mail address")
	}
	client, err := s.client(ctx, o.TLS)
	if err != nil {
		return false, fault.Wrap(fault.Unavailable, errors.New(reason(err)), "The mail server cannot be asked")
	}
	session, err := client.DialToSMTPClientWithContext(ctx)
	if err != nil {
		return false, probeFault(ctx, err)
	}
	_, encrypted = session.TLSConnectionState()
	_ = client.CloseWithSMTPClient(session)
	return encrypted || s.implicit, nil
}

func probeFault(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	var reply *textproto.Error
	if errors.As(err, &reply) {
		switch reply.Code {
		case 530, 534, 535:
			return fault.Wrap(fault.Unauthenticated, fmt.Errorf("it answers %d", reply.Code), "The mail server does not take the user and password")
		}
	}
	return fault.Wrap(fault.Unavailable, errors.New(reason(err)), "The mail server does not answer as it must")
}
