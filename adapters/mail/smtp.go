// Package mail sends e-mail: over SMTP, or into a file in development.
package mail

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	netmail "net/mail"
	"net/textproto"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"

	"collab/domain/fault"
	"collab/domain/mail"
	"collab/ports"

	gomail "github.com/wneessen/go-mail"
)

const (
	capacity       = 256 // messages that wait, for their first attempt or another
	commandTimeout = 15 * time.Second
	attemptTimeout = time.Minute
)

// backoff is how long a message waits after each attempt that failed; after
// the attempt that follows the last of them it is given up.
var backoff = []time.Duration{5 * time.Second, 30 * time.Second, 2 * time.Minute, 10 * time.Minute, 30 * time.Minute}

var _ ports.Mailer = (*SMTP)(nil)

// Options say where to deliver to. The passages of time are injected.
type Options struct {
	// URL is smtp://user:password@host:port or smtps://… (TLS from the start).
	// Smtp uses STARTTLS when the server offers it, always with ?tls=required and
	// never with ?tls=off; a password is never sent in the clear to another machine.
	URL   string
	From  string // an address, with or without a name: Collab <no-reply@example.com>
	Log   *slog.Logger
	Clock ports.Clock

	After   func(time.Duration) <-chan time.Time // nil: time.After
	Backoff []time.Duration                      // nil: over three quarters of an hour
	TLS     *tls.Config                          // nil: the system's authorities
}

// SMTP delivers messages to a mail server, one at a time, in the background.
type SMTP struct {
	Options
	server server
	from   *netmail.Address

	ctx    context.Context // of all attempts
	cancel context.CancelFunc
	wake   chan struct{} // holds one when the queue has changed
	done   chan struct{} // closed when the worker has ended

	mu     sync.Mutex
	queue  []*letter
	closed bool
}

// letter is a message that waits.
type letter struct {
	message  *gomail.Msg
	domain   string // of the recipient, all of it that is logged
	due      time.Time
	attempts int
}

// NewSMTP returns the mailer and starts its worker, which Close ends.
func NewSMTP(o Options) (*SMTP, error) {
	server, err := parseServer(o.URL)
	if err != nil {
		return nil, fmt.Errorf("COLLAB_SMTP_URL: %w", err)
	}
	from, err := netmail.ParseAddress(o.From)
	if err != nil {
		return nil, errors.New("COLLAB_MAIL_FROM: must be an e-mail address")
	}
	if o.After == nil {
		o.After = time.After
	}
	if o.Backoff == nil {
		o.Backoff = backoff
	}
	s := &SMTP{Options: o, server: server, from: from, wake: make(chan struct{}, 1), done: make(chan struct{})}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	go s.work()
	return s, nil
}

// Send takes the message over for delivery. Invalid for a recipient that is
// not an address, Unavailable when too many messages wait or after Close.
func (s *SMTP) Send(_ context.Context, m mail.Message) error {
	err := s.queueUp(m)
	if err != nil {
		s.Log.Error("e-mail not taken", "reason", err)
	}
	return err
}

func (s *SMTP) queueUp(m mail.Message) error {
	l, err := s.letter(m)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || len(s.queue) >= capacity {
		return fault.New(fault.Unavailable, "No more e-mail can be taken at the moment")
	}
	s.queue = append(s.queue, l)
	s.signal()
	return nil
}

func (s *SMTP) letter(m mail.Message) (*letter, error) {
	to, err := recipient(m.To)
	if err != nil {
		return nil, err
	}
	message := gomail.NewMsg(gomail.WithNoDefaultUserAgent())
	message.FromMailAddress(s.from)
	message.ToMailAddress(to)
	// An encoded word in somebody's name would be decoded by the reader.
	message.Subject(strings.ReplaceAll(oneLine(m.Subject), "=?", "= ?"))
	message.SetBodyString(gomail.TypeTextPlain, m.Text)
	message.SetDateWithValue(s.Clock.Now())
	// Ours, because the library's would tell the name of the machine.
	message.SetMessageIDWithValue(rand.Text() + "@" + domain(s.from.Address))
	message.SetGenHeader("Auto-Submitted", "auto-generated")
	return &letter{message: message, domain: domain(to.Address), due: s.Clock.Now()}, nil
}

// recipient reads an address that is nothing but an address.
func recipient(s string) (*netmail.Address, error) {
	a, err := netmail.ParseAddress(s)
	if err != nil || a.Address != s {
		return nil, fault.Field("to", "must be an e-mail address")
	}
	return a, nil
}

func domain(address string) string { return address[strings.LastIndexByte(address, '@')+1:] }

func oneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, s)
}

// Close takes no more messages, tries what waits once more, and returns when
// that is done or ctx is; what is left then is lost, and the error says how
// much that is.
func (s *SMTP) Close(ctx context.Context) error {
	s.mu.Lock()
	s.closed = true
	s.signal()
	s.mu.Unlock()
	select {
	case <-s.done:
	case <-ctx.Done():
		s.cancel()
		<-s.done
	}
	s.cancel()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.queue) > 0 {
		return fmt.Errorf("%d e-mails were not delivered", len(s.queue))
	}
	return nil
}

// signal tells the worker to look at the queue again.
func (s *SMTP) signal() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

func (s *SMTP) work() {
	defer close(s.done)
	for s.ctx.Err() == nil {
		l, wait, end := s.next()
		switch {
		case end:
			return
		case l != nil:
			s.deliver(l)
		case wait > 0:
			select {
			case <-s.wake:
			case <-s.After(wait):
			}
		default:
			<-s.wake
		}
	}
}

