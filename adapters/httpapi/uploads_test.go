package httpapi

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"collab/adapters/httpapi/body"
	"collab/domain/object"
	"collab/test/harness"
	"collab/test/must"
)

func TestUploadFormsStoreTheSame(t *testing.T) {
	text := "Zeile 1\n\"zwei\"\t\\ é 文 👩\u2028\x00\x7f" + strings.Repeat("drei ", 100)
	orders := map[string][]string{
		"content last":          {"path=a/b.md", "kind=ARTIFACT", "scope=SHARED", "workspaceId=%s", "mimeType=text/x-test", "checksum=%s", "expectedVersion=0", "encoding=", "content"},
		"content first":         {"content", "path=a/b.md", "kind=ARTIFACT", "scope=SHARED", "workspaceId=%s", "mimeType=text/x-test", "checksum=%s", "expectedVersion=0"},
		"content in the middle": {"scope=SHARED", "path=a/b.md", "workspaceId=%s", "kind=ARTIFACT", "encoding=", "content", "expectedVersion=0", "checksum=%s", "mimeType=text/x-test"},
		"unknown fields":        {"x=1", "path=a/b.md", "content", "kind=ARTIFACT", "y=", "scope=SHARED", "workspaceId=%s", "mimeType=text/x-test"},
	}
	for form := range forms {
		for order, fields := range orders {
			t.Run(form+", "+order, func(t *testing.T) {
				o := newFileServer(t)
				var filled []string
				for _, f := range fields {
					switch name, _, _ := strings.Cut(f, "="); {
					case name == "workspaceId":
						f = fmt.Sprintf(f, o.desk)
					case name == "checksum":
						f = fmt.Sprintf(f, strings.ToUpper(harness.Checksum(text)))
					case form == "raw" && (name == "encoding" || len(name) == 1): // parameters are not ignored
						continue
					case name == "encoding" && !strings.HasPrefix(form, "JSON"):
						f = "ignored=x"
					}
					filled = append(filled, f)
				}
				w := send(o, uploadRequestIn(form, http.MethodPost, "/files", text, filled...))
				got := read[record](t, w, http.StatusCreated)
				if got.Path != "a/b.md" || got.MimeType != "text/x-test" || got.Size != int64(len(text)) || got.Checksum != harness.Checksum(text) || got.Version != 1 ||
					got.Kind != "ARTIFACT" || got.Scope != "SHARED" || got.WorkspaceID == nil || *got.WorkspaceID != string(o.desk) {
					t.Errorf("%+v", got)
				}
				checkHeader(t, w.Header(), map[string]string{"Location": filesPath + "/" + got.ID, "Etag": `"1"`})
				must.Is(t, text, o.content(t, got.ID))

				target := "/files/" + got.ID
				must.Is(t, "text/plain", read[record](t, o.put(target, "text/plain", "other"), http.StatusOK).MimeType)
				filled = slices.DeleteFunc(filled, func(f string) bool {
					name, _, _ := strings.Cut(f, "=")
					return slices.Contains(draftFields, name)
				})
				if expected := slices.Index(filled, "expectedVersion=0"); expected >= 0 {
					checkError(t, send(o, uploadRequestIn(form, http.MethodPut, target, text, filled...)), http.StatusConflict)
					filled[expected] = "expectedVersion=2"
				}
				got = read[record](t, send(o, uploadRequestIn(form, http.MethodPut, target, text, filled...)), http.StatusOK)
				if got.MimeType != "text/x-test" || got.Checksum != harness.Checksum(text) || got.Version != 3 {
					t.Errorf("replaced: %+v", got)
				}
			})
		}
	}
}

// multipartBody returns a body of the parts, which include their headers.
func multipartBody(parts ...string) string {
	return "--b\r\n" + strings.Join(parts, "\r\n--b\r\n") + "\r\n--b--\r\n"
}

func formField(name, value string) string {
	return fmt.Sprintf("Content-Disposition: form-data; name=%q\r\n\r\n%s", name, value)
}

const filePart = "Content-Disposition: form-data; name=\"file\"; filename=\"f\"\r\n\r\ncontent"

