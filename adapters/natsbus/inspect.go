package natsbus

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"collab/adapters/inspect"
	"collab/domain/fault"
)

// Inspect connects to each of the servers at the address and sends a message from the first
// to all of them, on an unused subject below that of hints.
func Inspect(ctx context.Context, address string) (f inspect.Findings) {
	servers, roundTrip, err := probe(ctx, address)
	switch {
	case err == nil:
		f.OK("%s: a message is there and back in %s", strings.Join(servers, ", "), inspect.Milliseconds(roundTrip))
	case fault.Is(err, fault.Forbidden):
		f.Note("allow it to publish and subscribe to that of the hints (collab.hints, or what the address says) "+
			"and those below it (….>)", "no message was tried").Err = err
	case fault.Is(err, fault.Unauthenticated):
		f.Wrong("set the right user and password, or token, in COLLAB_BUS_URL", "").Err = err
	default:
		f.Wrong("start it, let this machine reach it, or set COLLAB_BUS_URL; "+
			"until then servers hear of each other's changes a second late", "").Err = err
	}
	return f
}

// probe returns the servers, without credentials, and the time from sending the message until
// all have delivered it. It returns Forbidden if the user may not use the subject,
// Unauthenticated if a server refuses the user, and Unavailable otherwise.
func probe(ctx context.Context, address string) (servers []string, roundTrip time.Duration, err error) {
	urls, subject, err := parse(address)
	if err != nil {
		return nil, 0, fault.Wrap(fault.Invalid, err, "The address of the bus is not one")
	}
	subject += ".doctor." + rand.Text()
	var subscriptions []*nats.Subscription
	var sender *nats.Conn
	for i, server := range strings.Split(urls, ",") {
		conn, err := nats.Connect(server,
			nats.Name("collab doctor"), nats.Timeout(connectTimeout), nats.NoReconnect(), nats.IgnoreDiscoveredServers())
		switch {
		case errors.Is(err, nats.ErrAuthorization):
			return servers, 0, fault.Wrap(fault.Unauthenticated, err, "Server %d of the bus does not let the user in", i+1)
		case err != nil:
			return servers, 0, fault.Wrap(fault.Unavailable, err, "Server %d of the bus does not answer", i+1)
		}
		defer conn.Close()
		servers = append(servers, conn.ConnectedUrlRedacted())
		s, err := conn.SubscribeSync(subject)
		if err == nil {
			err = conn.FlushWithContext(ctx)
		}
		if err == nil {
			err = conn.LastError() // a permission error arrives before the response to the flush
		}
		if err != nil {
			return servers, 0, subjectError(subject, err)
		}
		subscriptions = append(subscriptions, s)
		if sender == nil {
			sender = conn
		}
	}
	sent := time.Now()
	err = sender.Publish(subject, []byte("collab doctor"))
	if err == nil {
		err = sender.FlushWithContext(ctx)
	}
	if err == nil {
		err = sender.LastError()
	}
	if err != nil {
		return servers, 0, subjectError(subject, err)
	}
	for i, s := range subscriptions {
		if _, err := s.NextMsgWithContext(ctx); err != nil {
			return servers, 0, fault.Wrap(fault.Unavailable, err, "A message of server 1 of the bus does not arrive at server %d", i+1)
		}
	}
	return servers, time.Since(sent), nil
}

// subjectError returns the error for one of a request on the subject.
func subjectError(subject string, err error) error {
	if errors.Is(err, nats.ErrPermissionViolation) {
		return fault.Wrap(fault.Forbidden, err, "The user may not use the subject %s", subject)
	}
	return unavailable(fmt.Errorf("request to the server: %w", err))
}
