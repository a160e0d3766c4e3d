package assembly

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/metric"
	"go.uber.org/fx"

	"collab/adapters/httpapi/limit"
	"collab/app/assembly/config"
	"collab/app/changes"
	"collab/app/chats"
	"collab/domain/fault"
	"collab/ports"
)

// Times of the server. Bodies and responses have deadlines of their own, because streams may
// take long.
const (
	headerTimeout = 10 * time.Second
	idleTimeout   = 2 * time.Minute
	drainTimeout  = 1500 * time.Millisecond // for running requests, from the beginning of the stop
	settleTimeout = 1800 * time.Millisecond // for storing the usage of model calls, likewise
	mailTimeout   = 1800 * time.Millisecond // for e-mail, likewise
	traceTimeout  = 2500 * time.Millisecond // for traces, which are sent after all else, likewise
	upkeepEvery   = 10 * time.Minute
)

// serve runs the HTTP server between start and stop. On stop it accepts no new requests,
// cancels the contexts of streams, and waits drainTimeout for the other requests.
func serve(
	lc fx.Lifecycle, shutdown fx.Shutdowner, l net.Listener, h http.Handler, limiter *limit.Connections,
	feed *changes.Feed, conversations *chats.Chats, d *draining, log *slog.Logger,
) {
	ctx, cancel := context.WithCancel(context.Background())
	server := &http.Server{
		Handler:                      limiter.Handler(h),
		DisableGeneralOptionsHandler: true, // "OPTIONS *" is no endpoint either

		ConnState:         limiter.ConnState,
		ConnContext:       limiter.ConnContext,
		ReadHeaderTimeout: headerTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    64 << 10,
		BaseContext:       func(net.Listener) context.Context { return ctx },
		Protocols:         protocols(),
		HTTP2:             limit.HTTP2(),
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelWarn),
	}
	server.RegisterOnShutdown(func() { d.Store(true) })
	server.RegisterOnShutdown(feed.Drain)
	server.RegisterOnShutdown(conversations.Drain)
	var serving sync.WaitGroup
	lc.Append(fx.StartStopHook(
		func() {
			serving.Go(func() {
				if err := server.Serve(limiter.Listener(l)); !errors.Is(err, http.ErrServerClosed) {
					log.Error("serving failed", "error", err)
					_ = shutdown.Shutdown(fx.ExitCode(1))
				}
			})
		},
		func(stop context.Context) error {
			defer serving.Wait()
			defer cancel()
			drainCtx, cancelDrain := withStopLimit(stop, drainTimeout)
			defer cancelDrain()
			if err := errors.Join(server.Shutdown(drainCtx), conversations.Wait(drainCtx)); err != nil {
				cancel()
				return server.Close()
			}
			return nil
		},
	))
}

// newConnLimiter returns the limiter of connections. It leaves a quarter of the files that the
// process may have open to databases and files.
func newConnLimiter(c config.Config, t telemetry, ids ports.IDs, log *slog.Logger) (*limit.Connections, error) {
	limits := c.Connections
	if files, ok := maxFiles(); ok && files/4*3 < uint64(limits.Total) {
		limits.Total = int(files / 4 * 3)
	}
	exempt := func(a netip.Addr) bool {
		if len(c.Proxies) == 0 {
			return a.IsLoopback() // a proxy on this machine
		}
		return limit.Contains(c.Proxies, a)
	}
	limiter := limit.NewConnections(limits, limit.NewBudget(c.Budgets.Connections-limits.Memory()),
		limit.ConnectionOptions{Exempt: exempt, NewID: ids.New, Log: log})
	_, err := t.meters.Meter("collab").Int64ObservableUpDownCounter("collab.connections.open", metric.WithDescription("Connections of clients."),
		metric.WithInt64Callback(func(_ context.Context, o metric.Int64Observer) error {
			o.Observe(limiter.Open())
			return nil
		}))
	if err != nil {
		return nil, err
	}
	return limiter, t.count(
		counter{"collab.connections.refused", "Connections that there was no room for.", limiter.Refused},
		counter{"collab.connections.evicted", "Connections that waited for their client and were closed for others.", limiter.Evicted},
	)
}

// protocols returns HTTP/1.1, and HTTP/2 without TLS for proxies.
func protocols() *http.Protocols {
	p := new(http.Protocols)
	p.SetHTTP1(true)
	p.SetUnencryptedHTTP2(true)
	return p
}

// withStopLimit returns a context that ends when limit has passed since the stop began. The beginning
// follows from the stop's deadline, which ctx has.
func withStopLimit(stop context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	if end, ok := stop.Deadline(); ok {
		return context.WithDeadline(stop, end.Add(limit-stopTimeout))
	}
	return context.WithTimeout(stop, limit)
}

// draining is set once the server begins to stop, after which it is not ready.
type draining struct{ atomic.Bool }

// schedule repeats work at intervals between start and stop, and logs its errors with the
// message failed.
func schedule(lc fx.Lifecycle, every time.Duration, work func(context.Context) error, log *slog.Logger, message string) {
	run(lc, func(ctx context.Context) { repeat(ctx, every, nil, work, log, message) })
}

// run runs work, which lasts until its context ends, between start and stop.
func run(lc fx.Lifecycle, work func(context.Context)) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	lc.Append(fx.StartStopHook(
		func() {
			go func() {
				defer close(done)
				work(ctx)
			}()
		},
		func() {
			cancel()
			<-done
		},
	))
}

// repeat calls work at intervals, and whenever woken receives, until ctx ends. It logs errors
// and panics with the message failed.
func repeat(ctx context.Context, every time.Duration, wake <-chan struct{}, work func(context.Context) error, log *slog.Logger, message string) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		case <-wake:
		}
		if err := fault.Catch(func() error { return work(ctx) }); err != nil && ctx.Err() == nil {
			log.Error(message, "error", err)
		}
	}
}

// drainHook returns a stop hook that calls fn with a context that ends within the limit of the
// stop, and logs its error with the message failed.
func drainHook(limit time.Duration, fn func(context.Context) error, log func(string, ...any), message string) func(context.Context) {
	return func(stop context.Context) {
		drainCtx, cancel := withStopLimit(stop, limit)
		defer cancel()
		if err := fn(drainCtx); err != nil {
			log(message, "error", err)
		}
	}
}
