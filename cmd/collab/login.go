package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"collab/adapters/apiclient"
)

const (
	signInTimeout = 10 * time.Minute // as long as the server waits
	maxToken      = 16 << 10         // bytes
)

func (a *app) loginCommand() *cobra.Command {
	var fromInput, noBrowser, device, insecure bool
	c := command("login", "Sign in to a server", 0, 0, func(c *cobra.Command, _ []string) error {
		server, err := a.chosenServer()
		if err != nil {
			return err
		}
		client, err := a.anonymousClient(server)
		if err != nil {
			return err
		}
		token := ""
		switch {
		case fromInput:
			token, err = a.tokenFromInput(c.Context(), client)
		case !a.interactive(a.errTerminal || device || noBrowser):
			err = exitError{exitSignIn, errors.New("there is nobody to sign in: set COLLAB_TOKEN, or pass a token to collab login --with-token")}
		case device || a.env("SSH_CONNECTION") != "" && !noBrowser:
			token, err = a.tokenFromDevice(c.Context(), client)
		default:
			token, err = a.tokenFromBrowser(c.Context(), server, noBrowser)
		}
		if err != nil {
			return err
		}
		signedIn, err := fetchAccount(c.Context(), server, token)
		if err != nil {
			return err
		}
		if signedIn.OrgID == "" {
			return exitError{exitSignIn, fmt.Errorf("%s is in no organisation of %s", signedIn.User, server)}
		}
		if err := a.storeAccount(signedIn, insecure); err != nil {
			return err
		}
		a.printSuccess("signed in to %s as %s of %s", server, signedIn.User, signedIn.Org)
		return nil
	})
	c.Long = "login signs in with a browser on this machine, or on any other where SSH_CONNECTION is set.\n" +
		"Pipelines set COLLAB_SERVER and COLLAB_TOKEN instead."
	c.Flags().BoolVar(&fromInput, "with-token", false, "read a service token or an identity token from standard input")
	c.Flags().BoolVar(&device, "device", false, "sign in with a browser on any machine")
	c.Flags().BoolVar(&noBrowser, "no-browser", false, "print the address to open, and open no browser")
	c.Flags().BoolVar(&insecure, "insecure-storage", false, "keep the token in a file in place of the system's keyring")
	return c
}

// tokenFromInput reads a token, and exchanges it if it is an identity token.
func (a *app) tokenFromInput(ctx context.Context, client *apiclient.Client) (string, error) {
	text, err := a.readAll(ctx, maxToken)
	if err != nil {
		return "", err
	}
	token := strings.TrimSpace(text)
	if token == "" {
		return "", usage("standard input has no token")
	}
	session, err := client.ExchangeToken(ctx, apiclient.Exchange{IdentityToken: token})
	switch {
	case err == nil:
		return session.Token, nil
	case apiclient.Status(err) == http.StatusUnauthorized:
		return token, nil // it is a service token, or nothing
	}
	return "", err
}

// contextReader is a stream whose reads end with ctx, of which the next one may miss what comes then.
type contextReader struct {
	ctx    context.Context
	stream io.Reader
}

func (c contextReader) Read(p []byte) (int, error) {
	read := make([]byte, len(p))
	n, err := awaitCall(c.ctx, startCall(func() (int, error) { return c.stream.Read(read) }))
	return copy(p, read[:n]), err
}

// readAll reads standard input, which may have most bytes.
func (a *app) readAll(ctx context.Context, maxBytes int64) (string, error) {
	text, err := io.ReadAll(io.LimitReader(contextReader{ctx, a.in}, maxBytes+1))
	if err == nil && int64(len(text)) > maxBytes {
		err = usage("standard input has more than %s", formatSize(maxBytes))
	}
	return string(text), err
}

// tokenFromBrowser has the server send a token to a port of this machine, through a browser
// (RFC 8252). The state shows that the token is for this call.
func (a *app) tokenFromBrowser(ctx context.Context, server string, noBrowser bool) (string, error) {
	listeners, port, err := listen()
	if err != nil {
		return "", err
	}
	state := rand.Text()
	tokens := make(chan string, 1)
	handler := http.NewServeMux()
	handler.HandleFunc("GET /callback", func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		if subtle.ConstantTimeCompare([]byte(q.Get("state")), []byte(state)) != 1 || q.Get("token") == "" {
			http.Error(w, "This sign-in was not started here.", http.StatusBadRequest)
			return
		}
		select {
		case tokens <- q.Get("token"):
		default: // one was received
		}
		// The token leaves the address bar and the history.
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("Referrer-Policy", "no-referrer")
		http.Redirect(w, r, "/done", http.StatusSeeOther)
	})
	done := make(chan struct{})
	closeDone := sync.OnceFunc(func() { close(done) })
	handler.HandleFunc("GET /done", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, "You are signed in. You can close this page.")
		closeDone()
	})
	defer serve(handler, listeners...)()

	address := server + apiclient.Prefix + "/auth/cli-auth?" + url.Values{"port": {strconv.Itoa(port)}, "state": {state}}.Encode()
	a.printErrf("Sign in with a browser at\n%s", address)
	ctx, cancel := context.WithTimeoutCause(ctx, signInTimeout, errors.New("nobody has signed in"))
	defer cancel()
	token := ""
	waitForToken := func(ctx context.Context) error {
		select {
		case token = <-tokens:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		select {
		case <-done:
		case <-time.After(5 * time.Second): // a browser that does not follow
		}
		return nil
	}
	if noBrowser {
		err = waitForToken(ctx)
	} else {
		err = a.browse(ctx, address, waitForToken)
	}
	return token, err
}