// next takes the letter that is due from the queue, or says how long it is
// until one is (zero when there is none), or that the work has ended. Once
// closed, everything is due.
func (s *SMTP) next() (l *letter, wait time.Duration, end bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.queue) == 0 {
		return nil, 0, s.closed
	}
	first := 0
	for i, l := range s.queue {
		if l.due.Before(s.queue[first].due) {
			first = i
		}
	}
	l = s.queue[first]
	if wait = l.due.Sub(s.Clock.Now()); wait > 0 && !s.closed {
		return nil, wait, false
	}
	s.queue = append(s.queue[:first], s.queue[first+1:]...)
	return l, 0, false
}

// deliver makes one attempt, and has the letter wait for another if there is to
// be one.
func (s *SMTP) deliver(l *letter) {
	l.attempts++
	err := s.attempt(l.message)
	log := s.Log.With("domain", l.domain, "attempts", l.attempts)
	if err == nil {
		log.Info("e-mail delivered")
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	cut := s.ctx.Err() != nil // Close counts it
	if again := l.attempts <= len(s.Backoff) && !s.closed; cut || again && !permanent(err) {
		if again {
			l.due = s.Clock.Now().Add(s.Backoff[l.attempts-1])
		}
		s.queue = append(s.queue, l)
		log.Warn("e-mail not delivered yet", "reason", reason(err))
		return
	}
	log.Error("e-mail not delivered", "reason", reason(err))
}

func (s *SMTP) attempt(message *gomail.Msg) error {
	ctx, cancel := context.WithTimeout(s.ctx, attemptTimeout)
	defer cancel()
	client, err := s.server.client(ctx, s.TLS)
	if err != nil {
		return err
	}
	session, err := client.DialToSMTPClientWithContext(ctx)
	if err != nil {
		return err
	}
	if err := client.SendWithSMTPClient(session, message); err != nil && !message.IsDelivered() {
		return err
	}
	// The server has it: whatever goes wrong from here on, it is not sent again.
	_ = client.CloseWithSMTPClient(session)
	return nil
}

// permanent reports whether the server will never take the message.
func permanent(err error) bool {
	var e *gomail.SendError
	return errors.As(err, &e) && e.ErrorCode() >= 500
}

// reason says why an attempt failed, without the addresses that a server's own
// words may hold.
func reason(err error) string {
	var send *gomail.SendError
	var reply *textproto.Error
	var network *net.OpError
	switch {
	case errors.As(err, &send):
		return strings.TrimSpace(fmt.Sprintf("%s: %d %s", send.Reason, send.ErrorCode(), send.EnhancedStatusCode()))
	case errors.As(err, &reply):
		return fmt.Sprintf("the server answers %d", reply.Code)
	case errors.As(err, &network):
		return network.Error()
	}
	return err.Error()
}

// server is where to deliver to, and how.
type server struct {
	host     string
	port     int
	implicit bool // TLS from the start
	policy   gomail.TLSPolicy
	user     string
	password string
}

// parseServer's errors hold nothing of the address, which has the password.
func parseServer(address string) (server, error) {
	u, err := url.Parse(address)
	if err != nil || u.Hostname() == "" || u.Path != "" && u.Path != "/" || u.Fragment != "" {
		return server{}, errors.New("must be smtp://user:password@host:port or smtps://user:password@host:port")
	}
	s := server{host: u.Hostname(), port: 587, policy: gomail.TLSOpportunistic, user: u.User.Username()}
	s.password, _ = u.User.Password()
	switch u.Scheme {
	case "smtp":
	case "smtps":
		s.port, s.implicit = 465, true
	default:
		return server{}, errors.New("must begin with smtp:// or smtps://")
	}
	if text := u.Port(); text != "" {
		if s.port, err = strconv.Atoi(text); err != nil || s.port < 1 || s.port > 65535 {
			return server{}, errors.New("has a port that is not one")
		}
	}
	for name, values := range u.Query() {
		switch value := strings.Join(values, ","); {
		case name == "tls" && value == "required":
			s.policy = gomail.TLSMandatory
		case name == "tls" && value == "off" && !s.implicit:
			s.policy = gomail.NoTLS
		default:
			return server{}, errors.New("knows tls=required and, with smtp://, tls=off as its only parameters")
		}
	}
	return s, nil
}

// client returns a client of the server whose connection ends with ctx, and
// with it whatever the client waits for.
func (s server) client(ctx context.Context, trust *tls.Config) (*gomail.Client, error) {
	if trust == nil {
		trust = &tls.Config{}
	}
	trust = trust.Clone()
	trust.ServerName, trust.MinVersion = s.host, tls.VersionTLS12
	options := []gomail.Option{
		gomail.WithPort(s.port), gomail.WithTimeout(commandTimeout), gomail.WithTLSPolicy(s.policy), gomail.WithTLSConfig(trust),
		gomail.WithDialContextFunc(func(dial context.Context, network, address string) (net.Conn, error) {
			conn, err := new(net.Dialer).DialContext(dial, network, address)
			if err != nil {
				return nil, err
			}
			context.AfterFunc(ctx, func() { _ = conn.Close() })
			if !s.implicit {
				return conn, nil
			}
			secure := tls.Client(conn, trust)
			return secure, secure.HandshakeContext(dial)
		}),
	}
	if s.implicit {
		options = append(options, gomail.WithSSL())
	}
	if s.user != "" {
		// What the library discovers depends on a TLS that it made itself.
		auth := gomail.SMTPAuthAutoDiscover
		if s.implicit || s.policy == gomail.NoTLS {
			auth = gomail.SMTPAuthPlain
		}
		options = append(options, gomail.WithSMTPAuth(auth), gomail.WithUsername(s.user), gomail.WithPassword(s.password))
	}
	return gomail.NewClient(s.host, options...)
}
