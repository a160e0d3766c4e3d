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
)

// tlsRelay terminates TLS before a server, with one connection to the server for each client.
type tlsRelay struct {
	listener net.Listener
	client   *tls.Config // trusts the relay
}

func newTLSRelay(to string) (*tlsRelay, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), DNSNames: []string{"localhost"}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return nil, err
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	roots.AddCert(certificate)
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}})
	if err != nil {
		return nil, err
	}
	r := &tlsRelay{l, &tls.Config{RootCAs: roots, ServerName: "localhost"}}
	go func() {
		for c, err := l.Accept(); err == nil; c, err = l.Accept() {
			go relay(c, to, func(c net.Conn) net.Conn { return c })
		}
	}()
	return r, nil
}

func (r *tlsRelay) address() string { return r.listener.Addr().String() }

func (r *tlsRelay) close() { _ = r.listener.Close() }

// relay copies between a client and a server until one of them closes the connection. Wrap wraps both
// connections.
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
