package httpapi

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"collab/adapters/httpapi/limit"
	"collab/app/changes"
)

// observable is an instrument whose value is read when it is collected.
type observable struct {
	name, unit, description string
	read                    metric.Int64Callback
}

// instrument creates the instruments.
func (a *api) instrument() (err error) {
	a.duration, err = a.Meter.Float64Histogram("http.server.request.duration",
		metric.WithUnit("s"), metric.WithDescription("Duration of requests."),
		metric.WithExplicitBucketBoundaries(.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10))
	if err != nil {
		return err
	}
	a.unmatched = a.newSeries("unmatched")
	a.feedDisconnects, err = a.Meter.Int64Counter("collab.feed.disconnects",
		metric.WithUnit("{stream}"), metric.WithDescription("Change feeds that ended, by reason."))

	share := func(value func(limit.SharesStats) int64) metric.Int64Callback {
		return observeEach("kind", a.shares.kinds, func(s *limit.Shares) int64 { return value(s.Stats()) })
	}
	feed := func(value func(changes.Stats) int64) metric.Int64Callback {
		return observe(func() int64 { return value(a.Feed.Stats()) })
	}
	for _, v := range []observable{
		{"http.server.active_requests", "{request}", "Requests being handled.", observe(a.active.Load)},
		{"collab.feed.subscribers", "{stream}", "Change feeds that are open.", feed(func(f changes.Stats) int64 { return f.Subscribers })},
		{"collab.budget.used", "By", "Bytes that requests hold of a budget.", observeEach("budget", a.budgetsByName, (*limit.Budget).Used)},
		{"collab.share.used", "{permit}", "Permits that are held, by kind of work.",
			share(func(s limit.SharesStats) int64 { return s.Used })},
		{"collab.share.waiting", "{request}", "Requests that wait because their organisation has its share or no permit is free.",
			share(func(s limit.SharesStats) int64 { return s.Waiting })},
	} {
		_, failed := a.Meter.Int64ObservableUpDownCounter(v.name, metric.WithUnit(v.unit),
			metric.WithDescription(v.description), metric.WithInt64Callback(v.read))
		err = errors.Join(err, failed)
	}
	for _, v := range []observable{
		{"collab.feed.events", "{event}", "Events handed to subscribers.", feed(func(f changes.Stats) int64 { return f.Delivered })},
		{"collab.feed.backlog_reads", "{page}", "Pages of the log read for a subscriber behind the buffer.",
			feed(func(f changes.Stats) int64 { return f.Reads })},
		{"collab.feed.resyncs", "{stream}", "Cursors that could not be resumed.", feed(func(f changes.Stats) int64 { return f.Resyncs })},
		{"collab.budget.refusals", "{refusal}", "Times that a budget did not have what a request needed.",
			observeEach("budget", a.budgetsByName, (*limit.Budget).Refusals)},
		{"collab.share.refusals", "{refusal}", "Requests refused because their organisation had its share or no permit was free for too long.",
			share(func(s limit.SharesStats) int64 { return s.Refusals })},
	} {
		_, failed := a.Meter.Int64ObservableCounter(v.name, metric.WithUnit(v.unit), metric.WithDescription(v.description), metric.WithInt64Callback(v.read))
		err = errors.Join(err, failed)
	}
	return err
}

// observe returns a callback that observes a value.
func observe(value func() int64) metric.Int64Callback {
	return func(_ context.Context, o metric.Int64Observer) error {
		o.Observe(value())
		return nil
	}
}

// observeEach returns a callback that observes a value of each item, with its name as an attribute.
func observeEach[T any](attributeName string, items func() map[string]T, value func(T) int64) metric.Int64Callback {
	return func(_ context.Context, o metric.Int64Observer) error {
		for name, item := range items() {
			o.Observe(value(item), metric.WithAttributes(attribute.String(attributeName, name)))
		}
		return nil
	}
}
