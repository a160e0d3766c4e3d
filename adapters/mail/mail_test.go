package mail_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"io"
	"log/slog"
	"mime"
	"mime/quotedprintable"
	"net/textproto"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode"

	"collab/adapters/mail"
	"collab/domain/fault"
	message "collab/domain/mail"
	"collab/test/mailserver"
	"collab/test/must"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// clock advances with each call of after.
type clock struct {
	mu    sync.Mutex
	now   time.Time
	waits []time.Duration
}

func newClock() *clock { return &clock{now: time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)} }

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) after(d time.Duration) <-chan time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
	c.waits = append(c.waits, d)
	ch := make(chan time.Time, 1)
	ch <- c.now
	return ch
}

func logger(l *must.Log) *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

func options(s *mailserver.Server, c *clock, l *must.Log) mail.Options {
	scheme := "smtp://"
	if s.Implicit {
		scheme = "smtps://"
	}
	return mail.Options{URL: scheme + s.Addr().String(), From: "Collab <no-reply@collab.example.com>", Log: logger(l), Clock: c, After: c.after, TLS: s.Trust}
}

func start(t *testing.T, o mail.Options) *mail.SMTP {
	t.Helper()
	return must.Do(mail.NewSMTP(o)).Or(t)
}

func send(t *testing.T, m *mail.SMTP, to string) {
	t.Helper()
	must.NoError(t, m.Send(context.Background(), message.Message{To: to, Subject: "Join Engines", Text: "https://app.example.com/invite?token=secret-token\n"}))
}

func stop(t *testing.T, m *mail.SMTP) {
	t.Helper()
	must.NoError(t, m.Close(context.Background()))
}

func TestAMessageArrivesUnchanged(t *testing.T) {
	s, l := mailserver.Start(t), &must.Log{}
	m := start(t, options(s, newClock(), l))
	sent := message.Message{To: "grace@example.org", Subject: "Join Zürich Engines on Collab", Text: "Hello Grace,\n.\nfrom Zürich: " + strings.Repeat("long ", 40) + "\n..\n"}
	must.NoError(t, m.Send(context.Background(), sent))
	got := <-s.Received
	stop(t, m)
	if got.From != "FROM:<no-reply@collab.example.com>" && !strings.HasPrefix(got.From, "FROM:<no-reply@collab.example.com> ") || got.To != "TO:<grace@example.org>" {
		t.Errorf("from %s to %s", got.From, got.To)
	}
	header := headerOf(t, got.Text)
	subject, err := new(mime.WordDecoder).DecodeHeader(header.Get("Subject"))
	if err != nil || subject != sent.Subject {
		t.Errorf("the subject is %q, %v", subject, err)
	}
	for name, want := range map[string]string{
		"From": `"Collab" <no-reply@collab.example.com>`, "To": "<grace@example.org>", "Date": "Wed, 04 Mar 2026 05:06:07 +0000", "Auto-Submitted": "auto-generated",
		"Content-Type": "text/plain; charset=UTF-8", "User-Agent": "", "X-Mailer": "",
	} {
		if header.Get(name) != want {
			t.Errorf("%s is %q, want %q", name, header.Get(name), want)
		}
	}
	if id := header.Get("Message-Id"); !strings.HasSuffix(id, "@collab.example.com>") {
		t.Errorf("the message's id is %s", id)
	}
	_, body, _ := strings.Cut(got.Text, "\n\n")
	text, err := io.ReadAll(quotedprintable.NewReader(strings.NewReader(body)))
	if err != nil || strings.TrimRight(strings.ReplaceAll(string(text), "\r\n", "\n"), "\n") != strings.TrimRight(sent.Text, "\n") {
		t.Errorf("the text is %q, %v", text, err)
	}
	if log := l.String(); !strings.Contains(log, "domain=example.org") || strings.Contains(log, "grace") || strings.Contains(log, "Engines") {
		t.Errorf("the log is %s", log)
	}
}

