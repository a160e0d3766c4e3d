package httpapi

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"net/textproto"
	"net/url"
	"strings"
	"testing"
	"time"

	"collab/adapters/memory"
	"collab/app/access"
	"collab/app/idempotency"
	"collab/app/objects"
	"collab/domain/id"
	"collab/domain/org"
	"collab/domain/team"
	"collab/domain/workspace"
	"collab/ports"
	"collab/test/harness"
	"collab/test/must"
)

// fileServer is the endpoints of files over the core, with who calls named by a
// header in the place of a token.
type fileServer struct {
	*api
	core *harness.Deployment
	desk id.Workspace
	crew id.Team
}

// actor returns the actor of a member by name: vic is a VIEWER, eve is of another
// organisation.
func (o *fileServer) actor(t testing.TB, name string) org.Actor {
	t.Helper()
	organisation, role := "org_office", map[string]org.Role{"ada": org.Owner, "ben": org.Member, "vic": org.Viewer, "eve": org.Owner}[name]
	if name == "eve" {
		organisation = "org_elsewhere"
	}
	u, err := o.core.Store.Directory().Users().ByProvider(t.Context(), "user_"+name)
	if err == nil {
		at := must.Do(o.core.Store.Directory().Organisations().ByProvider(t.Context(), organisation)).Or(t)
		return must.Do(o.core.Actor(t.Context(), at.ID, u.ID)).Or(t)
	}
	return must.Do(o.core.Join(t.Context(), organisation, "user_"+name, role)).Or(t)
}

// newFileServer returns a server whose objects the test may change before it
// opens.
func newFileServer(t testing.TB, change ...func(*objects.Options)) *fileServer {
	t.Helper()
	core, err := harness.NewDeployment(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	must.NoError(t, err)
	settings := core.Objects.Options
	for _, fn := range change {
		fn(&settings)
	}
	o := &fileServer{core: core}
	o.api = built(t, func(options *Options) {
		options.Objects = objects.New(settings)
		options.Idempotency = idempotency.New(core.Store, newVault(t), core.Clock, &memory.Secrets{})
	})
	o.api.actorOf = func(ctx context.Context, c access.Caller) (org.Actor, error) { return core.Actor(ctx, c.Org, c.User) }
	table := o.api.routes()
	for i, r := range table {
		if strings.HasPrefix(r.Path, prefix+"/sync/") {
			table[i].Guard, table[i].Handle = public, func(c *call) error {
				actor := o.actor(t, c.r.Header.Get("X-Actor"))
				if err := r.Guard.check(actor); err != nil {
					return err
				}
				c.caller = access.Caller{User: actor.User, Org: actor.Org}
				c.route.databaseShares = o.shares.requests
				return r.Handle(c)
			}
		}
	}
	o.api.inner = must.Do(o.api.router(table)).Or(t)
	for _, name := range []string{"ada", "ben", "vic", "eve"} {
		o.actor(t, name)
	}
	crew := must.Do(core.Teams.Create(t.Context(), o.actor(t, "ada"), team.Draft{Name: "Crew"})).Or(t)
	desk := must.Do(core.Workspaces.Create(t.Context(), o.actor(t, "ada"), workspace.Draft{Name: "Desk", Team: crew.ID})).Or(t)
	o.crew, o.desk = crew.ID, desk.ID
	return o
}

// request is one by ada, unless a header says otherwise. Headers are given as
// "Name: value".
func request(method, target string, body io.Reader, headers ...string) *http.Request {
	r := httptest.NewRequest(method, prefix+"/sync"+target, body)
	r.Header.Set("X-Actor", "ada")
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		r.Header.Set(name, value)
	}
	return r
}

func (o *fileServer) get(target string, headers ...string) *httptest.ResponseRecorder {
	return send(o, request(http.MethodGet, target, nil, headers...))
}

func (o *fileServer) put(target, contentType, body string) *httptest.ResponseRecorder {
	r := request(http.MethodPut, target, strings.NewReader(body))
	r.Header.Set("Content-Type", contentType)
	return send(o, r)
}

// record is a metadata record as clients read it.
type record struct {
	ID          string  `json:"id"`
	StorageKey  string  `json:"storageKey"`
	Path        string  `json:"path"`
	MimeType    string  `json:"mimeType"`
	Size        int64   `json:"size"`
	Checksum    string  `json:"checksum"`
	Version     int64   `json:"version"`
	Kind        string  `json:"kind"`
	Scope       string  `json:"scope"`
	WorkspaceID *string `json:"workspaceId"`
	TeamID      *string `json:"teamId"`
	OwnerID     *string `json:"ownerId"`
	CreatedBy   string  `json:"createdBy"`
	UpdatedBy   string  `json:"updatedBy"`
	CreatedAt   string  `json:"createdAt"`
	UpdatedAt   string  `json:"updatedAt"`
	Deleted     bool    `json:"deleted,omitempty"`
}

