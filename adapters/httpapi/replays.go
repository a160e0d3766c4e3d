package httpapi

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"collab/adapters/httpapi/body"
	"collab/adapters/httpapi/spool"
	"collab/adapters/httpapi/stream"
	"collab/app/idempotency"
	"collab/domain/fault"
	"collab/domain/org"
)

// maxKey is the longest idempotency key, in characters.
const maxKey = 255

// settleTimeout bounds storing a response, also after the client closed the connection.
const settleTimeout = 5 * time.Second

// storedResponse is the response that is stored for an idempotency key.
type storedResponse struct {
	Status int               `json:"status"`
	Header map[string]string `json:"header"`
	Body   []byte            `json:"body"`
	Long   bool              `json:"long,omitempty"` // the body was too long to be stored
}

// storedHeaders are the stored headers of a response.
var storedHeaders = append([]string{
	"Content-Type", "Etag", "Cache-Control", "Link", "Location", uploadComplete, uploadOffset, uploadLength, uploadLimit,
}, metadataHeaders...)

// maxStored is the longest response that is stored, in bytes.
const maxStored = 1 << 20

// recorder records a response, which is sent once it is stored. Event streams are sent live
// and stored at their end, for which they are charged; a response that is too long to be stored
// is sent live from there on.
type recorder struct {
	w         http.ResponseWriter
	status    int
	body      bytes.Buffer
	events    bool   // the response is an event stream
	streaming bool   // the response is sent as it is written
	tooLong   bool   // the response is too long to be stored
	release   func() // called before a long response is sent live

	held int                               // bytes of body that are charged
	hold func(held, size int) (int, error) // call.holdResponse
}

func (r *recorder) Header() http.Header { return r.w.Header() }

func (r *recorder) WriteHeader(status int) {
	r.status = status
	if r.events = r.Header().Get("Content-Type") == stream.EventStream; r.events {
		r.streaming = true
		r.w.WriteHeader(status)
	}
}

func (r *recorder) Write(b []byte) (int, error) {
	if r.status == 0 {
		r.status = http.StatusOK
	}
	if !r.tooLong && r.body.Len()+len(b) > maxStored {
		r.tooLong = true
		held := r.body.Bytes()
		r.body = bytes.Buffer{}
		if !r.streaming {
			r.streaming = true
			r.release()
			r.w.WriteHeader(r.status)
			if _, err := r.w.Write(held); err != nil {
				return 0, err
			}
		}
	}
	if !r.tooLong {
		r.body.Write(b)
	}
	if r.events && !r.tooLong {
		var err error
		if r.held, err = r.hold(r.held, r.body.Cap()); err != nil { // there is no memory to store it
			r.tooLong, r.body = true, bytes.Buffer{}
		}
	}
	if !r.streaming {
		return len(b), nil
	}
	return r.w.Write(b)
}

// sentLong reports whether the response was sent unrecorded because it is too long.
func (r *recorder) sentLong() bool { return r.tooLong && !r.events }

// FlushError sends the buffered part of an event stream.
func (r *recorder) FlushError() error { return http.NewResponseController(r.w).Flush() }

// SetWriteDeadline sets the deadline of the response. One that has passed, by which a list stops sending, is only that
// of a response that is sent live.
func (r *recorder) SetWriteDeadline(deadline time.Time) error {
	if !r.streaming && deadline.Before(time.Now()) {
		return nil
	}
	return http.NewResponseController(r.w).SetWriteDeadline(deadline)
}

// idempotent handles a request with an idempotency key: it replays the stored response, or
// handles the request and stores the response.
func (a *api) idempotent(c *call, keys []string, handle handler) error {
	if len(keys) != 1 || !validKey(keys[0]) {
		return fault.New(fault.Invalid, "Idempotency-Key must be 1 to %d printable characters", maxKey)
	}
	digest, err := a.digestRequest(c)
	if err != nil {
		return err
	}
	if err := c.acquirePermit(); err != nil {
		return err
	}
	attempt, err := a.Idempotency.Begin(c.r.Context(), keyOwner(c), c.route.Method+" "+c.route.Path, keys[0], digest)
	if err != nil {
		return err
	}
	if response, ok := attempt.Response(); ok {
		if c.route.Guard.token() {
			if _, err := a.authorize(c); err != nil {
				return err
			}
		}
		return c.replay(response)
	}
	return a.handleOnce(c, attempt, handle)
}

