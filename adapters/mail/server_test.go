package mail_test

import (
	"bufio"
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

// received is a message that the server accepted.
type received struct {
	from, to string
	user     string // signed in
	secure   bool
	text     string // received, with dot-stuffing removed
}

// mailServer speaks SMTP on loopback.
type mailServer struct {
	net.Listener
	certificate tls.Certificate
	trust       *tls.Config // for its clients
	implicit    bool        // TLS from the start
	hold        func()      // called before the greeting, nil: none
	offers      []string    // extensions besides the default ones
	received    chan received
	conns       sync.WaitGroup

	mu       sync.Mutex
	replies  map[string][]string // by command or whole line, each used once instead of the default
	commands []string
}

func newMailServer(t *testing.T, change ...func(*mailServer)) *mailServer {
	t.Helper()
	web := httptest.NewTLSServer(nil)
	defer web.Close()
	roots := x509.NewCertPool()
	roots.AddCert(web.Certificate())
	l := must.Do(net.Listen("tcp", "127.0.0.1:0")).Or(t)
	s := &mailServer{
		Listener: l, certificate: web.TLS.Certificates[0], trust: &tls.Config{RootCAs: roots},
		received: make(chan received, 1000), replies: map[string][]string{},
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

// reply returns the test's reply to a line, or the usual one.
func (s *mailServer) reply(line, usual string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	command, _, _ := strings.Cut(line, " ")
	s.commands = append(s.commands, command)
	for _, key := range []string{line, command} {
		if planned := s.replies[key]; len(planned) > 0 {
			s.replies[key] = planned[1:]
			return planned[0]
		}
	}
	return usual
}

func (s *mailServer) count(command string) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.commands {
		if c == command {
			n++
		}
	}
	return n
}

func (s *mailServer) serve(conn net.Conn) {
	defer func() { _ = conn.Close() }()
	var m received
	config := &tls.Config{Certificates: []tls.Certificate{s.certificate}}
	if s.implicit {
		conn, m.secure = tls.Server(conn, config), true
	}
	text := textproto.NewConn(conn)
	say := func(line string) bool {
		if line == "hang up" {
			return false
		}
		return text.PrintfLine("%s", line) == nil
	}
	if s.hold != nil {
		s.hold()
	}
	if !say(s.reply("CONNECT", "220 test ESMTP")) {
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
			response = strings.Join(append([]string{"250-test"}, s.offers...), "\r\n250-") + "\r\n250 SIZE 1000000"
		case "STARTTLS":
			response = "220 go on"
		case "AUTH":
			_, encoded, _ := strings.Cut(rest, " ")
			plain, _ := base64.StdEncoding.DecodeString(encoded)
			m.user = string(bytes.ReplaceAll(plain, []byte{0}, []byte{'/'}))
			response = "235 welcome"
		case "MAIL":
			m.from = rest
		case "RCPT":
			m.to = rest
		case "DATA":
			response = "354 go on"
		case "QUIT":
			response = "221 bye"
		}
		response = s.reply(line, response)
		if !say(response) {
			return
		}
		switch {
		case command == "STARTTLS" && strings.HasPrefix(response, "220"):
			conn, m.secure = tls.Server(conn, config), true
			text = textproto.NewConn(conn)
		case command == "DATA" && strings.HasPrefix(response, "354"):
			body, err := text.ReadDotBytes()
			if err != nil {
				return
			}
			m.text = string(body)
			response = s.reply("END", "250 taken")
			if strings.HasPrefix(response, "250") {
				s.received <- m
			}
			if !say(response) {
				return
			}
		case command == "QUIT":
			return
		}
	}
}

// headerOf returns the lines of a message's header, unfolded.
func headerOf(t *testing.T, text string) textproto.MIMEHeader {
	t.Helper()
	return must.Do(textproto.NewReader(bufio.NewReader(strings.NewReader(text))).ReadMIMEHeader()).Or(t)
}
