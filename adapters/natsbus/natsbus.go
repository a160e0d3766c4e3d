// Package natsbus implements ports.Bus with NATS, without persistence: servers also poll
// the store, so a lost hint delays a change and does not lose it.
package natsbus

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/object"
	"collab/ports"
)

const (
	defaultSubject = "collab.hints" // of hints, unless the address has another
	maxSubject     = 128

	maxQueued  = 1 << 16 // organisations with unsent hints
	maxPending = 1 << 16 // undelivered hints of a subscriber

	connectTimeout = 2 * time.Second // for each server; Open waits no longer
	writeTimeout   = 5 * time.Second // after which a connection is closed
	flushTimeout   = 2 * time.Second
	reconnectWait  = 250 * time.Millisecond
)

// Bus implements ports.Bus with NATS. It publishes on a connection of its own, so that slow
// subscribers do not delay hints.
type Bus struct {
	subject string
	log     *slog.Logger
	out, in *nats.Conn

	mu     sync.Mutex
	queued map[id.Org]int64 // unsent hints: the greatest number of each organisation
	closed bool
	wake   chan struct{} // buffered
	sender sync.WaitGroup

	published, received, dropped, malformed, slow, disconnects atomic.Int64
}

var _ ports.Bus = (*Bus)(nil)

// Stats are counts since a bus was opened.
type Stats struct {
	Published   int64 // hints sent to the server
	Received    int64 // hints received from it, for each subscription
	Dropped     int64 // hints not sent, because no server was connected or too many waited
	Malformed   int64 // messages on the subject that are not hints
	Slow        int64 // times that a slow subscription began to lose messages
	Disconnects int64 // lost connections
}

// Open returns the bus of the servers in the address, one or several of a cluster:
//
//	nats://user:password@host:4222,nats://host2:4222?subject=collab.hints
//	tls://host
//
// Unreachable servers are not an error: they are logged and retried until Close.
func Open(address string, log *slog.Logger) (*Bus, error) {
	servers, subject, err := parse(address)
	if err != nil {
		return nil, err
	}
	b := &Bus{subject: subject, log: log, queued: map[id.Org]int64{}, wake: make(chan struct{}, 1)}
	if b.out, err = b.connect(servers, "publishing"); err != nil {
		return nil, err
	}
	if b.in, err = b.connect(servers, "subscribing"); err != nil {
		b.out.Close()
		return nil, err
	}
	b.sender.Go(b.send)
	return b, nil
}

// CheckAddress returns an error unless Open understands the address. It connects to nothing.
func CheckAddress(address string) error {
	_, _, err := parse(address)
	return err
}

// parse parses an address. Its errors do not quote the address, which may have a password.
func parse(address string) (servers, subject string, err error) {
	servers, query, _ := strings.Cut(address, "?")
	values, err := url.ParseQuery(query)
	if err != nil {
		return "", "", errors.New("has parameters that cannot be read")
	}
	for name := range values {
		if name != "subject" {
			return "", "", fmt.Errorf("has the parameter %q, which is none of: subject", name)
		}
	}
	for server := range strings.SplitSeq(servers, ",") {
		u, err := url.Parse(server)
		if err != nil || u.Scheme != "nats" && u.Scheme != "tls" || u.Hostname() == "" || u.Path != "" && u.Path != "/" {
			return "", "", errors.New("must be nats:// or tls:// and a host, or several such with commas between them")
		}
	}
	subject = cmp.Or(values.Get("subject"), defaultSubject)
	for token := range strings.SplitSeq(subject, ".") {
		if token == "" || strings.Trim(token, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_") != "" || len(subject) > maxSubject {
			return "", "", fmt.Errorf("subject must be words of letters, digits, - and _ with dots between them, at most %d bytes", maxSubject)
		}
	}
	return servers, subject, nil
}

