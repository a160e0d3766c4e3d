package httpapi

import (
	"bytes"
	"context"
	"net/http"
	"strconv"
	"time"

	"collab/adapters/httpapi/body"
	"collab/adapters/httpapi/limit"
	"collab/adapters/httpapi/spool"
	"collab/adapters/httpapi/stream"
	"collab/app/access"
	"collab/domain/fault"
	"collab/domain/id"
)

// call is one request, and the http.ResponseWriter of its response.
type call struct {
	r       *http.Request
	began   time.Time         // the beginning of the request
	id      string            // the request's id
	address string            // the client's network address without its port
	route   *endpoint         // nil until one matched
	vars    map[string]string // the parameters of the path
	params  body.Query        // of a request that writes

	caller        access.Caller // of the request's token; the zero value for none
	operator      bool          // the request has the operator's secret
	provisional   bool          // the caller is admitted and not yet authorized
	authorized    bool          // authorize was called: the body must not be read after that
	callerRefused bool          // authorize has refused the caller

	body       []byte // the request's body once it was read
	bodyRead   bool
	spooled    *spool.Spool // the body, if it is stored to be read again
	operations int          // of the batch in spooled

	w            http.ResponseWriter // the connection, or the recorder of a response that is stored
	headerValues [8]string           // memory for the values of Set
	headerCount  int
	status       int                          // as sent
	bytes        int64                        // of the response's body
	sent         bool                         // the status was sent
	clientClosed bool                         // the client closed the connection
	incomplete   bool                         // a stream ended before its last event
	position     func(context.Context) string // of the response to a change; nil: it has none
	recordID     string                       // the id of the record that the request creates; empty: a new one

	deadlines stream.Deadlines

	budgets         *budgets
	anonymousMemory limit.Account // until the caller is known
	callerMemory    limit.Account
	disk            limit.Account
	storeMemory     int64 // bytes of callerMemory that are reserved by holdStoreMemory
	recordMemory    int   // bytes of callerMemory that are reserved by holdRecordMemory

	requestPermit, databasePermit limit.Permit // of the organisation's shares, see shares.of
	permitErr                     error        // of acquirePermit
}

// Set sets a header, whose name is given in its canonical form.
func (c *call) Set(name, value string) {
	if c.headerCount == len(c.headerValues) {
		c.Header()[name] = []string{value}
		return
	}
	c.headerValues[c.headerCount] = value
	c.headerCount++
	c.Header()[name] = c.headerValues[c.headerCount-1 : c.headerCount : c.headerCount]
}

// Header returns the response's headers.
func (c *call) Header() http.Header { return c.w.Header() }

// WriteHeader sends the status.
func (c *call) WriteHeader(status int) {
	if status >= 200 && !c.sent {
		c.status, c.sent = status, true
	}
	c.w.WriteHeader(status)
}

// Write sends a part of the body.
func (c *call) Write(b []byte) (int, error) {
	if !c.sent {
		c.status, c.sent = http.StatusOK, true
	}
	n, err := c.w.Write(b)
	c.bytes += int64(n)
	return n, err
}

// recorded reports whether the response is recorded, and stored for its idempotency key.
func (c *call) recorded() bool {
	_, ok := c.w.(*recorder)
	return ok
}

// Unwrap lets http.ResponseController reach the connection, for deadlines,
// flushing and taking it over.
func (c *call) Unwrap() http.ResponseWriter { return c.w }

// FlushError sends what is buffered, for http.ResponseController.
func (c *call) FlushError() error {
	if !c.sent {
		c.status, c.sent = http.StatusOK, true
	}
	return http.NewResponseController(c.w).Flush()
}

// ExtendFor extends the deadlines for n more bytes of the response.
func (c *call) ExtendFor(n int) { c.deadlines.ExtendFor(c.bytes + int64(n)) }

// ClientClosed records that the client closed the connection, and returns the error.
func (c *call) ClientClosed(err error) error {
	c.clientClosed = true
	return err
}

// template returns the matched route's path as in the table.
func (c *call) template() string {
	if c.route == nil {
		return "unmatched"
	}
	return c.route.Path
}

// pathID returns an id in the path. A malformed id is treated like that of a record that does not exist.
func pathID[T ~string](c *call, name, kind string) (T, error) {
	v, ok := id.Parse[T](c.vars[name])
	if !ok {
		return "", fault.Missing(kind)
	}
	return v, nil
}

var jsonType = []string{"application/json"}

// send writes a whole JSON body.
func (c *call) send(status int, body []byte) { c.sendAs(jsonType, status, body) }

// sendAs writes a whole body of a media type.
func (c *call) sendAs(mediaType []string, status int, body []byte) {
	c.Header()["Content-Type"] = mediaType
	c.Set("Content-Length", strconv.Itoa(len(body)))
	c.sendBody(status, body)
}

// sendBody writes a whole body, whose headers are set, with the position after a change.
func (c *call) sendBody(status int, body []byte) {
	if c.position != nil && status < http.StatusMultipleChoices {
		c.Set(positionHeader, c.position(c.r.Context()))
	}
	c.ExtendFor(len(body))
	c.releasePermit()
	c.WriteHeader(status)
	// A write fails only if the client closed the connection.
	_, _ = c.Write(body)
}

// sendTagged writes a whole body of a media type with its entity tag, or 304 if the request has the tag.
func (c *call) sendTagged(mediaType []string, tag string, body []byte) error {
	if c.notModified(tag) {
		return nil
	}
	c.Set("Etag", tag)
	c.sendAs(mediaType, http.StatusOK, body)
	return nil
}

// reply replies with a view.
func (c *call) reply(status int, view any) error {
	return c.replyView(status, func(b []byte) ([]byte, error) { return appendView(b, view) })
}

// replyView replies with the view of a record that write appends, whose memory is charged to the caller. A response
// that is recorded is charged when it is sent.
func (c *call) replyView(status int, write func([]byte) ([]byte, error)) (err error) {
	b := stream.GetBuffer()
	defer stream.PutBuffer(b)
	if c.recordMemory > cap(*b) {
		*b = make([]byte, 0, c.recordMemory)
	}
	if *b, err = write(*b); err != nil {
		return err
	}
	*b = append(*b, '\n')
	if len(*b) <= freeResponse && cap(*b) > freeResponse {
		*b = bytes.Clone(*b)
	}
	if !c.recorded() {
		if _, err := c.holdResponse(c.recordMemory, cap(*b)); err != nil {
			return err
		}
	}
	c.send(status, *b)
	return nil
}

// replyWith returns a function that replies with the view of a use case's result, or returns
// its error.
func replyWith[R, V any](c *call, status int, view func(R) V) func(R, error) error {
	return func(result R, err error) error {
		if err != nil {
			return err
		}
		return c.reply(status, view(result))
	}
}

// viewEach returns a function that returns the views of several results.
func viewEach[R, V any](view func(R) V) func([]R) []V {
	return func(all []R) []V {
		views := make([]V, len(all))
		for i, one := range all {
			views[i] = view(one)
		}
		return views
	}
}

// succeedUnless returns err, or calls succeed if it is nil.
func (c *call) succeedUnless(err error) error {
	if err != nil {
		return err
	}
	return c.succeed()
}

// succeed replies to a request without a result, such as a deletion.
func (c *call) succeed() error {
	c.send(http.StatusOK, success)
	return nil
}

var success = []byte(`{"success":true}` + "\n")
