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
	"time"
	"unicode"

	"collab/adapters/retryqueue"
	"collab/domain/fault"
	"collab/domain/mail"
	"collab/ports"

	gomail "github.com/wneessen/go-mail"
)

const (
	capacity       = 256 // messages in the queue
	commandTimeout = 15 * time.Second
	attemptTimeout = time.Minute
)

// backoff has the delays before the retries of a message, which is dropped after the last.
var backoff = []time.Duration{5 * time.Second, 30 * time.Second, 2 * time.Minute, 10 * time.Minute, 30 * time.Minute}

var _ ports.Mailer = (*SMTP)(nil)

// Options configure NewSMTP.
type Options struct {
	// URL is smtp://user:password@host:port or smtps://… (TLS from the start).
	// With smtp, STARTTLS is used if the server offers it, always with ?tls=required and
	// never with ?tls=off. A password is never sent unencrypted to another machine.
	URL   string
	From  string // an address, with or without a name: Collab <no-reply@example.com>
	Log   *slog.Logger
	Clock ports.Clock

	After   func(time.Duration) <-chan time.Time // nil: time.After
	Backoff []time.Duration                      // nil: 42 minutes in all
	TLS     *tls.Config                          // nil: the system's root certificates
}

// SMTP delivers messages to a mail server in the background, one at a time.
type SMTP struct {
	Options
	server server
	from   *netmail.Address
	queue  *retryqueue.Queue[delivery]
}

// delivery is a message in the queue.
type delivery struct {
	message *gomail.Msg
	domain  string // of the recipient, for the log
}

// NewSMTP starts a worker, which Close stops.
func NewSMTP(o Options) (*SMTP, error) {
	server, err := parseServer(o.URL)
	if err != nil {
		return nil, fmt.Errorf("COLLAB_SMTP_URL: %w", err)
	}
	from, err := parseSender(o.From)
	if err != nil {
		return nil, fmt.Errorf("COLLAB_MAIL_FROM: %w", err)
	}
	if o.Backoff == nil {
		o.Backoff = backoff
	}
	s := &SMTP{Options: o, server: server, from: from}
	s.queue = retryqueue.New(retryqueue.Options[delivery]{
		Capacity: capacity, Batch: 1, Backoff: o.Backoff, Now: o.Clock.Now, After: o.After,
		Deliver: s.deliver, Report: s.report,
	})
	return s, nil
}

// CheckServer returns an error unless an address is one of a mail server.
func CheckServer(address string) error {
	_, err := parseServer(address)
	return err
}

// CheckSender returns an error unless a sender has an e-mail address.
func CheckSender(from string) error {
	_, err := parseSender(from)
	return err
}

func parseSender(from string) (*netmail.Address, error) {
	a, err := netmail.ParseAddress(from)
	if err != nil {
		return nil, errors.New("must be an e-mail address")
	}
	return a, nil
}

// Send queues the message. It returns Invalid if the recipient is not an address, and
// Unavailable if the queue is full or closed.
func (s *SMTP) Send(_ context.Context, m mail.Message) error {
	err := s.enqueue(m)
	if err != nil {
		s.Log.Error("e-mail not queued", "reason", err)
	}
	return err
}

func (s *SMTP) enqueue(m mail.Message) error {
	d, err := s.newDelivery(m)
	if err == nil && !s.queue.Add(d) {
		err = fault.New(fault.Unavailable, "E-mail cannot be queued at the moment")
	}
	return err
}

func (s *SMTP) newDelivery(m mail.Message) (delivery, error) {
	to, err := recipient(m.To)
	if err != nil {
		return delivery{}, err
	}
	message := gomail.NewMsg(gomail.WithNoDefaultUserAgent())
	message.FromMailAddress(s.from)
	message.ToMailAddress(to)
	// The recipient's client must not decode an encoded word in a name.
	message.Subject(strings.ReplaceAll(oneLine(m.Subject), "=?", "= ?"))
	message.SetBodyString(gomail.TypeTextPlain, m.Text)
	message.SetDateWithValue(s.Clock.Now())
	// The library's default contains the machine's name.
	message.SetMessageIDWithValue(rand.Text() + "@" + domain(s.from.Address))
	message.SetGenHeader("Auto-Submitted", "auto-generated")
	return delivery{message, domain(to.Address)}, nil
}

// recipient parses an address without a display name.
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

// Close tries to deliver each queued message once more, until ctx ends, and stops the
// worker. The error has the number of lost messages.
func (s *SMTP) Close(ctx context.Context) error {
	if left := s.queue.Close(ctx); left > 0 {
		return fmt.Errorf("%d e-mails were not delivered", left)
	}
	return nil
}

func (s *SMTP) deliver(ctx context.Context, batch []delivery) retryqueue.Result {
	err := s.attempt(ctx, batch[0].message)
	return retryqueue.Result{Err: err, Permanent: permanent(err)}
}

func (s *SMTP) report(batch []delivery, attempts int, err error, willRetry bool) {
	log := s.Log.With("domain", batch[0].domain, "attempts", attempts)
	switch {
	case err == nil:
		log.Info("e-mail delivered")
	case willRetry:
		log.Warn("e-mail delivery deferred", "reason", reason(err))
	default:
		log.Error("e-mail delivery failed", "reason", reason(err))
	}
}

func (s *SMTP) attempt(ctx context.Context, message *gomail.Msg) error {
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
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
	// The server has accepted the message: later errors do not matter.
	_ = client.CloseWithSMTPClient(session)
	return nil
}

// permanent reports whether retrying is useless.
func permanent(err error) bool {
	var e *gomail.SendError
	return errors.As(err, &e) && e.ErrorCode() >= 500
}

// reason returns the cause of a failed attempt without text of the server, which may have
// addresses in it.
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

// server is a parsed Options.URL.
type server struct {
	host     string
	port     int
	implicit bool // TLS from the start
	policy   gomail.TLSPolicy
	user     string
	password string
}

// parseServer parses Options.URL. Its errors do not contain the address, which has the
// password.
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

// client returns a client of the server, whose connection is closed when ctx ends. A nil config
// has the system's root certificates.
func (s server) client(ctx context.Context, config *tls.Config) (*gomail.Client, error) {
	if config == nil {
		config = &tls.Config{}
	}
	config = config.Clone()
	config.ServerName, config.MinVersion = s.host, tls.VersionTLS12
	options := []gomail.Option{
		gomail.WithPort(s.port), gomail.WithTimeout(commandTimeout), gomail.WithTLSPolicy(s.policy), gomail.WithTLSConfig(config),
		gomail.WithDialContextFunc(func(dial context.Context, network, address string) (net.Conn, error) {
			conn, err := new(net.Dialer).DialContext(dial, network, address)
			if err != nil {
				return nil, err
			}
			context.AfterFunc(ctx, func() { _ = conn.Close() })
			if !s.implicit {
				return conn, nil
			}
			tlsConn := tls.Client(conn, config)
			return tlsConn, tlsConn.HandshakeContext(dial)
		}),
	}
	if s.implicit {
		options = append(options, gomail.WithSSL())
	}
	if s.user != "" {
		// Auto-discovery considers only TLS that the library has set up itself.
		auth := gomail.SMTPAuthAutoDiscover
		if s.implicit || s.policy == gomail.NoTLS {
			auth = gomail.SMTPAuthPlain
		}
		options = append(options, gomail.WithSMTPAuth(auth), gomail.WithUsername(s.user), gomail.WithPassword(s.password))
	}
	return gomail.NewClient(s.host, options...)
}