// handleOnce handles the first request with an idempotency key, and stores and sends the response.
func (a *api) handleOnce(c *call, attempt *idempotency.Attempt, handle handler) error {
	recorded := &recorder{w: c.w, release: c.databasePermit.Release, hold: c.holdResponse}
	err := a.record(c, recorded, attempt, handle)
	c.releasePermit()
	if recorded.streaming {
		return err
	}
	return c.sendRecorded(recorded)
}

// record handles the request and settles its key: it stores the recorded response, or abandons the attempt. It returns
// an error only after a response that was too long to be recorded.
func (a *api) record(c *call, recorded *recorder, attempt *idempotency.Attempt, handle handler) error {
	stopRenewing := a.renewClaim(c, attempt)
	store := false
	defer func() { // also if the handler panics
		if c.w = recorded.w; !recorded.streaming {
			c.sent, c.bytes = false, 0
		}
		stopRenewing()
		if !store && !recorded.sentLong() {
			a.settleKey(c, attempt.Abandon)
			return
		}
		a.settleKey(c, func(ctx context.Context) error {
			response, err := json.Marshal(responseOf(recorded))
			if err != nil {
				return err
			}
			return attempt.Finish(ctx, response)
		})
	}()
	c.w, c.recordID = recorded, attempt.RecordID()
	err := a.recheck(c, handle(c))
	if recorded.sentLong() {
		return err
	}
	if err != nil {
		recorded.body.Reset()
		c.writeError(a.classify(c, err))
	}
	store = c.storable(recorded)
	return nil
}

// storable reports whether a recorded response is stored. Responses of 500 and above are not, nor those that limit or
// refuse the caller, so that the request can be retried. Without a caller only a success is, as anyone could have
// refusals stored.
func (c *call) storable(recorded *recorder) bool {
	switch status := recorded.status; {
	case status >= http.StatusInternalServerError, status == http.StatusTooManyRequests, status == http.StatusUnauthorized,
		c.callerRefused, c.clientClosed, c.incomplete, recorded.tooLong:
		return false
	default:
		return c.authenticated() || status < http.StatusMultipleChoices
	}
}

// sendRecorded sends a recorded response.
func (c *call) sendRecorded(recorded *recorder) error {
	if _, err := c.holdResponse(0, recorded.body.Cap()); err != nil {
		// A repetition of the request gets the stored response.
		for _, name := range storedHeaders {
			if name != "Cache-Control" {
				c.Header().Del(name)
			}
		}
		return err
	}
	c.WriteHeader(recorded.status)
	_, _ = c.Write(recorded.body.Bytes())
	return nil
}

// createOrGet returns the record that create makes of the draft, or the one that an earlier attempt of the request has
// created.
func createOrGet[D any, I ~string, T any](
	c *call, actor org.Actor, d D, create func(context.Context, org.Actor, D) (T, error),
	get func(context.Context, org.Actor, I) (T, error),
) (T, error) {
	v, err := create(c.r.Context(), actor, d)
	if c.recordID == "" || !fault.Is(err, fault.Conflict) {
		return v, err
	}
	if found, e := get(c.r.Context(), actor, I(c.recordID)); e == nil {
		return found, nil
	}
	return v, err
}

// settleKey calls fn, which changes the stored record of the request's key, also after the client closed the
// connection.
func (a *api) settleKey(c *call, fn func(context.Context) error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.r.Context()), settleTimeout)
	defer cancel()
	if err := fn(ctx); err != nil {
		a.Log.LogAttrs(ctx, slog.LevelError, "idempotency key not settled", slog.String("request", c.id), slog.String("error", err.Error()))
	}
}

