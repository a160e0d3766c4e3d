package storm

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/Shopify/toxiproxy/v2"
	_ "github.com/Shopify/toxiproxy/v2/toxics" // registers the kinds
	"github.com/rs/zerolog"

	"collab/test/cluster"
	"collab/test/collabd"
	"collab/test/contract/provider"
	"collab/test/loopback"
	"collab/test/must"
	"collab/test/postgres"
	"collab/test/toolserver"
)

const (
	servers = 3
	model   = "claude-haiku-5-5"
)

// skews are the differences of the servers' clocks from that of the machine: at most five minutes
// apart.
var skews = [servers]time.Duration{0, -maxSkew, maxSkew}

const maxSkew = 150 * time.Second

// Why a chat has no complete answer.
var (
	errNoResponse = errors.New("no answer")
	errCutOff     = errors.New("cut off")
	errChunk      = errors.New("an error chunk")
)

// fleet is a cluster with its providers, and a fault-injecting proxy in front of each part.
type fleet struct {
	testing.TB
	cluster *cluster.Cluster
	standby *postgres.Server
	relay   *relay

	providers *collabd.Server // the development providers
	state     string          // the file of the payment provider
	bucket    string          // the address of the store, without a proxy

	proxies map[string]*toxiproxy.Proxy
	control map[string]*sync.Mutex // of each proxy and server, by part or number

	mu       sync.Mutex
	toxics   int            // a number for their names; guarded by mu
	injected map[string]int // guarded by mu
}

// relay forwards requests to the development providers. It delivers each of their webhooks to the
// cluster twice, in any order, until it is accepted.
type relay struct {
	url       string
	to        string   // the cluster; set before the first webhook
	providers *url.URL // set before the first request
	forward   *httputil.ReverseProxy
	stop      context.CancelFunc
	ctx       context.Context
	running   sync.WaitGroup

	mu        sync.Mutex
	random    *rand.Rand
	delivered map[string]int // by path and status; guarded by mu
	pending   int            // guarded by mu
}

func newRelay(t testing.TB, seed uint64) *relay {
	r := &relay{random: rand.New(rand.NewPCG(seed, 1<<33)), delivered: map[string]int{}}
	r.ctx, r.stop = context.WithCancel(context.Background())
	r.forward = &httputil.ReverseProxy{
		Rewrite:      func(p *httputil.ProxyRequest) { p.SetURL(r.providers); p.Out.Host = p.In.Host },
		ErrorLog:     log.New(io.Discard, "", 0), // broken connections are injected
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
	}
	l := must.Do(net.Listen("tcp", "127.0.0.1:0")).Or(t)
	server := &http.Server{Handler: r}
	go func() { _ = server.Serve(l) }() // until Close
	t.Cleanup(func() {
		r.stop()
		r.running.Wait()
		_ = server.Close() // nothing is forwarded any more
	})
	r.url = "http://" + l.Addr().String()
	return r
}

func (r *relay) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	if !strings.HasSuffix(q.URL.Path, "/webhook") {
		r.forward.ServeHTTP(w, q)
		return
	}
	body, err := io.ReadAll(q.Body)
	if err != nil {
		return // the provider sends it again
	}
	for range 2 {
		r.mu.Lock()
		after := time.Duration(r.random.IntN(2000)) * time.Millisecond
		r.pending++
		r.mu.Unlock()
		r.running.Go(func() { r.deliver(after, q.URL.Path, q.Header.Clone(), body) })
	}
}

func (r *relay) deliver(after time.Duration, path string, header http.Header, body []byte) {
	for pause(r.ctx, after); r.ctx.Err() == nil; pause(r.ctx, time.Second) {
		ctx, cancel := context.WithTimeout(r.ctx, attemptTimeout)
		q, err := http.NewRequestWithContext(ctx, http.MethodPost, r.to+path, bytes.NewReader(body))
		if err != nil {
			cancel()
			return
		}
		q.Header = header
		status := 0
		if response, err := http.DefaultClient.Do(q); err == nil {
			status = response.StatusCode
			response.Body.Close()
		}
		cancel()
		r.mu.Lock()
		r.delivered[fmt.Sprint(path, " ", status)]++
		if status == http.StatusOK {
			r.pending--
		}
		r.mu.Unlock()
		if status == http.StatusOK {
			return
		}
	}
}

// waiting returns how many deliveries are not accepted yet.
func (r *relay) waiting() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.pending
}

