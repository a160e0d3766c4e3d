package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"io"
	"math/big"
	"net"
	"time"

	"collab/test/must"
)

// behindTLS starts a relay that terminates TLS before a server. It returns the server with the relay's address, and a
// configuration that trusts the relay.
func (b *bench) behindTLS(p *process) (*process, *tls.Config) {
	key := must.Do(ecdsa.GenerateKey(elliptic.P256(), rand.Reader)).Or(b)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), DNSNames: []string{"localhost"}}
	der := must.Do(x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)).Or(b)
	certificate := must.Do(x509.ParseCertificate(der)).Or(b)
	roots := x509.NewCertPool()
	roots.AddCert(certificate)
	own := tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
	l := must.Do(tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{own}})).Or(b)
	b.relay(l, p.address, func(c net.Conn) net.Conn { return c })
	behind := *p
	behind.address = l.Addr().String()
	return &behind, &tls.Config{RootCAs: roots, ServerName: "localhost"}
}

// relay relays the connections of a listener to a server until the end of the scope, each by one of its own. Wrap
// wraps both.
func (b *bench) relay(l net.Listener, to string, wrap func(net.Conn) net.Conn) {
	b.cleanup(l.Close)
	go func() {
		for c, err := l.Accept(); err == nil; c, err = l.Accept() {
			go relay(c, to, wrap)
		}
	}()
}

// relay copies between a client and a server until one of them closes the connection.
func relay(client net.Conn, to string, wrap func(net.Conn) net.Conn) {
	client = wrap(client)
	defer client.Close()
	server, err := dialReset(to)
	if err != nil {
		return
	}
	server = wrap(server)
	defer server.Close()
	go func() {
		defer client.Close()
		_, _ = io.Copy(client, server)
	}()
	_, _ = io.Copy(server, client)
}