// renewClaim renews the claim of the key every idempotency.RenewEvery until stop is called.
func (a *api) renewClaim(c *call, attempt *idempotency.Attempt) (stop func()) {
	var mu sync.Mutex
	mu.Lock()
	defer mu.Unlock()
	stopped := false
	var timer *time.Timer
	timer = time.AfterFunc(idempotency.RenewEvery, func() {
		mu.Lock()
		defer mu.Unlock()
		if stopped {
			return
		}
		a.settleKey(c, attempt.Renew)
		timer.Reset(idempotency.RenewEvery)
	})
	return func() {
		mu.Lock()
		defer mu.Unlock()
		stopped = true
		timer.Stop()
	}
}

// responseOf returns the response to store.
func responseOf(r *recorder) storedResponse {
	response := storedResponse{Status: r.status, Header: map[string]string{}, Body: r.body.Bytes(), Long: r.tooLong}
	for _, name := range storedHeaders {
		if v := r.Header().Get(name); v != "" {
			response.Header[name] = v
		}
	}
	return response
}

// replay replies with a stored response.
func (c *call) replay(stored []byte) error {
	var response storedResponse
	if err := json.Unmarshal(stored, &response); err != nil {
		return err
	}
	if response.Long {
		return fault.New(fault.Conflict, "The first request with this Idempotency-Key was carried out, and its answer was too long to be kept")
	}
	if _, err := c.holdResponse(0, len(response.Body)); err != nil {
		return err
	}
	h := c.Header()
	for name, v := range response.Header {
		h.Set(name, v)
	}
	h.Set("Idempotent-Replayed", "true")
	c.sendBody(response.Status, response.Body)
	return nil
}

// keyOwner returns the owner of a request's key: its caller, or its address if there is
// none.
func keyOwner(c *call) string {
	if c.caller.User != "" {
		return "user " + string(c.caller.User) + " " + string(c.caller.Org)
	}
	return "address " + c.address
}

// digestRequest reads the whole body, which the handler can read again, and returns the digest by which a repetition of
// the request is recognised.
func (a *api) digestRequest(c *call) (digest [32]byte, err error) {
	var content []byte
	switch c.route.Path {
	case filesPath:
		content, err = a.spoolUpload(c, c.r.Header, "")
	case resumablePath: // content of any type
		content, err = a.spoolUpload(c, nil, c.r.Header.Get(uploadLength))
	case batchPath:
		content, err = c.spoolBatch()
	default:
		content, err = c.read(body.MaxJSON)
	}
	if err != nil {
		return digest, err
	}
	h := sha256.New()
	for _, part := range [][]byte{[]byte(c.r.Method), []byte(c.r.URL.EscapedPath()), []byte(c.r.URL.RawQuery), content} {
		_ = binary.Write(h, binary.BigEndian, uint64(len(part)))
		h.Write(part)
	}
	return [32]byte(h.Sum(nil)), nil
}

// spoolUpload reads the body of an upload into the spool and returns a digest: that of the parts of a form, or else
// that of the body, its type and the length. The header decides whether the body is a form.
func (a *api) spoolUpload(c *call, header http.Header, length string) ([]byte, error) {
	f, err := body.ParseFormType(header, c.r.ContentLength, a.Objects.MaxSize)
	if err != nil {
		return nil, err
	}
	spooled, hash := spool.New(c), sha256.New()
	c.spooled = spooled
	if err := spooled.Fill(io.TeeReader(c.deadlines.Body(c.r, true), hash), f.Limit, f.TooLarge); err != nil {
		return nil, err
	}
	c.r.ContentLength = spooled.Size
	sum := hash.Sum([]byte(f.MimeType + "\n" + length))
	if f.Boundary == "" {
		return sum, nil
	}
	parts, err := body.DigestForm(spooled, f.Boundary, c)
	switch {
	case err == nil:
		sum = parts
	case !fault.Is(err, fault.Invalid): // else the handler reports the error
		return nil, err
	}
	return sum, spooled.Rewind()
}

func validKey(key string) bool {
	for i := range len(key) {
		if key[i] < 0x20 || key[i] > 0x7e {
			return false
		}
	}
	return len(key) >= 1 && len(key) <= maxKey
}