func TestNothingInAMessageAddsAHeaderOrARecipient(t *testing.T) {
	s, l := mailserver.Start(t), &must.Log{}
	m := start(t, options(s, newClock(), l))
	for _, to := range []string{
		"", "nobody", "grace@example.org\r\nBcc: eve@example.org", "grace@example.org>\r\nRCPT TO:<eve@example.org", "grace@example.org, eve@example.org",
		"Grace <grace@example.org>", " grace@example.org", "grace@example.org\n", "grace@exa\x00mple.org", "<grace@example.org>",
	} {
		if err := m.Send(context.Background(), message.Message{To: to, Subject: "s", Text: "t"}); !fault.Is(err, fault.Invalid) {
			t.Errorf("sending to %q gives %v", to, err)
		}
	}
	for _, subject := range []string{"Join\r\nBcc: eve@example.org", "Join\nX-Evil: 1\n\nbody", "Join\r\n.\r\nMAIL FROM:<eve@example.org>", "Join\x00 =?utf-8?q?=0D=0ABcc:_eve@example.org?="} {
		must.NoError(t, m.Send(context.Background(), message.Message{To: "grace@example.org", Subject: subject, Text: "From: eve\r\n\r\n.\r\nQUIT\r\n"}))
		got := <-s.Received
		h := headerOf(t, got.Text)
		if len(h["Bcc"])+len(h["X-Evil"]) > 0 || len(h["From"]) != 1 || len(h["Subject"]) != 1 || got.To != "TO:<grace@example.org>" {
			t.Errorf("the subject %q gives %v", subject, h)
		}
		if shown, err := new(mime.WordDecoder).DecodeHeader(h.Get("Subject")); err != nil || strings.ContainsFunc(shown, unicode.IsControl) {
			t.Errorf("the subject %q is shown as %q, %v", subject, shown, err)
		}
	}
	stop(t, m)
	if n := s.Count("RCPT"); n != 4 {
		t.Errorf("%d recipients", n)
	}
}

func TestTheURLDecidesAboutEncryption(t *testing.T) {
	for name, tt := range map[string]struct {
		server  func(*mailserver.Server)
		query   string
		user    bool
		arrives bool
		secure  bool
	}{
		"in the clear where nothing else is offered": {func(*mailserver.Server) {}, "", false, true, false},
		"encrypted where that is offered":            {func(s *mailserver.Server) { s.Offers = []string{"STARTTLS"} }, "", false, true, true},
		"in the clear where that is asked for":       {func(s *mailserver.Server) { s.Offers = []string{"STARTTLS"} }, "?tls=off", false, true, false},
		"encrypted where that is required":           {func(s *mailserver.Server) { s.Offers = []string{"STARTTLS"} }, "?tls=required", false, true, true},
		"not at all where it cannot be encrypted":    {func(*mailserver.Server) {}, "?tls=required", false, false, false},
		"encrypted from the start":                   {func(s *mailserver.Server) { s.Implicit = true }, "", false, true, true},
		"encrypted with a password":                  {func(s *mailserver.Server) { s.Offers = []string{"STARTTLS", "AUTH PLAIN LOGIN"} }, "", true, true, true},
		"encrypted from the start with a password":   {func(s *mailserver.Server) { s.Implicit, s.Offers = true, []string{"AUTH PLAIN LOGIN"} }, "?tls=required", true, true, true},
		"no password in the clear":                   {func(s *mailserver.Server) { s.Offers = []string{"AUTH PLAIN LOGIN"} }, "", true, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			s, l := mailserver.Start(t, tt.server), &must.Log{}
			o := options(s, newClock(), l)
			o.Backoff = []time.Duration{}
			if tt.user {
				u := must.Do(url.Parse(o.URL)).Or(t)
				u.User = url.UserPassword("ada", "p@ss/w:rd")
				o.URL = u.String()
			}
			o.URL += tt.query
			m := start(t, o)
			send(t, m, "grace@example.org")
			stop(t, m)
			if arrived := len(s.Received) == 1; arrived != tt.arrives {
				t.Fatalf("arrived: %v: %s", arrived, l)
			}
			if !tt.arrives {
				if s.Count("AUTH") > 0 || !strings.Contains(l.String(), "delivery failed") {
					t.Errorf("AUTH was sent %d times; the log is %s", s.Count("AUTH"), l)
				}
				return
			}
			got := <-s.Received
			if got.Secure != tt.secure || tt.user && got.User != "/ada/p@ss/w:rd" {
				t.Errorf("got %+v", got)
			}
			if strings.Contains(l.String(), "p@ss") || strings.Contains(l.String(), "secret-token") {
				t.Errorf("the log holds a secret: %s", l)
			}
		})
	}
}

func TestNothingIsSentToAServerWithAnUntrustedCertificate(t *testing.T) {
	s, l := mailserver.Start(t, func(s *mailserver.Server) { s.Implicit = true }), &must.Log{}
	o := options(s, newClock(), l)
	o.TLS, o.Backoff = &tls.Config{RootCAs: nil}, []time.Duration{}
	m := start(t, o)
	send(t, m, "grace@example.org")
	stop(t, m)
	if len(s.Received) != 0 || !strings.Contains(l.String(), "delivery failed") {
		t.Errorf("%d arrived; the log is %s", len(s.Received), l)
	}
}