// hostName returns the machine's name, as the page that asks for consent shows it.
func hostName() string {
	name, err := os.Hostname()
	if err != nil {
		name = runtime.GOOS
	}
	return "collab on " + name
}

// listenAttempts is how many ports are tried that may be in use in one of the networks.
const listenAttempts = 20

// listen opens a free port of the loopback networks. localhost is either of them, so where there
// is IPv6 both are needed: another user's program on one of them could receive the token.
func listen() (all []net.Listener, port int, err error) {
	for range listenAttempts {
		all, port = nil, 0
		v6, v6Err := net.Listen("tcp6", "[::1]:0")
		if v6Err == nil {
			all, port = []net.Listener{v6}, v6.Addr().(*net.TCPAddr).Port
		}
		var v4 net.Listener
		if v4, err = net.Listen("tcp4", "127.0.0.1:"+strconv.Itoa(port)); err == nil {
			return append(all, v4), v4.Addr().(*net.TCPAddr).Port, nil
		}
		if v6Err != nil {
			return nil, 0, err
		}
		_ = v6.Close() // nothing was accepted
	}
	return nil, 0, err
}

func (a *app) logoutCommand() *cobra.Command {
	var everywhere bool
	c := command("logout", "End the session and forget the token", 0, 0, func(c *cobra.Command, _ []string) error {
		if a.env("COLLAB_TOKEN") != "" {
			return usage("COLLAB_TOKEN is set: there is nothing to forget")
		}
		current, err := a.currentAccount()
		if err != nil {
			return err
		}
		client, err := a.clientFor(current)
		if err != nil {
			return err
		}
		if err := endSession(c.Context(), client, everywhere); err != nil {
			a.printWarning("the session may still be open: %v", err)
		}
		if err := a.removeAccount(current); err != nil {
			return err
		}
		a.printSuccess("signed out of %s", current.Server)
		return nil
	})
	c.Flags().BoolVar(&everywhere, "everywhere", false, "end all sessions of the user, on other devices too")
	return c
}

// endSession ends the client's session, or all of its user.
func endSession(ctx context.Context, client *apiclient.Client, everywhere bool) error {
	if everywhere {
		if _, err := client.EndOtherSessions(ctx); err != nil {
			return err
		}
	}
	sessions, err := client.ListSessions(ctx)
	if err != nil {
		return err
	}
	for s, err := range sessions.All() {
		if err != nil {
			return err
		}
		if s.Current {
			_, err := client.EndSession(ctx, s.ID)
			return err
		}
	}
	return nil
}

func (a *app) whoamiCommand() *cobra.Command {
	return command("whoami", "Print who one is signed in as", 0, 0, a.withClient(func(ctx context.Context, client *apiclient.Client, _ []string) error {
		return printOne(a, func(m apiclient.Me) []column {
			org := ""
			if m.Org != nil {
				org = valueOr(m.Org.Name, m.Org.ID)
			}
			return []column{
				{"server", client.Server}, {"user", cmp.Or(valueOr(m.User.Email, ""), m.User.ID)}, {"name", valueOr(m.User.Name, "")}, {"organisation", org}, {"role", valueOr(m.Role, "")},
			}
		}, func() (apiclient.Me, error) { return client.GetMe(ctx) })
	}))
}

// listedAccount is an account without its token.
type listedAccount struct {
	Server string `json:"server"`
	OrgID  string `json:"orgId"`
	Org    string `json:"org"`
	User   string `json:"user"`
	Active bool   `json:"active"`
}

func (a *app) orgsCommand() *cobra.Command {
	list := command("list", "List the organisations that one is signed in to", 0, 0, func(*cobra.Command, []string) error {
		_, all, err := a.readAccounts()
		if err != nil {
			return err
		}
		listed := make([]listedAccount, len(all))
		for i, c := range all {
			listed[i] = listedAccount{Server: c.Server, OrgID: c.OrgID, Org: c.Org, User: c.User, Active: c.Active}
		}
		return printRows(a, sequence(listed), func(c listedAccount) []column {
			active := ""
			if c.Active {
				active = "*"
			}
			return []column{{"active", active}, {"organisation", c.Org}, {"id", c.OrgID}, {"user", c.User}, {"server", c.Server}}
		})
	})
	use := command("use ORGANISATION", "Work with another organisation that one is signed in to", 1, 1, func(_ *cobra.Command, args []string) error {
		if a.env("COLLAB_TOKEN") != "" {
			return usage("COLLAB_TOKEN is set, which is for one organisation")
		}
		_, all, err := a.readAccounts()
		if err != nil {
			return err
		}
		server := a.serverAddress()
		all = slices.DeleteFunc(all, func(c account) bool { return server != "" && server != c.Server || !c.isOrg(args[0]) })
		if len(all) > 1 {
			return usage("there are %d organisations %q: name one by its id, or by its server too with --server; see collab orgs list", len(all), args[0])
		}
		a.flags.org = args[0]
		chosen, err := a.currentAccount()
		if err != nil {
			return err
		}
		return a.changeAccounts(func(all []account) ([]account, error) {
			for i := range all {
				all[i].Active = all[i].sameAs(chosen)
			}
			return all, nil
		})
	})
	return group("orgs", "Choose among organisations", list, use)
}
