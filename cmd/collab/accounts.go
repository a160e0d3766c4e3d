package main

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/zalando/go-keyring"

	"collab/adapters/apiclient"
	"collab/adapters/atomicfile"
	"collab/adapters/filelock"
)

// keyringTimeout bounds a call of the system's keyring, which can wait for a service that does not respond.
const keyringTimeout = 3 * time.Second

var (
	// errKeyring is wrapped by errors of a keyring that may have the token, such as one that is locked.
	errKeyring = errors.New("the token cannot be read now")
	// errKeyringTimeout is the cause of a call's end after keyringTimeout.
	errKeyringTimeout = errors.New("the system's keyring does not answer")
)

// secretStore keeps tokens, each under a name.
type secretStore interface {
	Get(name string) (string, error)
	Set(name, secret string) error
	Delete(name string) error
}

// systemKeyring is the keyring of the operating system.
type systemKeyring struct{}

const keyringService = "collab"

func (systemKeyring) Get(name string) (string, error) { return keyring.Get(keyringService, name) }
func (systemKeyring) Set(name, secret string) error   { return keyring.Set(keyringService, name, secret) }
func (systemKeyring) Delete(name string) error        { return keyring.Delete(keyringService, name) }

// result is the result of a call.
type result[T any] struct {
	value T
	err   error
}

// startCall begins a call, and returns the channel that gets its result.
func startCall[T any](call func() (T, error)) <-chan result[T] {
	done := make(chan result[T], 1)
	go func() {
		value, err := call()
		done <- result[T]{value, err}
	}()
	return done
}

// awaitCall returns the result of a call that has begun, or the cause for which ctx ends before.
func awaitCall[T any](ctx context.Context, done <-chan result[T]) (T, error) {
	select {
	case r := <-done:
		return r.value, r.err
	case <-ctx.Done():
		return *new(T), context.Cause(ctx)
	}
}

// awaitKeyring returns the result of a call of the keyring that has begun, or errKeyringTimeout after keyringTimeout.
func awaitKeyring[T any](done <-chan result[T]) (T, error) {
	ctx, cancel := context.WithTimeoutCause(context.Background(), keyringTimeout, errKeyringTimeout)
	defer cancel()
	return awaitCall(ctx, done)
}

// keyringToken returns an account's token from the keyring. A call that the keyring has not answered yet, such as one that
// waits for a person to unlock it, is waited for again in place of another one.
func (a *app) keyringToken(c account) (string, error) {
	if a.keyringReads == nil {
		a.keyringReads = map[string]<-chan result[string]{}
	}
	done, waiting := a.keyringReads[c.key()]
	if !waiting {
		done = startCall(func() (string, error) { return a.secrets.Get(c.key()) })
		a.keyringReads[c.key()] = done
	}
	token, err := awaitKeyring(done)
	if !errors.Is(err, errKeyringTimeout) {
		delete(a.keyringReads, c.key())
	}
	return token, err
}

// account is an organisation that one is signed in to.
type account struct {
	Server string `json:"server"`
	OrgID  string `json:"orgId"`
	Org    string `json:"org"`
	User   string `json:"user"` // the e-mail address
	Token  string `json:"token,omitempty"`
	Active bool   `json:"active"` // the one that commands use
}

// key names the account's token in the keyring.
func (c account) key() string { return c.Server + "#" + c.OrgID }

// configDirectory is where the accounts are kept.
func (a *app) configDirectory() (string, error) {
	if directory := a.env("COLLAB_CONFIG_DIR"); directory != "" {
		return directory, nil
	}
	directory, err := os.UserConfigDir()
	if err != nil {
		return "", fmt.Errorf("set COLLAB_CONFIG_DIR: %w", err)
	}
	return filepath.Join(directory, "collab"), nil
}

// makeConfigDirectory returns the directory of the accounts, which it makes if it is not there.
func (a *app) makeConfigDirectory() (string, error) {
	directory, err := a.configDirectory()
	if err == nil {
		err = os.MkdirAll(directory, 0o700)
	}
	return directory, err
}

// readAccounts returns the path of the file with the accounts, and the accounts in it. Tokens are in the keyring where there is one.
func (a *app) readAccounts() (file string, all []account, err error) {
	directory, err := a.configDirectory()
	if err != nil {
		return "", nil, err
	}
	file = filepath.Join(directory, "accounts.json")
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return file, nil, nil
	}
	if err == nil {
		if err = json.Unmarshal(text, &all); err != nil {
			err = fmt.Errorf("%s: %w", file, err)
		}
	}
	return file, all, err
}

