package httpapi

import (
	"cmp"
	"context"
	"net/http"
	"time"

	"collab/domain/fault"
)

type stateView struct {
	Status  string `json:"status"`
	Version string `json:"version"`
}

type readyView struct {
	stateView
	Schema         int64  `json:"schema"`
	CompatibleFrom string `json:"compatibleFrom"`
}

// alive replies with 200 while the process runs.
func (a *api) alive(c *call) error {
	c.Header()["Cache-Control"] = noStore
	return c.reply(http.StatusOK, stateView{"ok", a.Release})
}

// readyTimeout is the limit of the readiness check, for a database that accepts connections and does not answer.
const readyTimeout = 5 * time.Second

// checkReady returns the error of a.Ready. Concurrent requests share one check, because anyone may send any number of
// them and each check uses the database.
func (a *api) checkReady() error {
	_, err, _ := a.readiness.Do("", func() (any, error) {
		ctx, cancel := context.WithTimeout(context.Background(), readyTimeout)
		defer cancel()
		return nil, a.Ready(ctx)
	})
	return err
}

// ready replies with 200 if requests can be served, else 503.
func (a *api) ready(c *call) error {
	c.Header()["Cache-Control"] = noStore
	if err := a.checkReady(); err != nil {
		return fault.Wrap(fault.Unavailable, err, "The service is not ready")
	}
	return c.reply(http.StatusOK, readyView{stateView{"ready", a.Release}, a.Schema, a.Compatible})
}

// maxScrapes is the limit of concurrent responses with all measurements. Each needs a megabyte for compression, which is
// not charged to a budget, because measurements are needed most when all budgets are used up.
const maxScrapes = 8

// metrics returns the handler of /metrics, nil if there is none. A response is sent when it
// is complete, so that slow clients do not count for maxScrapes; a long one is then charged
// to the budget.
func (a *api) metrics() handler {
	if a.Metrics == nil {
		return nil
	}
	scrapes := make(chan struct{}, maxScrapes)
	scrape := func(c *call) (*recorder, error) {
		select {
		case scrapes <- struct{}{}:
			defer func() { <-scrapes }()
		default:
			return nil, fault.New(fault.Unavailable, "Measurements are being read too often now").RetryIn(1)
		}
		recorded := &recorder{w: c, release: c.databasePermit.Release}
		a.Metrics.ServeHTTP(recorded, c.r)
		return recorded, nil
	}
	return func(c *call) error {
		recorded, err := scrape(c)
		if err != nil || recorded.streaming {
			return err
		}
		if size := int64(recorded.body.Len()); size > requestMemory {
			if err := c.Hold(size); err != nil {
				c.Header().Del("Content-Encoding")
				return err
			}
		}
		c.WriteHeader(cmp.Or(recorded.status, http.StatusOK))
		_, _ = c.Write(recorded.body.Bytes()) // it fails if the client closed the connection
		return nil
	}
}

var cacheFiveMinutes = []string{"public, max-age=300"}

func (a *api) jwks(c *call) error {
	c.public(cacheFiveMinutes)
	c.send(http.StatusOK, a.JWKS)
	return nil
}

func (a *api) document(c *call) error {
	c.public(cacheFiveMinutes)
	return c.sendTagged(jsonType, a.documentTag, a.Document)
}
