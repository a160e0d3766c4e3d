package httpapi

import (
	"bytes"
	"context"
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

// fileServer is an interface over the core whose endpoints under /sync take the name of the caller in the header
// X-Actor, in the place of a token.
type fileServer struct {
	*api
	core    *harness.Deployment
	members map[string]org.Actor // as they joined
	crew    id.Team
	desk    id.Workspace // of the crew, of which ada is the only member
}

// actor returns the present actor of a member.
func (o *fileServer) actor(t testing.TB, name string) org.Actor {
	t.Helper()
	return must.Do(o.core.Actor(t.Context(), o.members[name].Org, o.members[name].User)).Or(t)
}

// newFileServer returns a server whose options of objects the functions may change.
func newFileServer(t testing.TB, change ...func(*objects.Options)) *fileServer {
	t.Helper()
	core, err := harness.NewDeployment(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	must.NoError(t, err)
	ofObjects := core.Objects.Options
	for _, fn := range change {
		fn(&ofObjects)
	}
	o := &fileServer{core: core, members: map[string]org.Actor{}}
	o.api = newAPI(t, func(options *Options) {
		options.Objects = objects.New(ofObjects)
		options.Idempotency = idempotency.New(core.Store, newVault(t), core.Clock, &memory.Secrets{})
	})
	o.actorOf = func(ctx context.Context, c access.Caller) (org.Actor, error) { return core.Actor(ctx, c.Org, c.User) }
	table := o.routes()
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
	o.setRoutes(t, table...)
	join := func(organisation, name string, role org.Role) {
		o.members[name] = must.Do(core.Join(t.Context(), organisation, "user_"+name, role)).Or(t)
	}
	join("org_office", "ada", org.Owner)
	join("org_office", "ben", org.Member)
	join("org_office", "vic", org.Viewer)
	join("org_elsewhere", "eve", org.Owner)
	o.crew = must.Do(core.Teams.Create(t.Context(), o.actor(t, "ada"), team.Draft{Name: "Crew"})).Or(t).ID
	o.desk = must.Do(core.Workspaces.Create(t.Context(), o.actor(t, "ada"), workspace.Draft{Name: "Desk", Team: o.crew})).Or(t).ID
	return o
}

// syncRequest returns a request for a path under /sync, by ada unless a header names another member.
func syncRequest(method, target string, body io.Reader, headers ...string) *http.Request {
	return newRequest(method, prefix+"/sync"+target, body, append([]string{"X-Actor: ada"}, headers...)...)
}

func (o *fileServer) get(target string, headers ...string) *httptest.ResponseRecorder {
	return send(o, syncRequest(http.MethodGet, target, nil, headers...))
}

func (o *fileServer) put(target, contentType, body string) *httptest.ResponseRecorder {
	return send(o, syncRequest(http.MethodPut, target, strings.NewReader(body), "Content-Type: "+contentType))
}

// record is a metadata record as clients decode it.
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

// store creates a file. The path and further parameters are encoded for the query.
func (o *fileServer) store(t testing.TB, path, content string, params ...string) record {
	t.Helper()
	target := "/files?" + strings.Join(append([]string{"path=" + path}, params...), "&")
	return read[record](t, send(o, syncRequest(http.MethodPost, target, strings.NewReader(content))), http.StatusCreated)
}

// content returns a file's content.
func (o *fileServer) content(t testing.TB, of string) string {
	t.Helper()
	w := o.get("/files/" + of + "?raw=1")
	if w.Code != http.StatusOK {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	return w.Body.String()
}

// forms has a function for each form of an upload, which returns it with the fields in their order. A field is
// "name=value", or "content" for the content.
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
		case name == "encoding": // only its place among the fields is given
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

// uploadRequestIn returns a request with an upload in one of the forms.
func uploadRequestIn(form, method, target, content string, fields ...string) *http.Request {
	contentType, query, body := forms[form](content, fields...)
	if query != "" {
		target += "?" + query
	}
	return syncRequest(method, target, bytes.NewReader(body), "Content-Type: "+contentType)
}

// damagedBlobs changes content when it is read.
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