// Waits for another process that changes the accounts.
const (
	accountsTimeout = 10 * time.Second
	accountsRetry   = 10 * time.Millisecond
)

// lockAccounts locks the accounts for a change, until the file that it returns is closed.
func (a *app) lockAccounts() (*os.File, error) {
	directory, err := a.makeConfigDirectory()
	if err != nil {
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(directory, "accounts.lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	for range accountsTimeout / accountsRetry {
		if err = filelock.TryLock(f, true); !errors.Is(err, filelock.ErrLocked) {
			break
		}
		time.Sleep(accountsRetry)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// changeAccounts replaces the accounts by what change makes of them, one process at a time. change may
// use the keyring as well. If it fails, the accounts stay as they are.
func (a *app) changeAccounts(change func([]account) ([]account, error)) error {
	lock, err := a.lockAccounts()
	if err != nil {
		return err
	}
	defer lock.Close()
	file, all, err := a.readAccounts()
	if err != nil {
		return err
	}
	if all, err = change(all); err != nil {
		return err
	}
	text, err := json.MarshalIndent(all, "", "  ")
	if err != nil {
		return err
	}
	return atomicfile.Replace(file, atomicfile.Content(append(text, '\n')))
}

// inKeyring reports whether the token of an account of the file is in the keyring.
func (c account) inKeyring() bool { return c.Token == "" }

// isOrg reports whether the account is of the organisation with that id or name.
func (c account) isOrg(org string) bool { return org == c.OrgID || strings.EqualFold(org, c.Org) }

// sameAs reports whether both are the same organisation of the same server.
func (c account) sameAs(other account) bool { return c.key() == other.key() }

// storeAccount stores the account with its token as the active one.
func (a *app) storeAccount(c account, insecure bool) error {
	token := c.Token
	c.Token, c.Active = "", true
	return a.changeAccounts(func(all []account) ([]account, error) {
		if !insecure {
			if err := a.setSecret(c, token); err != nil {
				a.printWarning("the token is kept in a file that only you can read: %v", err)
				insecure = true
			}
		}
		if insecure {
			c.Token = token
		}
		all = slices.DeleteFunc(all, c.sameAs)
		for i := range all {
			all[i].Active = false
		}
		return append(all, c), nil
	})
}

func (a *app) setSecret(c account, token string) error {
	_, err := awaitKeyring(startCall(func() (struct{}, error) { return struct{}{}, a.secrets.Set(c.key(), token) }))
	return err
}

// storeRenewedToken stores another token of an account, unless somebody has signed out of it meanwhile, or another
// user in.
func (a *app) storeRenewedToken(c account, token string) error {
	return a.changeAccounts(func(all []account) ([]account, error) {
		i := slices.IndexFunc(all, c.sameAs)
		switch {
		case i < 0 || all[i].User != c.User:
		case all[i].inKeyring():
			return all, a.setSecret(c, token)
		default:
			all[i].Token = token
		}
		return all, nil
	})
}

// removeAccount removes an account with its token.
func (a *app) removeAccount(c account) error {
	return a.changeAccounts(func(all []account) ([]account, error) {
		i := slices.IndexFunc(all, c.sameAs)
		if i < 0 {
			return all, nil
		}
		if all[i].inKeyring() {
			_, err := awaitKeyring(startCall(func() (struct{}, error) { return struct{}{}, a.secrets.Delete(c.key()) }))
			if err != nil && !errors.Is(err, keyring.ErrNotFound) {
				return nil, err
			}
		}
		return slices.Delete(all, i, i+1), nil
	})
}

// serverAddress returns the server that was asked for, or an empty text.
func (a *app) serverAddress() string {
	return strings.TrimSuffix(cmp.Or(a.flags.server, a.env("COLLAB_SERVER")), "/")
}

// chosenServer returns the server that was asked for, or the active account's.
func (a *app) chosenServer() (string, error) {
	if server := a.serverAddress(); server != "" {
		return server, nil
	}
	_, all, err := a.readAccounts()
	if err != nil {
		return "", err
	}
	for _, c := range all {
		if c.Active {
			return c.Server, nil
		}
	}
	return "", usage("name the server: --server https://collab.example.com, or COLLAB_SERVER")
}

// currentAccount returns the account that the command is for: of several, the active one, else the one signed in to last.
func (a *app) currentAccount() (account, error) {
	return a.accountAt(a.serverAddress(), cmp.Or(a.flags.org, a.env("COLLAB_ORG")))
}

// accountAt returns the account of a server and an organisation, either of which may be empty.
func (a *app) accountAt(server, org string) (account, error) {
	if token := a.env("COLLAB_TOKEN"); token != "" {
		if org != "" && org != tokenOrg(token) {
			return account{}, usage("COLLAB_TOKEN is set, which is not for the organisation with the id %q; names are not taken beside it", org)
		}
		server, err := a.chosenServer()
		return account{Server: server, Token: token}, err
	}
	_, all, err := a.readAccounts()
	if err != nil {
		return account{}, err
	}
	found := -1
	for i, c := range all {
		onServer := server == "" || server == c.Server
		inOrg := c.isOrg(org)
		if org == "" {
			inOrg = c.Active || server != ""
		}
		if activeFound := found >= 0 && all[found].Active; onServer && inOrg && !activeFound {
			found = i
		}
	}
	if found >= 0 {
		c := all[found]
		if c.inKeyring() {
			c.Token, err = a.keyringToken(c)
		}
		switch {
		case errors.Is(err, keyring.ErrNotFound):
			return account{}, exitError{exitSignIn, fmt.Errorf("read the token of %s: %w", c.Server, err)}
		case err != nil:
			return account{}, fmt.Errorf("%w: %s: %w", errKeyring, c.Server, err)
		}
		return c, nil
	}
	switch {
	case org != "" && len(all) > 0:
		return account{}, exitError{exitSignIn, fmt.Errorf("not signed in to an organisation %q: see collab orgs list", org)}
	case server == "" && len(all) > 0:
		return account{}, exitError{exitSignIn, errors.New("no organisation is in use: choose one of collab orgs list with collab orgs use")}
	}
	return account{}, exitError{exitSignIn, errors.New("not signed in: run collab login, or set COLLAB_SERVER and COLLAB_TOKEN")}
}

// tokenOrg returns the id of the organisation that a service token is for, empty if it has none.
func tokenOrg(token string) string {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return ""
	}
	var claims struct {
		Org string `json:"org_id"`
	}
	text, _ := base64.RawURLEncoding.DecodeString(parts[1]) // the server reports an invalid token
	_ = json.Unmarshal(text, &claims)
	return claims.Org
}

// newClient returns a client for the account that the command is for.
func (a *app) newClient() (*apiclient.Client, error) {
	c, err := a.currentAccount()
	if err != nil {
		return nil, err
	}
	return a.clientFor(c)
}

// clientFor returns a client of the account's server.
func (a *app) clientFor(c account) (*apiclient.Client, error) {
	config := apiclient.Config{Server: c.Server, Token: c.Token, UserAgent: userAgent()}
	if a.env("COLLAB_TOKEN") == "" {
		a.accountServer = c.Server
		config.Renewed = func(token string) {
			if err := a.storeRenewedToken(c, token); err != nil {
				a.printErrf("the renewed token was not stored: %v", err)
			}
		}
	}
	return apiclient.New(config)
}

// anonymousClient returns a client of a server without a token.
func (a *app) anonymousClient(server string) (*apiclient.Client, error) {
	c, err := apiclient.New(apiclient.Config{Server: server, UserAgent: userAgent()})
	if err != nil {
		return nil, exitError{exitUsage, err}
	}
	return c, nil
}

func userAgent() string { return "collab/" + version }

// fetchAccount asks a server for the account of a token, which has another token if that had to be renewed.
func fetchAccount(ctx context.Context, server, token string) (account, error) {
	c := account{Server: server, Token: token}
	client, err := apiclient.New(apiclient.Config{Server: server, Token: token, UserAgent: userAgent(), Renewed: func(newer string) { c.Token = newer }})
	if err != nil {
		return c, err
	}
	me, err := client.GetMe(ctx)
	if err != nil {
		return c, err
	}
	c.User = cmp.Or(valueOr(me.User.Email, ""), me.User.ID)
	if me.Org != nil {
		c.OrgID, c.Org = me.Org.ID, valueOr(me.Org.Name, me.Org.ID)
	}
	return c, nil
}
