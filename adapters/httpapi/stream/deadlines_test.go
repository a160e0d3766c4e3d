package stream

import (
	"context"
	"errors"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"
)

type key string

// begin returns the deadlines and the context of a request that carries a value.
func begin(t *testing.T) (*Deadlines, context.Context) {
	r := httptest.NewRequest("GET", "/", nil)
	d := Start(httptest.NewRecorder(), r, time.Now())
	return &d, d.Context(context.WithValue(t.Context(), key("parent"), 1))
}

func TestWorkEndsAtItsLimit(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*Deadlines)
		after  time.Duration
	}{
		"as it is":               {func(*Deadlines) {}, WorkTimeout},
		"extended":               {func(d *Deadlines) { d.Extend(time.Minute) }, WorkTimeout + time.Minute},
		"extended twice":         {func(d *Deadlines) { d.Extend(time.Hour); d.Extend(time.Minute) }, WorkTimeout + time.Minute},
		"extended by its answer": {func(d *Deadlines) { d.ExtendFor(60 * MinRate) }, WorkTimeout + time.Minute},
	} {
		for _, waited := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					d, ctx := begin(t)
					defer d.End()
					began := time.Now()
					if waited {
						_ = ctx.Done()
					}
					time.Sleep(WorkTimeout / 2)
					test.change(d)
					child, cancel := context.WithCancel(ctx)
					defer cancel()
					<-child.Done()
					if took := time.Since(began); took != test.after || !errors.Is(context.Cause(child), ErrLate) || !errors.Is(context.Cause(ctx), ErrLate) {
						t.Errorf("it ended after %v with %v", took, context.Cause(child))
					}
				})
			})
		}
	}
}

func TestWorkWithoutLimitContinues(t *testing.T) {
	for _, waited := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			d, ctx := begin(t)
			defer d.End()
			if waited {
				_ = ctx.Done()
			}
			d.Clear()
			d.Extend(time.Minute)
			time.Sleep(24 * time.Hour)
			if ctx.Err() != nil {
				t.Errorf("waited for: %t: it ended with %v", waited, context.Cause(ctx))
			}
		})
	}
}

func TestEndEndsWork(t *testing.T) {
	for _, waited := range []bool{false, true} {
		d, ctx := begin(t)
		if waited {
			_ = ctx.Done()
		}
		d.End()
		<-ctx.Done()
		if !errors.Is(ctx.Err(), context.Canceled) || !errors.Is(context.Cause(ctx), context.Canceled) {
			t.Errorf("waited for: %t: it ended with %v", waited, context.Cause(ctx))
		}
	}
}

func TestWorkCarriesValuesThatAreAddedLater(t *testing.T) {
	for _, waited := range []bool{false, true} {
		d, ctx := begin(t)
		defer d.End()
		if waited {
			_ = ctx.Done()
		}
		d.AddValue(func(parent context.Context) context.Context { return context.WithValue(parent, key("added"), 2) })
		child, cancel := context.WithCancel(ctx)
		defer cancel()
		if child.Value(key("parent")) != 1 || child.Value(key("added")) != 2 || child.Value(key("none")) != nil {
			t.Errorf("waited for: %t: it carries %v and %v", waited, child.Value(key("parent")), child.Value(key("added")))
		}
	}
}
