package stream

import (
	"context"
	"errors"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"collab/test/must"
)

type key string

// testDeadlines runs test as a subtest in a bubble of synctest with the deadlines of a request and their context,
// which has a value: once as they begin, and once after Done was called.
func testDeadlines(t *testing.T, name string, test func(t *testing.T, d *Deadlines, ctx context.Context)) {
	for called, prefix := range map[bool]string{false: "before Done ", true: "after Done "} {
		t.Run(prefix+name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := Start(httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil), time.Now())
				defer d.End()
				ctx := d.Context(context.WithValue(t.Context(), key("parent"), 1))
				if called {
					_ = ctx.Done()
				}
				test(t, &d, ctx)
			})
		})
	}
}

func TestContextEndsAtTheDeadline(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*Deadlines)
		after  time.Duration
	}{
		"unchanged":    {func(*Deadlines) {}, WorkTimeout},
		"Extend":       {func(d *Deadlines) { d.Extend(time.Minute) }, WorkTimeout + time.Minute},
		"Extend twice": {func(d *Deadlines) { d.Extend(time.Minute); d.Extend(time.Hour) }, WorkTimeout + time.Hour},
		"Extend less":  {func(d *Deadlines) { d.Extend(time.Hour); d.ExtendFor(60 * MinRate) }, WorkTimeout + time.Hour},
		"ExtendFor":    {func(d *Deadlines) { d.ExtendFor(60 * MinRate) }, WorkTimeout + time.Minute},
		"16 GiB":       {func(d *Deadlines) { d.ExtendFor(16 << 30) }, WorkTimeout + 16<<30/MinRate*time.Second},
	} {
		testDeadlines(t, name, func(t *testing.T, d *Deadlines, ctx context.Context) {
			began := time.Now()
			time.Sleep(WorkTimeout / 2)
			test.change(d)
			child, cancel := context.WithCancel(ctx)
			defer cancel()
			<-child.Done()
			must.Is(t, test.after, time.Since(began))
			must.FailIs(t, context.Cause(child), ErrTimeout)
			must.FailIs(t, context.Cause(ctx), ErrTimeout)
		})
	}
}

func TestContext(t *testing.T) {
	testDeadlines(t, "Clear removes the deadline", func(t *testing.T, d *Deadlines, ctx context.Context) {
		d.Clear()
		d.Extend(time.Minute)
		time.Sleep(24 * time.Hour)
		must.Succeed(t, context.Cause(ctx))
	})
	testDeadlines(t, "End cancels", func(t *testing.T, d *Deadlines, ctx context.Context) {
		d.End()
		<-ctx.Done()
		if !errors.Is(ctx.Err(), context.Canceled) || !errors.Is(context.Cause(ctx), context.Canceled) {
			t.Errorf("the errors are %v and %v", ctx.Err(), context.Cause(ctx))
		}
	})
	testDeadlines(t, "AddValue adds to the values of the parent", func(t *testing.T, d *Deadlines, ctx context.Context) {
		d.AddValue(func(parent context.Context) context.Context { return context.WithValue(parent, key("added"), 2) })
		child, cancel := context.WithCancel(ctx)
		defer cancel()
		if child.Value(key("parent")) != 1 || child.Value(key("added")) != 2 || child.Value(key("none")) != nil {
			t.Errorf("the values are %v and %v", child.Value(key("parent")), child.Value(key("added")))
		}
	})
}