func TestInvalidUploadStoresNothing(t *testing.T) {
	const multi, inJSON, raw = "multipart/form-data; boundary=b", "application/json", "application/octet-stream"
	id := "0198a1b2-0000-7000-8000-000000000001"
	o := newFileServer(t)
	for _, test := range []struct {
		contentType, query, body string
		status                   int
		message                  string
	}{
		{raw, "", "x", 400, "path must not be empty"},
		{raw, "path=../x", "x", 400, "path must not have the segments . and .."},
		{raw, "path=a&expectedversion=1", "x", 400, `"expectedversion" is not a parameter of this endpoint`},
		{raw, "path=a&path=b", "x", 400, "path must not be repeated"},
		{raw, "path=a&kind=artifact", "x", 400, "kind must be one of ARTIFACT, HUB_MEMORY, TEAM_MEMORY, WORKSPACE_MEMORY, TEMPLATE, BRAND_ASSET"},
		{raw, "path=a&scope=", "x", 400, "scope must be one of SHARED, PERSONAL"},
		{raw, "path=a&workspaceId=x", "x", 400, "workspaceId must be the id of a workspace"},
		{raw, "path=a&workspaceId=" + id, "x", 400, "workspaceId must be a workspace that you can see"},
		{raw, "path=a&teamId=", "x", 400, "teamId must be the id of a team"},
		{raw, "path=a&mimeType=", "x", 400, "mimeType must not be empty"},
		{raw, "path=a&mimeType=text", "x", 400, "mimeType must be a media type such as text/markdown, of at most 255 characters"},
		{raw, "path=a&checksum=12", "x", 400, "checksum must be a SHA-256 in hexadecimal"},
		{raw, "path=a&checksum=" + harness.Checksum("y"), "x", 400, "checksum is not the content's, which is " + harness.Checksum("x")},
		{raw, "path=a&expectedVersion=-1", "x", 400, "expectedVersion must be the number of a version"},
		{raw, "path=a&expectedVersion=1&expectedVersion=1", "x", 400, "expectedVersion must not be repeated"},
		{raw, "path=a&expectedVersion=1", "x", 409, "Version conflict: version 1 was expected, and nothing is stored"},
		{raw, "path=%zz", "x", 400, "The query could not be read"},
		{raw, "path=a%ff", "x", 400, "path must be valid UTF-8"},
		{"text", "path=a", "x", 400, "mimeType must be a media type such as text/markdown, of at most 255 characters"},

		{inJSON, "", ``, 400, "A JSON body is required"},
		{inJSON, "", ` `, 400, "A JSON body is required"},
		{inJSON + "; charset=latin1", "", `{"content":""}`, 415, "The content type must be application/json in UTF-8"},
		{inJSON + "; =", "", `{"content":""}`, 415, "The content type must be application/json in UTF-8"},
		{inJSON, "", `[]`, 400, "The body must be a JSON object"},
		{inJSON, "", `"content"`, 400, "The body must be a JSON object"},
		{inJSON, "", `{"path":"a"}`, 400, "content is required"},
		{inJSON, "", `{"path":"a","content":null}`, 400, "content is required"},
		{inJSON, "", `{"path":"a","content":5}`, 400, "content must be a string"},
		{inJSON, "", `{"path":"a","content":["x"]}`, 400, "content must be a string"},
		{inJSON, "", `{"path":5,"content":"x"}`, 400, "path must be a string"},
		{inJSON, "", `{"path":"a","content":"x","kind":["ARTIFACT"]}`, 400, "kind must be a string"},
		{inJSON, "", `{"path":"a","content":"x","expectedVersion":"1"}`, 400, "expectedVersion must be an integer"},
		{inJSON, "", `{"path":"a","content":"x","expectedVersion":1.5}`, 400, "expectedVersion must be an integer"},
		{inJSON, "", `{"path":"a","content":"x","expectedVersion":-0}`, 400, "expectedVersion must be the number of a version"},
		{inJSON, "", `{"path":"a","content":"x","encoding":"UTF8"}`, 400, "encoding must be one of utf8, base64"},
		{inJSON, "", `{"path":"a","content":"x y","encoding":"base64"}`, 400, "content must be base64"},
		{inJSON, "", `{"encoding":"base64","path":"a","kind":"ARTIFACT","scope":"SHARED","content":"eA\n="}`, 400, "content must be base64"},
		{inJSON, "", `{"path":"a","content":"x`, 400, "The body must be valid JSON: unexpected end at byte 24"},
		{inJSON, "", `{"path":"a","content":"x","path":"b"}`, 400, "The body must be valid JSON: a repeated name at byte 26"},
		{inJSON, "", `{"path":"a","content":"x","y":"` + strings.Repeat("y", 64<<10) + `"}`, 413, "The body must have at most 65536 bytes beside content"},
		{inJSON, "", `{"path":"a","content":"x","y":[` + strings.Repeat(`{"z":0},`, 997) + `{"z":0}]}`, 400, "The body must be valid JSON: more than 1000 fields at byte 8008"},
		{inJSON, "path=b", `{"path":"a","content":"x"}`, 400, "path must be given only once"},
		{inJSON, "", `{"encoding":"utf8","path":"a","kind":"ARTIFACT","scope":"SHARED","content":"x","workspaceId":"` + id + `"}`, 400, "workspaceId must come before the content"},

		{"multipart/form-data", "", multipartBody(filePart), 400, "The content type must name the boundary, of 1 to 70 characters"},
		{"multipart/form-data; boundary=" + strings.Repeat("b", 71), "", "", 400, "The content type must name the boundary, of 1 to 70 characters"},
		{multi, "", "", 400, "The body must be valid multipart/form-data: unexpected end"},
		{multi, "", "--c\r\n", 400, "The body must be valid multipart/form-data: it does not begin with its boundary"},
		{multi, "", "preamble\r\n" + multipartBody(filePart), 400, "The body must be valid multipart/form-data: it does not begin with its boundary"},
		{multi, "", "--b--\r\n", 400, "file is required"},
		{multi, "", "--b--\r\n--b--", 400, "The body must be valid multipart/form-data: something after the last boundary"},
		{multi, "", "--b--" + strings.Repeat(" ", 100), 400, "The body must be valid multipart/form-data: something after the last boundary"},
		{multi, "", multipartBody(formField("path", "a")), 400, "file is required"},
		{multi, "", multipartBody(filePart, filePart), 400, "file must be given only once"},
		{multi, "", multipartBody(`Content-Disposition: form-data; name="photo"; filename="f"` + "\r\n\r\nx"), 400, `"photo" is not the file of an upload`},
		{multi, "", multipartBody("Content-Disposition: form-data\r\n\r\nx"), 400, "The body must be valid multipart/form-data: a part has no name"},
		{multi, "", multipartBody("X: y\r\n\r\nx"), 400, "The body must be valid multipart/form-data: a part has no name"},
		{multi, "", multipartBody("broken\r\n\r\nx"), 400, "The body must be valid multipart/form-data: a part's header cannot be read"},
		{multi, "", multipartBody("X: 1\r\nX: 2\r\n" + filePart), 400, "The body must be valid multipart/form-data: a part's header cannot be read"},
		{multi, "", multipartBody("Content-Disposition: form-data; name=file\r\nContent-Transfer-Encoding: base64\r\n\r\neA=="), 400, "The body must be valid multipart/form-data: a part has a transfer encoding"},
		{multi, "", multipartBody("X: " + strings.Repeat("y", 8<<10) + "\r\n\r\nx"), 400, "The body must be valid multipart/form-data: the header of a part is longer than 8192 bytes"},
		{multi, "", multipartBody(formField("path", strings.Repeat("y", 8<<10+1)), filePart), 400, `"path" must be at most 8192 bytes`},
		{multi, "", multipartBody(slices.Repeat([]string{formField("x", "")}, 32+1)...), 400, "The body must be valid multipart/form-data: more than 32 parts"},
		{multi, "", multipartBody(filePart)[:75], 400, "The body must be valid multipart/form-data: unexpected end"},
		{multi, "", multipartBody(filePart + "\r\n--bc"), 400, "The body must be valid multipart/form-data: a line begins with the boundary and goes on"},
		{multi, "", multipartBody(formField("path", "a"), formField("kind", "ARTIFACT"), formField("scope", "SHARED"), filePart, formField("teamId", id)), 400, "teamId must come before the content"},
		{multi, "", multipartBody(formField("path", "a"), formField("kind", "ARTIFACT"), formField("scope", "SHARED"), filePart, formField("checksum", harness.Checksum("x"))), 400, "checksum is not the content's, which is " + harness.Checksum("content")},
	} {
		t.Run(test.message, func(t *testing.T) {
			for _, length := range []int{len(test.body), -1} {
				r := syncRequest(http.MethodPost, "/files?"+test.query, strings.NewReader(test.body), "Content-Type: "+test.contentType)
				r.ContentLength = int64(length)
				must.Is(t, test.message, checkError(t, send(o, r), test.status).Message)
			}
		})
	}
	t.Run("a part of a content", func(t *testing.T) {
		checkError(t, send(o, syncRequest(http.MethodPost, "/files?path=a", strings.NewReader("x"), "Content-Range: bytes 5-5/6")), 400)
		checkError(t, send(o, syncRequest(http.MethodPut, "/memory/user", strings.NewReader("x"), "Content-Range: bytes 5-5/6")), 400)
	})
	t.Run("content encoding", func(t *testing.T) {
		checkError(t, send(o, syncRequest(http.MethodPut, "/memory/user", strings.NewReader("x"), "Content-Encoding: gzip")), 415)
		checkError(t, send(o, syncRequest(http.MethodPost, "/files?path=a", strings.NewReader("x"), "Content-Encoding: gzip")), 415)
	})
	t.Run("VIEWER", func(t *testing.T) {
		checkError(t, send(o, syncRequest(http.MethodPost, "/files?path=a", strings.NewReader("x"), "X-Actor: vic")), 403)
	})
	if all := read[[]record](t, o.get("/files"), 200); len(all) > 0 {
		t.Errorf("stored %+v", all)
	}
	if blobs, err := o.core.BlobNames(t.Context()); err != nil || len(blobs) > 0 {
		t.Errorf("stored the blobs %v, %v", blobs, err)
	}
}