// start starts everything.
func start(t testing.TB, seed uint64) *fleet {
	zerolog.SetGlobalLevel(zerolog.Disabled) // the proxies log each connection
	s := &fleet{TB: t, injected: map[string]int{}, proxies: map[string]*toxiproxy.Proxy{}, control: map[string]*sync.Mutex{}}
	for i := range servers {
		s.control[strconv.Itoa(i)] = &sync.Mutex{}
	}
	dir := t.TempDir()
	tools := toolserver.Start(t)
	catalog := filepath.Join(dir, "connectors.json")
	text := fmt.Sprintf(`{"providers": [{"serverId": "tools", "displayName": "Tools", "description": "Tools.", "authMode": "API_KEY", "mcpTransport": "HTTP",
		"mcpUrl": %q, "credentials": [{"name": "apiKey", "label": "Key"}], "headers": {"X-Api-Key": "{apiKey}"}}]}`, tools.HTTP())
	must.NoError(t, os.WriteFile(catalog, []byte(text), 0o600))
	models := provider.Start(t)
	models.Choose(func(r provider.Request) provider.Script {
		pieces := make([]string, 8)
		for i := range pieces {
			pieces[i] = strings.Repeat("rain and ", 20)
		}
		return provider.Script{provider.SetUsage(provider.Usage{Input: 10, Output: r.MaxTokens}), provider.Text(pieces...)}
	})

	s.relay = newRelay(t, seed)
	identity := "http://" + strings.Replace(s.through("identity", strings.TrimPrefix(s.relay.url, "http://")), "127.0.0.1", "localhost", 1)
	payments := "http://" + s.through("payments", strings.TrimPrefix(s.relay.url, "http://"))
	s.providers = collabd.Start(t, "COLLAB_PUBLIC_URL="+identity,
		"COLLAB_IDENTITY_WEBHOOK_SECRETS="+cluster.IdentityWebhook, "COLLAB_STRIPE_WEBHOOK_SECRETS="+cluster.PaymentWebhook)
	s.relay.providers = must.Do(url.Parse(s.providers.URL)).Or(t)
	s.state = filepath.Join(s.providers.Dir, "dev-payments.json")
	file, err := os.ReadFile(s.state)
	var key struct{ Key string }
	if err == nil {
		err = json.Unmarshal(file, &key)
	}
	must.NoError(t, err)

	s.cluster, err = cluster.Start(t.Context(), cluster.Options{
		Servers: servers, Dir: dir, Command: collabd.Process,
		ServerSettings: func(i int) []string { return []string{collabd.ShiftedClock(skews[i])} },
		Proxy:          func(part, address string) (string, error) { return s.through(part, address), nil },
		Settings: []string{
			"COLLAB_RATE_LIMITS=off", "COLLAB_HEARTBEAT=2s", "COLLAB_LOG_FORMAT=json",
			"COLLAB_IDENTITY_ISSUER=" + identity + "/dev/identity", "COLLAB_IDENTITY_CLIENT_ID=storm", "COLLAB_APP_URL=http://localhost/",
			"COLLAB_STRIPE_API_URL=" + payments + "/dev/payments", "COLLAB_STRIPE_SECRET_KEY=" + key.Key,
			"COLLAB_STRIPE_PRICE_STANDARD=price_standard", "COLLAB_STRIPE_PRICE_PREMIUM=price_premium",
			"COLLAB_ANTHROPIC_API_KEY=key", "COLLAB_ANTHROPIC_URL=http://" + s.through("models", strings.TrimPrefix(models.Anthropic(), "http://")),
			"COLLAB_CONNECTORS_FILE=" + catalog, "COLLAB_CONNECTOR_NETWORKS=127.0.0.0/8,::1/128",
		},
		Postgres: postgres.Options{NoSync: true, Settings: map[string]string{"synchronous_commit": "on"}},
	})
	must.NoError(t, err)
	t.Cleanup(func() {
		err := s.cluster.Close()
		if s.standby != nil {
			err = errors.Join(err, s.standby.Close())
		}
		for _, p := range s.proxies {
			p.Stop()
		}
		must.Succeed(t, err)
	})
	s.relay.to, s.bucket = s.cluster.URL, s.cluster.Store.Address
	s.cluster.Store.Setenv(t) // checks read the store
	s.standby = must.Do(s.cluster.Postgres.Standby(t.Context())).Or(t)
	return s
}