// connect opens one of the two connections.
func (b *Bus) connect(servers, purpose string) (*nats.Conn, error) {
	log := b.log.With("bus", purpose)
	conn, err := nats.Connect(servers,
		nats.Name("collab "+purpose),
		nats.Timeout(connectTimeout),
		nats.FlusherTimeout(writeTimeout),
		nats.PingInterval(10*time.Second),
		nats.RetryOnFailedConnect(true),
		nats.MaxReconnects(-1),
		nats.IgnoreAuthErrorAbort(), // permissions may be restored
		nats.ReconnectWait(reconnectWait),
		nats.ReconnectJitter(reconnectWait, reconnectWait),
		nats.ReconnectBufSize(-1), // hints become stale
		nats.ConnectHandler(func(c *nats.Conn) { log.Info("bus connected", "server", c.ConnectedUrlRedacted()) }),
		nats.ReconnectHandler(func(c *nats.Conn) { log.Info("bus reconnected", "server", c.ConnectedUrlRedacted()) }),
		nats.DisconnectErrHandler(func(c *nats.Conn, err error) {
			if !c.IsClosed() {
				b.disconnects.Add(1)
				log.Warn("bus disconnected", "reason", err)
			}
		}),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			if errors.Is(err, nats.ErrSlowConsumer) {
				b.slow.Add(1)
				log.Warn("bus subscriber too slow")
				return
			}
			log.Warn("bus error", "reason", err)
		}),
	)
	if err != nil {
		return nil, fmt.Errorf("connecting to NATS: %w", err)
	}
	if !conn.IsConnected() {
		log.Warn("bus unreachable")
	}
	return conn, nil
}

// Publish queues the hint. It drops the hint if too many organisations have unsent ones.
func (b *Bus) Publish(h object.Hint) {
	b.mu.Lock()
	n, ok := b.queued[h.Org]
	if b.closed || !ok && len(b.queued) >= maxQueued {
		b.mu.Unlock()
		b.dropped.Add(1)
		return
	}
	b.queued[h.Org] = max(n, h.N)
	b.mu.Unlock()
	b.signal()
}

// signal wakes send.
func (b *Bus) signal() {
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

// send publishes queued hints until the bus is closed.
func (b *Bus) send() {
	for range b.wake {
		b.mu.Lock()
		queued, closed := b.queued, b.closed
		b.queued = map[id.Org]int64{}
		b.mu.Unlock()
		for o, n := range queued {
			message, ok := encode(object.Hint{Org: o, N: n})
			if ok && b.out.IsConnected() && b.out.Publish(b.subject, message) == nil {
				b.published.Add(1)
			} else {
				b.dropped.Add(1)
			}
		}
		if closed {
			return
		}
	}
}

// Subscribe calls fn in a goroutine of its own. Cancel waits for a running call of fn, so
// fn must not call it.
func (b *Bus) Subscribe(fn func(object.Hint)) (cancel func(), err error) {
	var mu sync.Mutex
	cancelled := false // guarded by calling
	s, err := b.in.Subscribe(b.subject, func(m *nats.Msg) {
		h, ok := decode(m.Data)
		if !ok {
			b.malformed.Add(1)
			return
		}
		b.received.Add(1)
		mu.Lock()
		defer mu.Unlock()
		if !cancelled {
			fn(h)
		}
	})
	if err != nil {
		return nil, unavailable(err)
	}
	if err := s.SetPendingLimits(maxPending, maxPending*maxHint); err != nil {
		return nil, errors.Join(unavailable(err), s.Unsubscribe())
	}
	// After the flush a connected server delivers hints.
	if b.in.IsConnected() {
		if err := b.in.FlushTimeout(flushTimeout); err != nil {
			b.log.Warn("bus subscription delayed", "reason", err)
		}
	}
	return func() {
		// The only error is a closed subscription or connection.
		_ = s.Unsubscribe()
		mu.Lock()
		defer mu.Unlock()
		cancelled = true
	}, nil
}

func unavailable(cause error) error {
	return fault.Wrap(fault.Unavailable, cause, "The bus does not answer")
}

// Stats returns the counts of the bus.
func (b *Bus) Stats() Stats {
	return Stats{
		Published: b.published.Load(), Received: b.received.Load(), Dropped: b.dropped.Load(),
		Malformed: b.malformed.Load(), Slow: b.slow.Load(), Disconnects: b.disconnects.Load(),
	}
}

// Close publishes queued hints if the bus is connected, and closes both connections and all
// subscriptions.
func (b *Bus) Close() error {
	b.mu.Lock()
	closed := b.closed
	b.closed = true
	b.mu.Unlock()
	if closed {
		return nil
	}
	b.signal()
	b.sender.Wait()
	var err error
	if b.out.IsConnected() {
		err = b.out.FlushTimeout(flushTimeout)
	}
	b.out.Close()
	b.in.Close()
	if err != nil {
		return unavailable(err)
	}
	return nil
}
