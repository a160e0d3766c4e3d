// Package cluster starts a fleet on loopback: several servers behind a balancer, on one Postgres
// server, one NATS server and one object store that speaks S3's protocol.
package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"collab/test/loopback"
	"collab/test/nats"
	"collab/test/objectstore"
	"collab/test/postgres"
)

// The secrets of every cluster. Its servers listen on loopback only.
const (
	AdminSecret     = "operator-of-the-cluster"
	IdentityWebhook = "whsec_aWRlbnRpdHktd2ViaG9va3Mtb2YtdGhlLWNsdXN0ZXI="
	PaymentWebhook  = "whsec_payments-of-the-cluster"
)

// The parts that all servers of a cluster use.
const (
	partPostgres = "postgres"
	partNATS     = "nats"
	partStore    = "store"
)

// Options configure Start.
type Options struct {
	Servers int    // how many servers run, at least 1
	Dir     string // an existing folder for data and logs, which Close leaves alone

	// Command returns a process of a server that is configured by its environment, to which
	// Start appends variables.
	Command func() (*exec.Cmd, error)

	// Settings are further variables of all servers, as NAME=value. They override those of Start.
	Settings []string

	// ServerSettings, if set, returns further variables of one server, counted from 0.
	ServerSettings func(server int) []string

	// Proxy, if set, returns the address of a proxy of a part of the cluster, partPostgres, partNATS or
	// partStore, whose own address is given, both as host:port.
	Proxy func(part, address string) (string, error)

	// Postgres are the database server's options that differ from the default.
	Postgres postgres.Options
}

// Cluster is a running fleet.
type Cluster struct {
	URL      string // of the balancer, the public address
	Servers  []*Server
	Postgres *postgres.Server
	Database string // address of the servers' database
	NATS     *nats.Server
	Store    *objectstore.Store

	balancer *balancer
}

// Start starts a cluster and returns when all of its servers answer. Close ends it.
func Start(ctx context.Context, o Options) (_ *Cluster, err error) {
	c := &Cluster{}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.Close())
		}
	}()
	if c.Postgres, err = postgres.Start(ctx, o.Postgres); err != nil {
		return nil, err
	}
	if c.Database, err = c.Postgres.Database(ctx, "collab"); err != nil {
		return nil, err
	}
	if c.NATS, err = nats.Listen(); err != nil {
		return nil, err
	}
	content := filepath.Join(o.Dir, "store")
	if err := os.MkdirAll(content, 0o700); err != nil {
		return nil, err
	}
	if c.Store, err = objectstore.ListenS3(content); err != nil {
		return nil, err
	}
	if c.balancer, err = newBalancer(); err != nil {
		return nil, err
	}
	c.URL = c.balancer.url

	addresses := map[string]string{partPostgres: c.Database, partNATS: c.NATS.URL, partStore: c.Store.Address}
	for part, host := range map[string]string{partPostgres: c.Postgres.Host(), partNATS: strings.TrimPrefix(c.NATS.URL, "nats://"), partStore: c.Store.Host} {
		if o.Proxy == nil {
			break
		}
		to, err := o.Proxy(part, host)
		if err != nil {
			return nil, err
		}
		addresses[part] = strings.Replace(addresses[part], host, to, 1)
	}
	settings := slices.Concat([]string{
		"COLLAB_PUBLIC_URL=" + c.URL, "COLLAB_TRUSTED_PROXIES=127.0.0.1", "COLLAB_DATABASE_URL=" + addresses[partPostgres], "COLLAB_BUS_URL=" + addresses[partNATS],
		"COLLAB_BLOB_URL=" + addresses[partStore], "COLLAB_ADMIN_SECRET=" + AdminSecret,
		"COLLAB_IDENTITY_WEBHOOK_SECRETS=" + IdentityWebhook, "COLLAB_STRIPE_WEBHOOK_SECRETS=" + PaymentWebhook,
	}, c.Store.Credentials)
	for i := range o.Servers {
		s := &Server{dir: filepath.Join(o.Dir, "server-"+strconv.Itoa(i+1)), command: o.Command}
		more := o.Settings
		if o.ServerSettings != nil {
			more = slices.Concat(more, o.ServerSettings(i))
		}
		if s.settings, err = c.settings(settings, more); err != nil {
			return nil, err
		}
		if err := os.MkdirAll(s.dir, 0o700); err != nil {
			return nil, err
		}
		c.Servers = append(c.Servers, s)
		if err := loopback.Start(func(port int) error {
			s.port = port
			return s.Start(ctx)
		}); err != nil {
			return nil, fmt.Errorf("server %d: %w", i+1, err)
		}
		c.balancer.add(s.URL())
	}
	return c, nil
}

// settings returns the variables of the next server. The first one makes the keys for all. It also
// runs the development providers for all, unless the settings name others: then the others call its
// payment provider.
func (c *Cluster) settings(common, more []string) ([]string, error) {
	if len(c.Servers) == 0 {
		return slices.Concat(common, more), nil
	}
	data := c.Servers[0].data()
	keys := []string{"COLLAB_TOKEN_KEYS=" + filepath.Join(data, "token-keys.pem"), "COLLAB_SECRETS_KEYS=" + filepath.Join(data, "secrets-keys.json")}
	var payments struct{ Key string }
	file, err := os.ReadFile(filepath.Join(data, "dev-payments.json"))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return slices.Concat(common, keys, more), nil
	case err != nil:
		return nil, err
	}
	if err := json.Unmarshal(file, &payments); err != nil {
		return nil, err
	}
	return slices.Concat(common, keys, []string{
		"COLLAB_STRIPE_API_URL=" + c.URL + "/dev/payments", "COLLAB_STRIPE_SECRET_KEY=" + payments.Key,
		"COLLAB_STRIPE_PRICE_STANDARD=price_standard", "COLLAB_STRIPE_PRICE_PREMIUM=price_premium",
	}, more), nil
}

// Close ends all processes, the servers first, and waits until they have ended.
func (c *Cluster) Close() error {
	var all []error
	for _, s := range c.Servers {
		all = append(all, s.stop())
	}
	if c.balancer != nil {
		all = append(all, c.balancer.server.Close())
	}
	if c.Store != nil {
		c.Store.Stop()
	}
	if c.NATS != nil {
		c.NATS.Stop()
	}
	if c.Postgres != nil {
		all = append(all, c.Postgres.Close())
	}
	return errors.Join(all...)
}