func TestTemporaryFailuresAreRetriedWithBackoff(t *testing.T) {
	for command, reply := range map[string]string{
		"CONNECT": "hang up", "MAIL": "451 try later", "RCPT": "450 greylisted grace@example.org", "DATA": "452 full", "END": "451 no", "NOOP": "hang up",
	} {
		t.Run(command, func(t *testing.T) {
			c, l := newClock(), &must.Log{}
			s := mailserver.Start(t, func(s *mailserver.Server) { s.Replies[command] = []string{reply, reply} })
			o := options(s, c, l)
			o.Backoff = []time.Duration{time.Minute, time.Hour, 24 * time.Hour}
			m := start(t, o)
			send(t, m, "grace@example.org")
			<-s.Received
			stop(t, m)
			if len(c.waits) != 2 || c.waits[0] != time.Minute || c.waits[1] != time.Hour {
				t.Errorf("waited %v", c.waits)
			}
			if log := l.String(); strings.Count(log, "delivery deferred") != 2 || !strings.Contains(log, "attempts=3") || strings.Contains(log, "grace") {
				t.Errorf("the log is %s", log)
			}
		})
	}
}

func TestALastingFailureIsLoggedAndDropped(t *testing.T) {
	const line, busy = "RCPT TO:<grace@example.org>", "450 grace@example.org is busy"
	s := mailserver.Start(t, func(s *mailserver.Server) { s.Replies[line] = []string{busy, busy, busy} })
	l, c := &must.Log{}, newClock()
	o := options(s, c, l)
	o.Backoff = []time.Duration{time.Second, time.Minute}
	m := start(t, o)
	send(t, m, "grace@example.org")
	send(t, m, "edsger@example.net") // sent despite the other's failures
	got := <-s.Received
	must.Wait(t, "the failure is logged", func() bool { return strings.Contains(l.String(), "level=ERROR") })
	stop(t, m)
	if !strings.Contains(got.To, "edsger") || len(s.Received) != 0 || len(c.waits) == 0 || s.Count("RCPT") != 4 || strings.Contains(l.String(), "grace") {
		t.Errorf("got %+v; the log is %s", got, l)
	}
}

func TestPermanentFailuresAreNotRetried(t *testing.T) {
	for command, reply := range map[string]string{"MAIL": "550 no", "RCPT": "550 5.1.1 no such user grace@example.org", "END": "554 spam"} {
		s, l, c := mailserver.Start(t, func(s *mailserver.Server) { s.Replies[command] = []string{reply} }), &must.Log{}, newClock()
		m := start(t, options(s, c, l))
		send(t, m, "grace@example.org")
		send(t, m, "edsger@example.net")
		got := <-s.Received
		stop(t, m)
		if !strings.Contains(got.To, "edsger") || len(c.waits) != 0 || s.Count(command) != 2 {
			t.Errorf("%s: got %+v after %v", command, got, c.waits)
		}
		if log := l.String(); !strings.Contains(log, "level=ERROR") || !strings.Contains(log, reply[:3]) || strings.Contains(log, "grace") {
			t.Errorf("%s: the log is %s", command, log)
		}
	}
}

func TestAnAcceptedMessageIsNotSentAgain(t *testing.T) {
	for _, command := range []string{"RSET", "QUIT"} {
		s, l, c := mailserver.Start(t, func(s *mailserver.Server) { s.Replies[command] = []string{"hang up"} }), &must.Log{}, newClock()
		m := start(t, options(s, c, l))
		for _, to := range []string{"grace@example.org", "edsger@example.net"} {
			send(t, m, to)
			<-s.Received
		}
		stop(t, m)
		if len(s.Received) != 0 || len(c.waits) != 0 || s.Count("MAIL") != 2 {
			t.Errorf("with the connection lost at %s two messages were sent %d times", command, s.Count("MAIL"))
		}
	}
}

// blockedQueue returns a server that accepts connections and sends nothing until it is released.
func blockedQueue(t *testing.T) (s *mailserver.Server, connected, release chan struct{}) {
	t.Helper()
	connected, release = make(chan struct{}, 1000), make(chan struct{})
	s = mailserver.Start(t, func(s *mailserver.Server) { s.Hold = func() { connected <- struct{}{}; <-release } })
	return s, connected, release
}

