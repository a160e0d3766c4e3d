package authserver

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"slices"

	"github.com/go-oauth2/oauth2/v4"
	"github.com/go-oauth2/oauth2/v4/errors"
	"github.com/go-oauth2/oauth2/v4/models"
)

// client is a registered client.
type client struct {
	id        string
	secret    string // empty for a public client
	method    string
	redirects []string
}

// clients implements oauth2.ClientStore. The caller must hold Server.mu.
type clients Server

func (s *clients) GetByID(_ context.Context, id string) (oauth2.ClientInfo, error) {
	c, ok := s.clients[id]
	if !ok {
		return nil, errors.ErrInvalidClient
	}
	return &models.Client{ID: c.id, Secret: c.secret, Public: c.secret == ""}, nil
}

// Know registers a client. An empty secret makes it a public client.
func (s *Server) Know(id, secret, method string, redirects ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clients[id] = &client{id: id, secret: secret, method: method, redirects: redirects}
}

// addClient registers a client with the requested metadata. Its authentication method is the requested one if the
// script has it, else the first of the script.
func (s *Server) addClient(requested registration, script Script) client {
	c := client{id: "client-" + rand.Text(), method: requested.Method, redirects: requested.Redirects}
	if c.method == "" {
		c.method = "client_secret_basic"
	}
	if !slices.Contains(script.Methods, c.method) && len(script.Methods) > 0 {
		c.method = script.Methods[0]
	}
	if c.method != "none" {
		c.secret = "secret-" + rand.Text()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clients[c.id] = &c
	return c
}

// lookUpClient returns the client with the id. If documents is set, and the id of an unknown client is a URL, it
// registers the client from the client ID metadata document at that URL.
func (s *Server) lookUpClient(ctx context.Context, id string, documents bool) (client, bool) {
	s.mu.Lock()
	c, ok := s.clients[id]
	s.mu.Unlock()
	if ok {
		return *c, true
	}
	if u, err := url.Parse(id); !documents || err != nil || u.Host == "" {
		return client{}, false
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, id, nil)
	if err != nil {
		return client{}, false
	}
	response, err := s.http.Client().Do(r)
	if err != nil {
		return client{}, false
	}
	defer response.Body.Close()
	var described registration
	if json.NewDecoder(io.LimitReader(response.Body, maxBody)).Decode(&described) != nil || described.ID != id {
		return client{}, false
	}
	made := client{id: id, method: "none", redirects: described.Redirects}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clients[id] = &made
	return made, true
}

// authenticated reports whether a request is authenticated by the method of its client.
func (s *Server) authenticated(r *http.Request) bool {
	id, secret, err := credentialsOf(r)
	c, ok := s.clients[id]
	if err != nil || !ok || c.secret != secret {
		return false
	}
	method := "none"
	if r.Header.Get("Authorization") != "" {
		method = "client_secret_basic"
	} else if secret != "" {
		method = "client_secret_post"
	}
	return method == c.method
}

// credentialsOf returns the client id and the client secret of a request.
func credentialsOf(r *http.Request) (string, string, error) {
	id, secret, ok := r.BasicAuth()
	if !ok {
		return r.PostFormValue("client_id"), r.PostFormValue("client_secret"), nil
	}
	if r.PostFormValue("client_secret") != "" {
		return "", "", errors.ErrInvalidRequest // RFC 6749, section 2.3: one method
	}
	id, err := url.QueryUnescape(id)
	if err != nil {
		return "", "", errors.ErrInvalidRequest
	}
	secret, err = url.QueryUnescape(secret)
	if err != nil {
		return "", "", errors.ErrInvalidRequest
	}
	return id, secret, nil
}
