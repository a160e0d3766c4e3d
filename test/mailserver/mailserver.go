// Package mailserver is a mail server for tests, whose replies they choose.
package mailserver

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"net"
	"net/http/httptest"
	"net/textproto"
	"strings"
	"sync"
	"testing"

	"collab/test/must"
)

// Message is a message that the server accepted.
type Message struct {
	From, To string
	User     string // signed in, as /user/password
	Secure   bool
	Text     string // with dot-stuffing removed
}

// Server speaks SMTP on loopback.
type Server struct {
	net.Listener
	Trust    *tls.Config // for its clients
	Implicit bool        // TLS from the start
	Hold     func()      // called before the greeting, nil: none
	Offers   []string    // extensions besides the default ones
	Received chan Message
	Replies  map[string][]string                      // by command or whole line, each used once instead of the default
	Reply    func(command, user, usual string) string // returns the reply where Replies has none, nil: the usual one

	certificate tls.Certificate
	conns       sync.WaitGroup

	mu       sync.Mutex
	commands []string
}

// Start starts a server, changed by change, until the test ends.
func Start(t *testing.T, change ...func(*Server)) *Server {
	t.Helper()
	web := httptest.NewTLSServer(nil)
	defer web.Close()
	roots := x509.NewCertPool()
	roots.AddCert(web.Certificate())
	l := must.Do(net.Listen("tcp", "127.0.0.1:0")).Or(t)
	s := &Server{
		Listener: l, certificate: web.TLS.Certificates[0], Trust: &tls.Config{RootCAs: roots},
		Received: make(chan Message, 1000), Replies: map[string][]string{},
	}
	for _, fn := range change {
		fn(s)
	}
	s.conns.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			s.conns.Go(func() { s.serve(conn) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		s.conns.Wait() // blocks if a client leaves a connection open
	})
	return s
}

// reply returns the test's reply to a line of a user, or the usual one.
func (s *Server) reply(line, user, usual string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	command, _, _ := strings.Cut(line, " ")
	s.commands = append(s.commands, command)
	for _, key := range []string{line, command} {
		if planned := s.Replies[key]; len(planned) > 0 {
			s.Replies[key] = planned[1:]
			return planned[0]
		}
	}
	if s.Reply != nil {
		return s.Reply(command, user, usual)
	}
	return usual
}

// Count returns how often a command was sent.
func (s *Server) Count(command string) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.commands {
		if c == command {
			n++
		}
	}
	return n
}

func (s *Server) serve(conn net.Conn) {
	defer func() { _ = conn.Close() }()
	var m Message
	config := &tls.Config{Certificates: []tls.Certificate{s.certificate}}
	if s.Implicit {
		conn, m.Secure = tls.Server(conn, config), true
	}
	text := textproto.NewConn(conn)
	say := func(line string) bool {
		if line == "hang up" {
			return false
		}
		return text.PrintfLine("%s", line) == nil
	}
	if s.Hold != nil {
		s.Hold()
	}
	if !say(s.reply("CONNECT", "", "220 test ESMTP")) {
		return
	}
	for {
		line, err := text.ReadLine()
		if err != nil {
			return
		}
		command, rest, _ := strings.Cut(line, " ")
		response := "250 fine"
		switch command = strings.ToUpper(command); command {
		case "EHLO":
			response = strings.Join(append([]string{"250-test"}, s.Offers...), "\r\n250-") + "\r\n250 SIZE 1000000"
		case "STARTTLS":
			response = "220 go on"
		case "AUTH":
			_, encoded, _ := strings.Cut(rest, " ")
			plain, _ := base64.StdEncoding.DecodeString(encoded)
			m.User = string(bytes.ReplaceAll(plain, []byte{0}, []byte{'/'}))
			response = "235 welcome"
		case "MAIL":
			m.From = rest
		case "RCPT":
			m.To = rest
		case "DATA":
			response = "354 go on"
		case "QUIT":
			response = "221 bye"
		}
		response = s.reply(line, m.User, response)
		if !say(response) {
			return
		}
		switch {
		case command == "STARTTLS" && strings.HasPrefix(response, "220"):
			conn, m.Secure = tls.Server(conn, config), true
			text = textproto.NewConn(conn)
		case command == "DATA" && strings.HasPrefix(response, "354"):
			body, err := text.ReadDotBytes()
			if err != nil {
				return
			}
			m.Text = string(body)
			response = s.reply("END", m.User, "250 taken")
			if strings.HasPrefix(response, "250") {
				s.Received <- m
			}
			if !say(response) {
				return
			}
		case command == "QUIT":
			return
		}
	}
}
