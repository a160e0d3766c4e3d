package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"collab/adapters/encode"
	"collab/adapters/httpapi/body"
	"collab/adapters/httpapi/limit"
	"collab/adapters/httpapi/stream"
	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/org"
)

// maxPageBytes is the length from which on a page gets no more records, in bytes: it is
// buffered until its Link header is known.
const maxPageBytes = 4 << 20

// maxLists is the limit of the concurrent complete lists of one caller. Each holds a database connection while it is
// read, and memory or disk while it is sent.
const maxLists = 4

// errPageFull ends the reading of a list after a full page.
var errPageFull = errors.New("the page is full")

// public makes a response cacheable for all clients, and removes the RateLimit headers,
// which belong to one.
func (c *call) public(caching []string) {
	c.Header()["Cache-Control"] = caching
	limit.RemoveHeaders(c.Header())
}

// appendView appends a view as JSON, without HTML escapes.
func appendView(dst []byte, view any) ([]byte, error) {
	w := bytes.NewBuffer(dst)
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	if err := e.Encode(view); err != nil {
		return dst, err
	}
	return w.Bytes()[:w.Len()-1], nil
}

// jsonTime is a time in a view.
type jsonTime time.Time

// MarshalJSON implements json.Marshaler.
func (m jsonTime) MarshalJSON() ([]byte, error) {
	return encode.AppendTime(make([]byte, 0, 26), time.Time(m)), nil
}

// timeOrNull is an optional time in a view.
func timeOrNull(t *time.Time) *jsonTime {
	if t == nil {
		return nil
	}
	return new(jsonTime(*t))
}

// textOrNull returns a text of a view, which is null if it is empty.
func textOrNull[T ~string](s T) *string {
	if s == "" {
		return nil
	}
	return new(string(s))
}

// An appender appends one record of a list.
type appender[T any] func(dst []byte, v T) ([]byte, error)

// viewAppender returns the appender of a record's view.
func viewAppender[T, V any](view func(T) V) appender[T] {
	return func(dst []byte, v T) ([]byte, error) { return appendView(dst, view(v)) }
}

// replyTagged returns a function that replies with a record and the entity tag of its version,
// or returns the error.
func replyTagged[R any](c *call, status int, write appender[R], version func(R) int64) func(R, error) error {
	return func(result R, err error) error {
		if err != nil {
			return err
		}
		c.Set("Etag", etag(version(result)))
		return c.replyView(status, func(b []byte) ([]byte, error) { return write(b, result) })
	}
}

// A lister calls each with the records of a list that the actor can see, in their order.
type lister[T any] func(actor org.Actor, each func(T) error) error

// A pageLister calls each with the records after a position, at most limit; 0 for all.
type pageLister[T, P any] func(ctx context.Context, actor org.Actor, after P, limit int, each func(T) error) error

// listHandler returns a handler of a list without filters.
func listHandler[T, V, P any](a *api, position func(T) body.Position, view func(T) V, after func(body.Position) P,
	read pageLister[T, P]) handler {
	return func(c *call) error {
		q, p, err := c.listQuery()
		if err != nil {
			return err
		}
		return list(a, c, q, p, position, viewAppender(view), func(actor org.Actor, each func(T) error) error {
			return read(c.r.Context(), actor, after(p.After), p.Fetch(), each)
		})
	}
}

// timePosition returns the position of a list in the order of a time.
func timePosition[T ~string](p body.Position) id.Position[T] {
	return id.Position[T]{At: p.At, ID: T(p.ID)}
}

// list replies with the array of the records of read. It authorizes the actor after it has acquired the caller's
// semaphore for complete lists. A complete list is sent while it is read, and read waits for a slow client at most
// stream.ListTimeout, or as long as necessary if p.Waits. A page is buffered until it is known whether there is a next
// one, for its Link header.
func list[T any](a *api, c *call, q body.Query, p body.Page, position func(T) body.Position, write appender[T],
	read lister[T]) error {
	return listWithin(a, c, q, p, position, write, func(actor org.Actor, text func([]byte), each func(T) error) error {
		text([]byte{'['})
		err := read(actor, each)
		text([]byte("]\n"))
		return err
	})
}

// listUnconfirmed is list that calls try for the unconfirmed actor first. Try returns, before any record,
// org.ErrEpochChanged if the organisation's epoch is not the actor's, or NotFound if that or the list is empty.
func listUnconfirmed[T any](a *api, c *call, q body.Query, p body.Page, position func(T) body.Position,
	write appender[T], try, read lister[T]) error {
	return listRecords(a, c, q, p, position, write, func(text func([]byte), each func(T) error) error {
		text([]byte{'['})
		ended, err := tryUnconfirmed(a, c, func(cached org.Actor) (ended, refused error) {
			if ended = try(cached, each); fault.Is(ended, fault.NotFound) || errors.Is(ended, org.ErrEpochChanged) {
				return nil, ended
			}
			return ended, nil
		}, func(actor org.Actor) (error, error) { return read(actor, each), nil })
		if err == nil || fault.Is(err, fault.NotFound) {
			err = ended
		}
		text([]byte("]\n"))
		return err
	})
}

// listWithin is list for a response with more than the array: read calls text with the parts before the first record
// and after the last.
func listWithin[T any](a *api, c *call, q body.Query, p body.Page, position func(T) body.Position, write appender[T],
	read func(actor org.Actor, text func([]byte), each func(T) error) error) error {
	return listRecords(a, c, q, p, position, write, func(text func([]byte), each func(T) error) error {
		actor, err := a.authorize(c)
		if err != nil {
			return err
		}
		return read(actor, text, each)
	})
}

// listRecords is listWithin that leaves it to read to authorize the actor.
func listRecords[T any](a *api, c *call, q body.Query, p body.Page, position func(T) body.Position, write appender[T],
	read func(text func([]byte), each func(T) error) error) error {
	if p.Limit == 0 && c.caller.User != "" {
		c.databasePermit.Release() // of an idempotency key: lists that hold the semaphore may wait for it
		done, err := a.lists.Acquire(c.r.Context(), string(c.caller.User))
		if err != nil {
			return err
		}
		defer done()
	}
	out := stream.NewList(c, p.Waits, a.confirmation(c, func(org.Actor) bool { return true }))
	defer out.Close()
	b := stream.GetBuffer()
	defer func() { stream.PutBuffer(b) }()
	var page struct {
		records int // records
		held    int // bytes of the buffer that are charged
		last    body.Position
		more    bool // there is a next page
	}
	err := read(func(text []byte) { *b = append(*b, text...) }, func(v T) (err error) {
		if p.Limit > 0 && (page.records == p.Limit || len(*b) >= maxPageBytes) {
			page.more = true
			return errPageFull
		}
		if page.records > 0 {
			*b = append(*b, ',')
		}
		page.records++
		if *b, err = write(*b, v); err != nil {
			return err
		}
		if p.Limit > 0 {
			page.last = position(v)
			page.held, err = c.holdResponse(page.held, cap(*b))
		} else if len(*b) >= stream.FlushAt {
			b, err = out.Put(b)
		}
		return err
	})
	if err != nil && !errors.Is(err, errPageFull) {
		return err
	}
	if out.Begun() {
		c.releasePermit()
		if b, err = out.Put(b); err != nil {
			return err
		}
		return out.Finish()
	}
	if page.more {
		c.Set("Link", a.nextLink(c, q, page.last))
	}
	c.send(http.StatusOK, *b)
	return nil
}