func TestDeclaredLengthBeyondTheLimitIsRefusedBeforeTheBodyIsRead(t *testing.T) {
	o := newFileServer(t)
	for _, contentType := range []string{"", "application/json", "multipart/form-data; boundary=b"} {
		r := syncRequest(http.MethodPost, "/files?path=p", iotest.ErrReader(errors.New("read")), "Content-Type: "+contentType)
		r.ContentLength = 7 << 20 // of at most 1 MiB
		checkError(t, send(o, r), 413)
	}
}

func TestExpectedVersionsAreReadFromHeadersAndQuery(t *testing.T) {
	for _, test := range []struct{ match, noneMatch, query, want string }{
		{"", "", "", "<nil>"},
		{`"3"`, "", "", "3"},
		{`"3-json"`, "", "", "3"},
		{"3", "", "", "3"},
		{"", "*", "", "0"},
		{"", "", "3", "3"},
		{"nonsense", "", "", "If-Match must be one entity tag of the file's, its version, or *"},
		{"", `"3"`, "", "If-None-Match must be *, for nothing, and without If-Match"},
		{"*", "*", "", "If-None-Match must be *, for nothing, and without If-Match"},
		{`"3"`, "", "3", "expectedVersion must be given only once"},
		{"", "*", "0", "expectedVersion must be given only once"},
	} {
		c := &call{r: get("/"), params: body.Query{Values: url.Values{}}}
		for name, text := range map[string]string{"If-Match": test.match, "If-None-Match": test.noneMatch} {
			if text != "" {
				c.r.Header.Set(name, text)
			}
		}
		if test.query != "" {
			c.params.Values.Set("expectedVersion", test.query)
		}
		version, err := c.expected()
		got := fmt.Sprint(version)
		if err != nil {
			got = err.Error()
		} else if version != nil {
			got = fmt.Sprint(*version)
		}
		must.Is(t, test.want, got)
	}
}

