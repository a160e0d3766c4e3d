package httpapi

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"collab/adapters/httpapi/budget"
	"collab/domain/fault"
)

// Budgets are the bytes that all requests of one server may take at once. One
// caller, or one address where there is no caller, has at most as much of each as
// remains free.
type Budgets struct {
	Anonymous int64 // memory for requests whose caller is not known
	Callers   int64 // memory for bodies of known callers
	Spool     int64 // disk for what waits in files

	Connections int64 // memory for connections and the headers of requests
}

// ParseBudgets reads "anonymous=64MiB,callers=256MiB,connections=1GiB,spool=2GiB" over the defaults
// of a server that takes uploads of so many bytes.
func ParseBudgets(s string, maxUpload int64) (Budgets, error) {
	// The longest body of an upload is longestWriting times its content, and a single
	// caller may have half.
	b := Budgets{Anonymous: 64 << 20, Callers: 256 << 20, Connections: 1 << 30, Spool: 16 * maxUpload}
	if s == "" {
		return b, nil
	}
	seen := map[string]bool{}
	for part := range strings.SplitSeq(s, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		to := map[string]*int64{"anonymous": &b.Anonymous, "callers": &b.Callers, "connections": &b.Connections, "spool": &b.Spool}[name]
		count, unit := value, int64(0)
		for suffix, size := range map[string]int64{"MiB": 1 << 20, "GiB": 1 << 30} {
			if n, ok := strings.CutSuffix(value, suffix); ok {
				count, unit = n, size
			}
		}
		n, err := strconv.ParseInt(count, 10, 32)
		if to == nil || seen[name] || err != nil || n < 1 || n > 1<<20 || unit == 0 {
			return Budgets{}, fmt.Errorf("%q is not a budget such as callers=256MiB, of anonymous, callers, connections or spool, in MiB or GiB", part)
		}
		seen[name], *to = true, n*unit
	}
	for name, least := range map[string][2]int64{"anonymous": {b.Anonymous, 4 << 20}, "callers": {b.Callers, 16 << 20}, "connections": {b.Connections, 16 << 20}, "spool": {b.Spool, 2 * maxUpload}} {
		if least[0] < least[1] {
			return Budgets{}, fmt.Errorf("%s must be at least %d MiB", name, (least[1]+1<<20-1)>>20)
		}
	}
	return b, nil
}

// requestCost is what a request of a caller who is not known counts for before any
// of its body is read, in bytes: its headers, its goroutine and its buffers.
const requestCost = 16 << 10

// known reports whether the request came with credentials that count.
func (c *call) known() bool { return c.caller.User != "" || c.operator }

// account returns the account of memory for what is read of the request.
func (c *call) account() *budget.Account {
	a, of := &c.anonymous, c.budgets.anonymous
	if c.known() {
		a, of = &c.bodies, c.budgets.callers
	}
	if a.Budget == nil {
		a.Budget, a.Holder = of, c.holder()
	}
	return a
}

// disk returns the account of what waits in files for the request.
func (c *call) disk() *budget.Account {
	if c.files.Budget == nil {
		c.files.Budget, c.files.Holder = c.budgets.spool, c.holder()
	}
	return &c.files
}

// holder is whose share of a budget the request takes from.
func (c *call) holder() string {
	if c.caller.User != "" {
		return string(c.caller.User)
	}
	return network(c.address)
}

// hold takes n bytes of memory for the call, until release or its end. It fails at
// once where the budget does not have them.
func (c *call) hold(n int64) error {
	if c.account().Take(n) {
		return nil
	}
	full := fault.New(fault.Unavailable, "There is no memory for the request now")
	full.RetryAfter = 1
	return full
}

// release gives n bytes back that were held for the same actor.
func (c *call) release(n int64) { c.account().Give(n) }

// settle gives back what the call still holds.
func (c *call) settle() {
	c.anonymous.Close()
	c.bodies.Close()
	c.files.Close()
}

// mounted answers with a handler that is none of the interface's: its requests are
// charged as those of anybody who sends messages.
func (a *api) mounted(to http.Handler) handler {
	return func(c *call) error {
		if err := a.webhooks.take(c, network(c.address)); err != nil {
			return err
		}
		withdrawLimits(c)
		if err := c.hold(requestCost); err != nil {
			return err
		}
		body, err := c.read(maxBody)
		if err != nil {
			return err
		}
		c.r.Body, c.r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		to.ServeHTTP(c, c.r)
		return nil
	}
}

// budgets are those of a server.
type budgets struct{ anonymous, callers, spool *budget.Budget }

func newBudgets(b Budgets) *budgets {
	return &budgets{budget.New(b.Anonymous), budget.New(b.Callers), budget.New(b.Spool)}
}

// instrumentBudgets makes the instruments of the budgets.
func (a *api) instrumentBudgets() error {
	used, err := a.Meter.Int64ObservableUpDownCounter("collab.budget.used",
		metric.WithUnit("By"), metric.WithDescription("Bytes that requests hold of a budget."))
	if err != nil {
		return err
	}
	refusals, err := a.Meter.Int64ObservableCounter("collab.budget.refusals",
		metric.WithUnit("{refusal}"), metric.WithDescription("Times that a budget did not have what a request needed."))
	if err != nil {
		return err
	}
	_, err = a.Meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		for name, b := range map[string]*budget.Budget{"anonymous": a.budgets.anonymous, "callers": a.budgets.callers, "connections": a.Connections, "spool": a.budgets.spool} {
			of := metric.WithAttributes(attribute.String("budget", name))
			o.ObserveInt64(used, b.Used(), of)
			o.ObserveInt64(refusals, b.Refusals(), of)
		}
		return nil
	}, used, refusals)
	return err
}