func TestTheQueueIsBounded(t *testing.T) {
	s, connected, release := blockedQueue(t)
	log := &must.Log{}
	m := start(t, options(s, newClock(), log))
	send(t, m, "first@example.org")
	<-connected
	for range 256 {
		send(t, m, "grace@example.org")
	}
	must.Fail(t, m.Send(context.Background(), message.Message{To: "grace@example.org"}), fault.Unavailable) // one more
	if !strings.Contains(log.String(), "e-mail not queued") {
		t.Errorf("the log says nothing of it: %s", log)
	}
	close(release)
	stop(t, m)
	if len(s.Received) != 257 {
		t.Errorf("%d arrived", len(s.Received))
	}
	must.Fail(t, m.Send(context.Background(), message.Message{To: "grace@example.org"}), fault.Unavailable) // after Close
	stop(t, m)                                                                                              // a second Close has no effect
}

func TestCloseEndsWithItsContext(t *testing.T) {
	s, connected, release := blockedQueue(t)
	m := start(t, options(s, newClock(), &must.Log{}))
	send(t, m, "grace@example.org")
	send(t, m, "edsger@example.net")
	<-connected
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := m.Close(ctx); err == nil || !strings.HasPrefix(err.Error(), "2 e-mails") {
		t.Errorf("got %v", err)
	}
	close(release)
}

func TestErrorsOfTheURLDoNotContainThePassword(t *testing.T) {
	for _, address := range []string{
		"", "smtp://", "mail.example.com", "http://u:hunter2@mail.example.com", "smtp://u:hunter2@mail.example.com:0", "smtp://u:hunter2@mail.example.com:70000",
		"smtp://u:hunter2@mail.example.com:port", "smtp://u:hunter2@mail.example.com/path", "smtp://u:hunter2@mail.example.com?tls=maybe", "smtp://u:hunter2@mail.example.com?ssl=on",
		"smtps://u:hunter2@mail.example.com?tls=off", "smtp://u:hunter2%zz@mail.example.com", "smtp://u:hunter2@mail.example.com?tls=off&tls=required",
	} {
		_, err := mail.NewSMTP(mail.Options{URL: address, From: "a@example.com", Clock: newClock()})
		if err == nil || !strings.HasPrefix(err.Error(), "COLLAB_SMTP_URL: ") || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s gives %v", address, err)
		}
	}
	for _, from := range []string{"", "nobody", "a@example.com, b@example.com"} {
		if _, err := mail.NewSMTP(mail.Options{URL: "smtp://mail.example.com", From: from, Clock: newClock()}); err == nil || !strings.HasPrefix(err.Error(), "COLLAB_MAIL_FROM: ") {
			t.Errorf("%q gives %v", from, err)
		}
	}
}

func TestTheFileHoldsTheMessagesAndTheLogDoesNot(t *testing.T) {
	path, l := filepath.Join(t.TempDir(), "data", "mail.log"), &must.Log{}
	f := mail.NewFile(path, logger(l), newClock())
	m := message.Message{To: "grace@example.org", Subject: "Join\r\nTo: eve@example.org", Text: "Accept:\nhttps://app.example.com/invite?token=secret-token\n\nDate: tomorrow\n"}
	const entry = "Date: 2026-03-04T05:06:07Z\nTo: grace@example.org\nSubject: Join  To: eve@example.org\n\n  Accept:\n  https://app.example.com/invite?token=secret-token\n  \n  Date: tomorrow\n\n"
	var wg sync.WaitGroup
	for range 10 {
		wg.Go(func() { must.Succeed(t, f.Send(context.Background(), m)) })
	}
	wg.Wait()
	if got, err := os.ReadFile(path); err != nil || string(got) != strings.Repeat(entry, 10) {
		t.Errorf("the file holds %q, %v", got, err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file has mode %v, %v", info.Mode(), err)
	}
	if log := l.String(); !strings.Contains(log, path) || strings.Contains(log, "secret-token") || strings.Contains(log, "grace") {
		t.Errorf("the log is %s", log)
	}
	must.Fail(t, f.Send(context.Background(), message.Message{To: "nobody"}), fault.Invalid)
	if err := mail.NewFile(t.TempDir(), logger(l), newClock()).Send(context.Background(), m); err == nil {
		t.Error("a directory is written to like a file")
	}
}

// headerOf returns the lines of a message's header, unfolded.
func headerOf(t *testing.T, text string) textproto.MIMEHeader {
	t.Helper()
	return must.Do(textproto.NewReader(bufio.NewReader(strings.NewReader(text))).ReadMIMEHeader()).Or(t)
}
