package httpapi

import (
	"bytes"
	"io"
	"net/http"

	"collab/adapters/httpapi/body"
	"collab/adapters/httpapi/limit"
	"collab/adapters/httpapi/stream"
	"collab/app/objects"
	"collab/domain/fault"
	"collab/domain/org"
)

// requestMemory is the memory that an anonymous request is charged before its body is read,
// in bytes: its headers, its goroutine and its buffers.
const requestMemory = 16 << 10

// authenticated reports whether the request has valid credentials.
func (c *call) authenticated() bool { return c.caller.User != "" || c.operator }

// account returns the account to which the memory of the request is charged.
func (c *call) account() *limit.Account {
	account, budget := &c.anonymousMemory, c.budgets.anonymous
	if c.authenticated() {
		account, budget = &c.callerMemory, c.budgets.callers
	}
	if account.Budget == nil {
		account.Budget, account.Holder = budget, c.holder()
	}
	return account
}

// HoldDisk reserves n bytes of disk until the end of the call, and reports whether it succeeded.
func (c *call) HoldDisk(n int64) bool {
	if c.disk.Budget == nil {
		c.disk.Budget, c.disk.Holder = c.budgets.spool, c.holder()
	}
	return c.disk.Take(n)
}

// holder returns the key under which budgets count the request.
func (c *call) holder() string {
	if c.caller.User != "" {
		return string(c.caller.User)
	}
	return limit.Network(c.address)
}

// Hold reserves n bytes of memory until Release or the end of the call. It returns an error at once if the budget does
// not have them.
func (c *call) Hold(n int64) error {
	if c.account().Take(n) {
		return nil
	}
	return fault.New(fault.Unavailable, "There is no memory for the request now").RetryIn(1)
}

// Release returns n bytes that were held for the same actor.
func (c *call) Release(n int64) { c.account().Give(n) }

// freeResponse is the size of the largest buffer of a response that is not charged, in bytes: that of the largest in
// the pool of package stream.
const freeResponse = 2 * stream.FlushAt

// holdResponse reserves the memory of a response's buffer of size bytes until the end of the call, beside held bytes
// that are reserved for it already, and returns how many are.
func (c *call) holdResponse(held, size int) (int, error) {
	if size <= max(held, freeResponse) {
		return held, nil
	}
	if err := c.Hold(int64(size - held)); err != nil {
		return held, err
	}
	return size, nil
}

// holdRecordMemory reserves the memory of a response with a record of at most size bytes, before the change that the
// response reports, so that a change is not made whose response cannot be sent. It may be called again.
func (c *call) holdRecordMemory(size int) (err error) {
	if !c.recorded() { // else a repetition of the request gets the response
		c.recordMemory, err = c.holdResponse(c.recordMemory, size)
	}
	return err
}

// withRecordMemory returns an action that reserves the memory of the record first, which has at most size bytes.
func withRecordMemory[T, B any](size int, do func(*call, org.Actor, T, B) error) func(*call, org.Actor, T, B) error {
	return func(c *call, actor org.Actor, record T, fields B) error {
		if err := c.holdRecordMemory(size); err != nil {
			return err
		}
		return do(c, actor, record, fields)
	}
}

// holdStoreMemory reserves the memory that the store takes for the content of u until the end of the call. A request
// stores one content after the other, so that only the largest counts.
func (a *api) holdStoreMemory(c *call, u *objects.Upload) error {
	size := a.Objects.StoreMemory(u)
	if size <= c.storeMemory {
		return nil
	}
	if err := c.Hold(size - c.storeMemory); err != nil {
		return err
	}
	c.storeMemory = size
	return nil
}

// releaseAll returns all bytes and permits that the call still holds, and closes its spool.
func (c *call) releaseAll() {
	if c.spooled != nil {
		_ = c.spooled.Close() // the file is unlinked
	}
	c.anonymousMemory.Close()
	c.callerMemory.Close()
	c.disk.Close()
	c.requestPermit.Release()
	c.databasePermit.Release()
}

// mounted returns a handler that passes requests to another one, charged as webhooks are.
func (a *api) mounted(to http.Handler) handler {
	return func(c *call) error {
		if err := a.webhooks.Take(c, limit.Network(c.address)); err != nil {
			return err
		}
		limit.RemoveHeaders(c.Header())
		if err := c.Hold(requestMemory); err != nil {
			return err
		}
		body, err := c.read(body.MaxJSON)
		if err != nil {
			return err
		}
		c.r.Body, c.r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		to.ServeHTTP(c, c.r)
		return nil
	}
}

// budgets are the budgets of a server.
type budgets struct{ anonymous, callers, spool *limit.Budget }

func newBudgets(b limit.Budgets) *budgets {
	return &budgets{limit.NewBudget(b.Anonymous), limit.NewBudget(b.Callers), limit.NewBudget(b.Spool)}
}