// through starts a proxy in front of a part and returns its address.
func (s *fleet) through(part, upstream string) string {
	s.control[part] = &sync.Mutex{}
	must.NoError(s, loopback.Start(func(port int) error {
		s.proxies[part] = toxiproxy.NewProxy(toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop()), part, fmt.Sprint("127.0.0.1:", port), upstream)
		return s.proxies[part].Start()
	}))
	return s.proxies[part].Listen
}

// inject injects a fault and takes it back. Faults of one target come one after the other, and none
// begins once the context has ended.
func (s *fleet) inject(ctx context.Context, f plannedFault) error {
	control := s.control[f.Target]
	control.Lock()
	defer control.Unlock()
	if ctx.Err() != nil {
		return nil
	}
	what := f.Kind
	if slices.Contains(parts, f.Target) {
		what += " " + f.Target
	}
	s.mu.Lock()
	s.injected[what]++
	s.mu.Unlock()
	switch f.Kind {
	case "killed", "frozen", "slowed":
		i, err := strconv.Atoi(f.Target)
		if err != nil {
			return err
		}
		return s.disturb(ctx, s.cluster.Servers[i], f)
	case "failed over":
		return s.failOver(ctx)
	case "cut":
		s.proxies[f.Target].Stop()
		pause(ctx, f.Length)
		return s.proxies[f.Target].Start()
	case "delayed":
		return s.toxic(ctx, f, "latency", map[string]any{"latency": f.Value, "jitter": f.Value / 2})
	case "throttled":
		return s.toxic(ctx, f, "bandwidth", map[string]any{"rate": f.Value})
	case "reset after some time":
		return s.toxic(ctx, f, "reset_peer", map[string]any{"timeout": f.Value})
	case "reset after some bytes":
		return s.toxic(ctx, f, "limit_data", map[string]any{"bytes": f.Value})
	}
	return fmt.Errorf("a fault of the unknown kind %s", f.Kind)
}

// disturb kills, freezes or slows a server.
func (s *fleet) disturb(ctx context.Context, server *cluster.Server, f plannedFault) error {
	switch f.Kind {
	case "killed":
		if err := server.Kill(); err != nil {
			return err
		}
		pause(ctx, f.Length/2)
		for began := time.Now(); ; pause(context.Background(), 100*time.Millisecond) { // as a supervisor does
			if err := server.Start(context.Background()); err == nil || time.Since(began) > recovery {
				return err
			}
		}
	case "frozen":
		if err := server.Signal(syscall.SIGSTOP); err != nil {
			return err
		}
		pause(ctx, f.Length)
	case "slowed":
		for began := time.Now(); time.Since(began) < f.Length; pause(ctx, 20*time.Millisecond) {
			if err := server.Signal(syscall.SIGSTOP); err != nil {
				return err
			}
			pause(context.Background(), 80*time.Millisecond)
			if err := server.Signal(syscall.SIGCONT); err != nil {
				return err
			}
		}
	}
	return server.Signal(syscall.SIGCONT)
}

// toxic adds a toxic to the responses of a part for the length of the fault.
func (s *fleet) toxic(ctx context.Context, f plannedFault, kind string, attributes map[string]any) error {
	s.mu.Lock()
	s.toxics++
	name := fmt.Sprint(kind, "-", s.toxics)
	s.mu.Unlock()
	config, err := json.Marshal(map[string]any{"name": name, "type": kind, "stream": "downstream", "toxicity": 0.5, "attributes": attributes})
	if err != nil {
		return err
	}
	toxics := s.proxies[f.Target].Toxics
	if _, err := toxics.AddToxicJson(bytes.NewReader(config)); err != nil {
		return err
	}
	pause(ctx, f.Length)
	return toxics.RemoveToxic(context.Background(), name)
}

// failOver ends the primary, promotes the standby in its place and starts a new standby.
func (s *fleet) failOver(ctx context.Context) error {
	proxy, next := s.proxies["postgres"], s.standby
	proxy.Stop()
	if err := s.cluster.Postgres.Close(); err != nil {
		return fmt.Errorf("the primary: %w", err)
	}
	if err := next.Promote(context.WithoutCancel(ctx)); err != nil {
		return fmt.Errorf("promoting: %w", err)
	}
	s.cluster.Database = strings.Replace(s.cluster.Database, s.cluster.Postgres.Host(), next.Host(), 1)
	s.cluster.Postgres, proxy.Upstream = next, next.Host()
	if err := proxy.Start(); err != nil {
		return err
	}
	var err error
	if s.standby, err = next.Standby(context.WithoutCancel(ctx)); err != nil {
		return fmt.Errorf("the new standby: %w", err)
	}
	return nil
}
