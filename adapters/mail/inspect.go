package mail

import (
	"context"
	"errors"
	"net/textproto"

	"collab/adapters/inspect"
	"collab/adapters/loopback"
)

// Inspect connects to the server and signs in as a delivery does, without sending a message.
// Host is the server's name in the findings.
func Inspect(ctx context.Context, o Options, host string) (f inspect.Findings) {
	s, err := parseServer(o.URL)
	if err != nil {
		f.Wrong("correct it", "COLLAB_SMTP_URL").Err = err
		return f
	}
	encrypted, err := s.signIn(ctx, o)
	reply, answered := errors.AsType[*textproto.Error](err)
	switch {
	case ctx.Err() != nil:
		f.Wrong(reachRemedy, "%s", host).Err = ctx.Err()
	case answered && (reply.Code == 530 || reply.Code == 534 || reply.Code == 535):
		f.Wrong("set the right user and password in COLLAB_SMTP_URL",
			"%s: the mail server does not take the user and password: it answers %d", host, reply.Code)
	case err != nil:
		f.Wrong(reachRemedy, "%s: the mail server does not answer as it must", host).Err = errors.New(reason(err))
	case !encrypted && !loopback.IsHost(s.host):
		f.Risk("add ?tls=required to COLLAB_SMTP_URL, or use smtps://",
			"%s takes e-mail without encryption: invitation links can be read on the network", host)
	default:
		f.OK("%s takes e-mail of %s", host, o.From)
	}
	return f
}

const reachRemedy = "let this machine reach it, or set COLLAB_SMTP_URL " +
	"(smtps:// for TLS from the start, usually at port 465)"

// signIn opens a session and closes it. It reports whether the connection was encrypted.
func (s server) signIn(ctx context.Context, o Options) (encrypted bool, err error) {
	client, err := s.client(ctx, o.TLS)
	if err != nil {
		return false, err
	}
	session, err := client.DialToSMTPClientWithContext(ctx)
	if err != nil {
		return false, err
	}
	_, encrypted = session.TLSConnectionState()
	_ = client.CloseWithSMTPClient(session)
	return encrypted || s.implicit, nil
}