type recordWithContent struct {
	record
	Content  string `json:"content"`
	Encoding string `json:"encoding"`
}

// read decodes an answer that must have the status.
func read[T any](t testing.TB, w *httptest.ResponseRecorder, status int) (v T) {
	t.Helper()
	if w.Code != status {
		t.Fatalf("%d %.300s, want %d", w.Code, w.Body, status)
	}
	d := json.NewDecoder(bytes.NewReader(w.Body.Bytes()))
	d.DisallowUnknownFields()
	if err := d.Decode(&v); err != nil {
		t.Fatalf("%v in %.300s", err, w.Body)
	}
	return v
}

// store uploads a text under a path.
func (o *fileServer) store(t testing.TB, path, text string, query ...string) record {
	t.Helper()
	target := "/files?path=" + path
	for _, q := range query {
		target += "&" + q
	}
	return read[record](t, send(o, request(http.MethodPost, target, strings.NewReader(text))), http.StatusCreated)
}

// content reads a file's bytes.
func (o *fileServer) content(t testing.TB, of string) string {
	t.Helper()
	w := o.get("/files/" + of + "?raw=1")
	if w.Code != http.StatusOK {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	return w.Body.String()
}

func checksum(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// forms writes an upload in each of its forms, with its fields in the order in
// which they are given: "name=value", and "content" where the content stands.
var forms = map[string]func(content string, fields ...string) (contentType, query string, body []byte){
	"raw": func(content string, fields ...string) (string, string, []byte) {
		query := ""
		for _, f := range fields {
			if name, value, ok := strings.Cut(f, "="); ok {
				query += "&" + name + "=" + url.QueryEscape(value)
			}
		}
		return "application/octet-stream", strings.TrimPrefix(query, "&"), []byte(content)
	},
	"multipart": func(content string, fields ...string) (string, string, []byte) {
		var b bytes.Buffer
		m := multipart.NewWriter(&b)
		for _, f := range fields {
			if name, value, ok := strings.Cut(f, "="); ok {
				_ = m.WriteField(name, value)
				continue
			}
			part, _ := m.CreatePart(textproto.MIMEHeader{
				"Content-Disposition": {`form-data; name="file"; filename="named.bin"`},
				"Content-Type":        {"application/octet-stream"},
			})
			_, _ = part.Write([]byte(content))
		}
		_ = m.Close()
		return m.FormDataContentType(), "", b.Bytes()
	},
	"JSON": func(content string, fields ...string) (string, string, []byte) {
		return "application/json", "", jsonUpload(content, "utf8", fields)
	},
	"JSON in base64": func(content string, fields ...string) (string, string, []byte) {
		return "application/vnd.collab+json; charset=utf-8", "", jsonUpload(content, "base64", fields)
	},
}

func jsonUpload(content, encoding string, fields []string) []byte {
	quote := func(s string) []byte { b, _ := json.Marshal(s); return b }
	text := quote(content)
	if encoding == "base64" {
		text, _ = json.Marshal([]byte(content))
	}
	b := []byte(" {")
	for _, f := range fields {
		name, value, ok := strings.Cut(f, "=")
		switch {
		case !ok:
			b = fmt.Appendf(b, "%s : %s ,", quote("content"), text)
		case name == "expectedVersion":
			b = fmt.Appendf(b, "%s:%s,", quote(name), value)
		case name == "encoding": // where it stands among the fields
			b = fmt.Appendf(b, "%s:%s,", quote(name), quote(encoding))
		default:
			b = fmt.Appendf(b, "%s:%s,", quote(name), quote(value))
		}
	}
	if !strings.Contains(strings.Join(fields, ","), "encoding=") {
		b = fmt.Appendf(b, "%s:%s,", quote("encoding"), quote(encoding))
	}
	b[len(b)-1] = '}'
	return append(b, '\n')
}

// uploading is a request to upload in a form.
func uploading(form, method, target, content string, fields ...string) *http.Request {
	contentType, query, body := forms[form](content, fields...)
	if query != "" {
		target += "?" + query
	}
	return request(method, target, bytes.NewReader(body), "Content-Type: "+contentType)
}

// damagedBlobs hands content out in another form than it was stored in.
type damagedBlobs struct {
	ports.Blobs
	change func([]byte) []byte
}

func (b damagedBlobs) Open(ctx context.Context, name string, offset, length int64) (io.ReadCloser, error) {
	r, err := b.Blobs.Open(ctx, name, 0, -1)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	all, err := io.ReadAll(r)
	if err != nil {
		return nil, err
	}
	if all = b.change(all)[offset:]; length >= 0 && length < int64(len(all)) {
		all = all[:length]
	}
	return io.NopCloser(bytes.NewReader(all)), nil
}