func TestAnyVersionIsExpectedOfAStoredFile(t *testing.T) {
	const expected = "If-Match: *"
	o := newFileServer(t)
	memory := func() *http.Request {
		return syncRequest(http.MethodPut, "/memory/org", strings.NewReader("text"), expected, "Content-Type: text/plain")
	}
	for about, r := range map[string]*http.Request{
		"a document":       memory(),
		"a file":           syncRequest(http.MethodPost, "/files?path=file.md", strings.NewReader("text"), expected),
		"a started upload": syncRequest(http.MethodPost, "/uploads", strings.NewReader(`{"path":"started.md","size":1,"checksum":"`+harness.Checksum("x")+`"}`), expected, "Content-Type: application/json"),
		"an upload":        syncRequest(http.MethodPost, "/resumable-uploads?path=new.md", nil, expected, "Upload-Complete: ?0", "Upload-Length: 5"),
	} {
		t.Run(about, func(t *testing.T) { checkError(t, send(o, r), http.StatusConflict) })
	}
	must.Is(t, http.StatusOK, o.put("/memory/org", "text/plain", "first").Code)
	must.Is(t, http.StatusOK, send(o, memory()).Code)
	ada := o.actor(t, "ada")
	stored, _, err := o.core.Objects.Find(t.Context(), ada, object.OrgMemory)
	must.NoError(t, err)
	var failed error
	o.core.Faults.During("BlobNames.Announce", func() { failed = o.core.Objects.Delete(t.Context(), ada, stored.ID, nil) })
	checkError(t, send(o, memory()), http.StatusConflict) // it was deleted while the content was written
	must.NoError(t, failed)
}

// FuzzIfMatch checks that only entity tags of versions are read as versions.
func FuzzIfMatch(f *testing.F) {
	for _, s := range []string{`"1"`, `"1-json"`, `1`, `*`, ``, `"`, `""`, `"-json"`, `"01"`, `+1`, `"abc"`, `"2`, `W/"1"`, `W/1`, `W/*`, `W/"2`, `W/"abc"`, `W/"W/"1""`, `"1", "2"`, `"9223372036854775808"`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, header string) {
		version, ok := versionOfTag([]string{header})
		if !ok {
			return
		}
		header = strings.TrimSpace(header)
		if version == object.AnyVersion {
			if header != "*" {
				t.Fatalf("%q matches any version", header)
			}
			return
		}
		if version == object.WeakVersion {
			if _, ok := versionOfTag([]string{strings.TrimPrefix(header, "W/")}); !ok || !strings.HasPrefix(header, `W/"`) {
				t.Fatalf("%q is a weak tag", header)
			}
			return
		}
		bare := fmt.Sprint(version)
		if version < 0 || header != bare && header != `"`+bare+`"` && header != `"`+bare+`-json"` {
			t.Fatalf("%q is version %d", header, version)
		}
	})
}
