package httpapi

import (
	"context"
	"net/http"
	"net/url"

	"collab/adapters/httpapi/body"
	"collab/domain/org"
)

// read returns the whole body, of at most limit bytes. It may be called again.
func (c *call) read(limit int64) (_ []byte, err error) {
	if c.bodyRead { // of a request with an idempotency key
		if int64(len(c.body)) > limit {
			return nil, body.TooLarge(limit)
		}
		return c.body, nil
	}
	if c.authorized {
		panic("httpapi: a body is read after its caller was authorized")
	}
	if c.route == nil || c.route.Guard != webhook { // a signed body may have a content encoding
		if err := body.CheckWhole(c.r.Header); err != nil {
			return nil, err
		}
	}
	if c.body, err = body.ReadAll(c.deadlines.Body(c.r, false), c.r.ContentLength, limit, c); err != nil {
		return nil, err
	}
	c.bodyRead = true
	return c.body, nil
}

// fields reads the body as a JSON object.
func (c *call) fields() (*body.Fields, error) {
	data, err := c.read(body.MaxJSON)
	if err != nil {
		return nil, err
	}
	return body.ParseFields(c.r.Header.Get("Content-Type"), data, c)
}

// errorOf returns the error of a result, for the rules that Err asks.
func errorOf[T any](_ T, err error) error { return err }

// onRecord returns an action on the record with the id in the path's parameter; kind is its
// name in errors.
func onRecord[T ~string](param, kind string, do func(*call, org.Actor, T) error) action {
	return func(c *call, actor org.Actor) error {
		record, err := pathID[T](c, param, kind)
		if err != nil {
			return err
		}
		return do(c, actor, record)
	}
}

// readBody reads the fields of the body.
func readBody[B any](c *call, read func(*body.Fields) (B, error)) (fields B, err error) {
	o, err := c.fields()
	if err != nil {
		return fields, err
	}
	return read(o)
}

// withBody returns a handler that reads the fields of the body, authorizes the caller, and acts.
func withBody[B any](a *api, read func(*body.Fields) (B, error), do func(*call, org.Actor, B) error) handler {
	return func(c *call) error {
		fields, err := readBody(c, read)
		if err != nil {
			return err
		}
		actor, err := a.authorize(c)
		if err != nil {
			return err
		}
		return do(c, actor, fields)
	}
}

// onRecordWithBody is withBody for an act on a record, as in onRecord.
func onRecordWithBody[T ~string, B any](a *api, param, kind string, read func(*body.Fields) (B, error), do func(*call, org.Actor, T, B) error) handler {
	return func(c *call) error {
		record, err := pathID[T](c, param, kind)
		if err != nil {
			return err
		}
		return withBody(a, read, func(c *call, actor org.Actor, fields B) error { return do(c, actor, record, fields) })(c)
	}
}

// replies returns an action that replies with the view of the result of do.
func replies[R, V any](view func(R) V, do func(context.Context, org.Actor) (R, error)) action {
	return func(c *call, actor org.Actor) error {
		return replyWith(c, http.StatusOK, view)(do(c.r.Context(), actor))
	}
}

// repliesOn is replies for a do with a record, as in onRecord, or with a body.
func repliesOn[T, R, V any](view func(R) V, do func(context.Context, org.Actor, T) (R, error)) func(*call, org.Actor, T) error {
	return func(c *call, actor org.Actor, record T) error {
		return replyWith(c, http.StatusOK, view)(do(c.r.Context(), actor, record))
	}
}

// repliesWithBody is replies for a do with a record and a body, as in onRecordWithBody.
func repliesWithBody[T, B, R, V any](view func(R) V,
	do func(context.Context, org.Actor, T, B) (R, error)) func(*call, org.Actor, T, B) error {
	return func(c *call, actor org.Actor, record T, fields B) error {
		return replyWith(c, http.StatusOK, view)(do(c.r.Context(), actor, record, fields))
	}
}

// succeeds returns an action whose answer has no result.
func succeeds(do func(context.Context, org.Actor) error) action {
	return func(c *call, actor org.Actor) error { return c.succeedUnless(do(c.r.Context(), actor)) }
}

// succeedsOn returns an action on a record or with a body whose answer has no result.
func succeedsOn[T any](do func(context.Context, org.Actor, T) error) func(*call, org.Actor, T) error {
	return func(c *call, actor org.Actor, record T) error {
		return c.succeedUnless(do(c.r.Context(), actor, record))
	}
}

// oneField returns the function that reads a body of one required field.
func oneField[T any](name string, read body.Reader[T]) func(*body.Fields) (T, error) {
	return func(o *body.Fields) (T, error) {
		v := body.Required(o, name, read)
		return v, o.Err()
	}
}

// listQuery reads the query of a list: its filters, limit and cursor. Unknown parameters are
// refused, so that a misspelt filter never selects everything.
func (c *call) listQuery(filters ...string) (body.Query, body.Page, error) {
	return c.pageQuery(body.ParseCursor, filters)
}

// keyListQuery is listQuery for lists in the order of storage keys.
func (c *call) keyListQuery(filters ...string) (body.Query, body.Page, error) {
	return c.pageQuery(body.ParseKeyCursor, filters)
}

func (c *call) pageQuery(parse func(string) (body.Position, bool), filters []string) (body.Query, body.Page, error) {
	q, err := c.query(append(filters, "limit", "cursor")...)
	if err != nil {
		return body.Query{}, body.Page{}, err
	}
	p, err := q.Page(parse)
	return q, p, err
}

// query reads a query of the known parameters.
func (c *call) query(known ...string) (body.Query, error) {
	return body.ParseQuery(c.r.URL.RawQuery, known...)
}

// withoutQuery returns a handler that refuses parameters.
func withoutQuery(h handler) handler { return withQuery(h) }

// withQuery returns a handler that has the parameters, and refuses all but the known ones.
func withQuery(h handler, known ...string) handler {
	return func(c *call) (err error) {
		if c.params, err = c.query(known...); err != nil {
			return err
		}
		return h(c)
	}
}

// nextLink returns the Link header of the page after last.
func (a *api) nextLink(c *call, q body.Query, last body.Position) string {
	values := url.Values{}
	for name, v := range q.Values {
		values[name] = v
	}
	values.Set("cursor", last.Cursor())
	return "<" + a.PublicURL + c.r.URL.EscapedPath() + "?" + values.Encode() + `>; rel="next"`
}
