package script

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"collab/test/contract/provider"
	"collab/test/must"
)

func TestMistakesInTheFormatAreNamedWithTheirLine(t *testing.T) {
	for text, want := range map[string]string{
		"nothing here\n":                          "x.txt: no conversations",
		"== A\n> GET /x\n":                        "x.txt:2: the request has no answer",
		"== A\n> GET /x\n\n> GET /y\n< 200\n":     "x.txt:2: the request has no answer",
		"== A\n> GET /x\n== B\n":                  "x.txt:2: the request has no answer",
		"== A\n< 200\n":                           "x.txt:2: an answer without a request",
		"== A\n> GET /x\n< 200\n\n< 200\n":        "x.txt:5: an answer begins with its status, once",
		"== A\n> GET /x\n< fine\n":                "x.txt:3: an answer begins with its status, once",
		"== A\n>GET /x\n":                         "x.txt:2: a space is missing after '>'",
		"== A\n> GET /x like anna\n":              `x.txt:2: unknown request "GET /x like anna"`,
		"== A\n* feed ends\n\n< {}\n":             "x.txt:4: an answer without a request",
		"== A\n* anna leaves\n":                   `x.txt:2: unknown statement "anna leaves"`,
		"== A\n* the provider sings\n":            `x.txt:2: unknown statement "the provider sings"`,
		"== A\n* the provider hears x\n< sings\n": `x.txt:3: a provider does not understand "sings"`,
		"> GET /x\n":                              "x.txt:1: this belongs to no conversation",
		"== A\n$ COLLAB_X=1\n":                    "x.txt:2: a setting is NAME=value before the first conversation",
	} {
		_, err := parse("x.txt", text)
		if err == nil || err.Error() != want {
			t.Errorf("%q: got %v, want %s", text, err, want)
		}
	}
}

func someValues() *values {
	return &values{known: map[string]string{}, unique: "k1", base: "http://server", began: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
}

const someID = "01890a5d-ac96-774b-bcce-b302099a8057"

func TestPatternsMatchTheirTexts(t *testing.T) {
	for _, c := range []struct{ pattern, got, differs string }{
		{`{"a": 1}`, `{"a": 1.0}`, ""},
		{`{"a": 1}`, `{"a": 2}`, ".a: want 1, got 2"},
		{`{"a": 1}`, `{"a": "1"}`, `.a: want 1, got "1"`},
		{`{"a": 1}`, `{"a": 1, "b": 2}`, "body: b is not expected (2)"},
		{`{"a": 1, ...}`, `{"a": 1, "b": 2}`, ""},
		{`{...}`, `{}`, ""},
		{`{"a": 1, ...}`, `{"b": 2}`, "body: a is missing"},
		{`{"a": null}`, `{}`, "body: a is missing"},
		{`{"a": null}`, `{"a": null}`, ""},
		{`{"a": null}`, `{"a": false}`, ".a: want null, got false"},
		{`[1, ...]`, `[1, 2, 3]`, ""},
		{`[1, ...]`, `[]`, "body: want 1 elements, got 0: []"},
		{`[1, 2]`, `[1]`, "body: want 2 elements, got 1: [1]"},
		{`[]`, `null`, "body: want an array, got null"},
		{`{}`, `[]`, "body: want an object, got []"},
		{`[{"a": "<any>"}]`, `[{"a": [1]}]`, ""},
		{`"<id>"`, `"` + someID + `"`, ""},
		{`"<id>"`, `"01890a5d-ac96-474b-bcce-b302099a8057"`, "body: want <id>, got 01890a5d-ac96-474b-bcce-b302099a8057"},
		{`"<time>"`, `"2026-01-02T03:04:05.678Z"`, ""},
		{`"<time>"`, `"2026-01-02T03:04:05Z"`, "body: want <time>, got 2026-01-02T03:04:05Z"},
		{`"<int>"`, `12`, ""},
		{`"<text>"`, `12`, `body: want "<text>", got 12`},
		{`"<text>"`, `""`, "body: want <text>, got "},
		{`"a...z"`, `"abcz"`, ""},
		{`"a.b"`, `"axb"`, "body: want a.b, got axb"},
		{`["<id:x>", "<id:x>"]`, `["` + someID + `", "` + someID + `"]`, ""},
		{`["<word:x>", "<word:x>"]`, `["a", "b"]`, "[1]: want <word:x>=a, got b"},
		{`"<user:anna>"`, `"x"`, "body: <user:anna> is not known here"},
		{`"<day:+48h>"`, `"2026-01-04"`, ""},
		{`"say <unique> at <base>"`, `"say k1 at http://server"`, ""},
		{`{"a": 1}`, `{"a": 1} 2`, "the answer is not JSON: something follows the value"},
	} {
		got := strings.Join(someValues().matchJSON(c.pattern, []byte(c.got)), "; ")
		if got != c.differs {
			t.Errorf("%s with %s: got %q, want %q", c.pattern, c.got, got, c.differs)
		}
	}
}

// echo starts a server whose paths name the kind of answer: an error, the request's body, a stream and others.
func echo(t *testing.T) *server {
	beside := newModels(provider.Start(t))
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		must.Succeed(t, err)
		w.Header().Set("X-Request-Id", "r1")
		w.Header().Set("Content-Type", "application/json")
		switch r.URL.Path {
		case "/error":
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, `{"statusCode":400,"message":"title must not be empty","error":"Bad Request"}`)
		case "/rude":
			w.WriteHeader(http.StatusNotFound)
			_, _ = io.WriteString(w, `{"statusCode":400,"message":"gone"}`)
		case "/raw":
			_, _ = w.Write(body)
		case "/stream", "/cut":
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, "retry: 3000\n: hello\nid: 7-0\n\n: \n\n: \nid: 7-1\n\nid: 7-2\ndata: {\"a\":1}\n\nevent: resync\nid: 7-3\ndata: {\"b\":2}\n\n: \n\n")
			if r.URL.Path == "/cut" {
				http.NewResponseController(w).Flush()
				panic(http.ErrAbortHandler)
			}
		case "/chat":
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = w.Write(append(body, "\n\n"...))
		case "/model":
			w.Header().Set("Content-Type", "text/event-stream")
			must.Succeed(t, relay(w, beside.provider.OpenAI()+"/chat/completions", body))
		default:
			answer := map[string]any{"path": r.URL.RequestURI(), "auth": r.Header.Get("Authorization"), "secret": r.Header.Get("X-Admin-Secret"), "type": r.Header.Get("Content-Type")}
			_ = json.NewEncoder(w).Encode(answer)
		}
	}))
	t.Cleanup(s.Close)
	return &server{base: s.URL, models: beside}
}

// relay asks the provider and hands its response on.
func relay(w io.Writer, address string, question []byte) error {
	answer, err := http.Post(address, "application/json", bytes.NewReader(question))
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	_, err = io.Copy(w, answer.Body)
	return err
}

// TestConversationsReportWhatDiffers expects the errors in wrong, each the number of a line and the beginning of the message.
func TestConversationsReportWhatDiffers(t *testing.T) {
	s := echo(t)
	for _, c := range []struct {
		sentence, text string
		wrong          []string
	}{
		{"Multipart bodies end their lines as they must, and bytes are bytes", `
> POST /raw
> Content-Type: multipart/form-data; boundary=x
> --x
> Content-Disposition: form-data; name="file"
>
> <bytes:ff0a00>
> --x--
< 200
< is --x<bytes:0d0a>Content-Disposition: form-data; name="file"<bytes:0d0a0d0aff0a000d0a>--x--
> POST /raw
< 200
< is
> POST /raw
> Content-Type: text/plain
> hello
< 200
< is hell
`, []string{"17: POST /raw\n\tthe body is not \"hell\""}},
		{"What a stream brings otherwise is reported", `
> GET /stream as anna open as feed
< 200
* feed begins
< id: 8-0
* feed brings
< id: 7-3
< event: resync
< {"a": 2}
* feed brings
< {"b": 2}
* feed ends
`, []string{
			"4: feed begins\n\tid: want 8-0, got 7-0\n\tframe: id 7-0, event \"\", data ",
			"6: feed brings\n\tid: want 7-3, got 7-2\n\tevent: want resync, got \n\t.a: want 2, got 1\n\tframe: id 7-2, event \"\", data {\"a\":1}",
			"10: feed brings\n\tit has the type resync\n\tframe: id 7-3, event \"resync\", data {\"b\":2}",
		}},
		{"A stream that brings something in place of a beat ends the conversation", "> GET /stream open as feed\n< 200\n* feed begins\n* feed beats\n* feed beats\n* feed beats\n* feed ends\n", []string{`7: feed beats: it brings "{\"a\":1}" with the id 7-2`}},
		{"A stream without an end ends the conversation", "> GET /cut open as feed\n< 200\n* feed brings\n* feed brings\n< event: resync\n* feed ends\n", []string{"7: feed ends: unexpected EOF"}},
		{"A stream that was not opened ends the conversation", "* feed ends\n", []string{"2: no stream is called feed"}},
		{"What a stream tells otherwise is reported", `
> POST /chat
> Content-Type: text/plain
> : a comment
> data: {"type": "text", "text": "It is "}
>
> data: {"type": "done"}
< 200
< tells It was
< brings {"type": "done"}
> POST /chat
> Content-Type: text/plain
> : a comment
> data: {"type": "text", "text": "It is "}
>
> data: {"type": "done"}
< 200
< tells It is...
> POST /chat
> Content-Type: text/plain
> : a comment
> data: {"type": "text", "text": "It is "}
< 200
< tells It is...
< brings {"type": "done"}
> POST /chat
> Content-Type: text/plain
> : a comment
> data: {"type": "done"}
< 200
< brings {"type": "error"}
`, []string{
			"8: POST /chat\n\tevent 1 tells: want It was, got It is ",
			"17: POST /chat\n\tthe stream goes on with {\"type\": \"done\"}",
			"23: POST /chat\n\tthe stream ends before event 2",
			"30: POST /chat\n\tevent 1: .type: want error, got done",
		}},
		{"A question that is not the expected one is reported", `
* the provider hears Hello <unique>
< says It is |warm.
* the provider hears Hello <unique>
< says Cold.
> POST /model
> {"model": "m", "max_tokens": 1, "stream": true, "messages": [{"role": "user", "content": "Hello <unique>"}]}
< 200
< says It is
< says warm.
> POST /model
> {"model": "n", "max_tokens": 1, "stream": true, "messages": [{"role": "user", "content": "Hello <unique>"}]}
< 200
< says Cold.
* the provider was asked 2 times Hello <unique>
* the provider was asked Hello <unique>
< Content-Type: application/json
< {"model": "m", ...}
* the provider was asked Hello <unique>
< {"model": "m", ...}
* the provider was asked Hello <unique>
* the provider was asked 0 times Hello <unique>
`, []string{
			`19: the provider was asked otherwise
	.model: want m, got n`,
			"21: the provider was asked 2 times, and not again",
			"22: the provider was asked 2 times",
		}},
		{"A wrong status is named", "> GET /error\n< 200\n", []string{"3: GET /error\n\tstatus: want 200, got 400"}},
		{"A wrong header is named", "> GET /x\n< 200\n< Content-Type: text/html\n< ETag: <etag>\n< no X-Request-Id\n", []string{
			"3: GET /x\n\theader Content-Type: want text/html, got application/json\n\theader ETag: want <etag>, got none\n\theader X-Request-Id: want none, got [\"r1\"]",
		}},
		{"A wrong field is named", "> GET /error\n< 400 naming name\n", []string{"3: GET /error\n\tthe message does not name name: title must not be empty"}},
		{"A wrong body is named", "> GET /x\n< 200\n< says nothing\n< {\"path\": \"/y\", ...}\n", []string{"3: GET /x\n\tthe body does not say \"nothing\"\n\t.path: want /y, got /x"}},
		{"An error in another shape is named", "> GET /rude\n< 404\n", []string{"3: GET /rude\n\tan error has the fields [message statusCode]\n\tstatusCode is 400 in a 404\n\terror is <nil> in a 404"}},
		{"A stranger ends the conversation", "> GET /x as ben\n< 200\n> GET /error\n< 200\n", []string{"2: ben has not signed in"}},
		{"An unknown placeholder ends the conversation", "> GET /<id:x>\n< 200\n> GET /error\n< 200\n", []string{"2: <id:x> is not known here"}},
		{"A sign-in that fails ends the conversation", "* ben signs in\n> GET /error\n< 200\n", []string{"2: the identity token is no JWT"}},
		{"A conversation goes on after what is wrong", "> GET /error\n< 200\n> GET /error\n< 201\n", []string{
			"3: GET /error\n\tstatus: want 200, got 400", "5: GET /error\n\tstatus: want 201, got 400",
		}},
	} {
		t.Run(c.sentence, func(t *testing.T) {
			d := must.Do(parse("x.txt", "== A\n"+strings.TrimPrefix(c.text, "\n"))).Or(t)
			talk := newTalk(s, nil)
			talk.values.known["service:anna"], talk.values.known["identity:anna"] = "t1", "t2"
			var got []string
			for _, wrong := range talk.run(d.conversations[0]) {
				text, _, _ := strings.Cut(wrong.text, "\n\tanswer:")
				text, _, _ = strings.Cut(text, "\n\tquestion:")
				got = append(got, fmt.Sprintf("%d: %s", wrong.line, text))
			}
			must.Equal(t, c.wrong, got)
		})
	}
}

const smallDocument = `openapi: 3.0.3
info: {title: Example, version: "1"}
servers: [{url: /api/v1}]
paths:
  /tasks:
    get:
      parameters:
        - {name: limit, in: query, schema: {type: integer, maximum: 9}}
      responses:
        "200":
          description: The tasks
          headers:
            X-Total: {schema: {type: integer}}
            X-Request-Id: {required: true, schema: {type: string}}
          content: {application/json: {schema: {type: array, items: {type: string}}}}
        "304": {description: The same}
  /changes:
    get:
      responses:
        "200":
          description: The changes
          content: {text/event-stream: {schema: {type: string}, x-events: {message: {$ref: "#/components/schemas/Change"}}}}
components:
  schemas:
    Change: {type: object, required: [id], properties: {id: {type: string}}}
`

func TestExchangesAreHeldToTheDocument(t *testing.T) {
	path := filepath.Join(t.TempDir(), "openapi.yaml")
	must.NoError(t, os.WriteFile(path, []byte(smallDocument), 0o600))
	check := described(t, path)
	for _, c := range []struct {
		sentence, ask string
		status        int
		answer, wrong string
		headers       []string
	}{
		{"what is described is no trouble", "GET /api/v1/tasks?limit=9", 200, `["a"]`, "", nil},
		{"a request that the document forbids must be refused", "GET /api/v1/tasks?limit=10", 200, `[]`, "the document does not allow the request", nil},
		{"an answer in another shape is reported", "GET /api/v1/tasks", 200, `[1]`, "the document does not describe the answer", nil},
		{"a status that is not described is reported", "GET /api/v1/tasks", 404, `{}`, "the document does not describe the answer", nil},
		{"a path that is not described is not found", "GET /api/v1/teams", 404, `{}`, "", nil},
		{"a path that is not described may not be answered", "GET /api/v1/teams", 200, `[]`, "the document has no such path", nil},
		{"a method that is not described is not allowed", "PUT /api/v1/tasks", 405, `{}`, "", nil},
		{"a method that is not described may not be answered", "PUT /api/v1/tasks", 200, `[]`, "the document has no such method", nil},
		{"a page of the development providers is not looked at", "GET /dev/identity", 200, `{}`, "", nil},
		{"a path outside the prefix may not be answered either", "GET /healthz", 200, `{}`, "the document has no such path", nil},
		{"HEAD is described where GET is", "HEAD /api/v1/tasks", 200, ``, "", nil},
		{"HEAD may not be answered with another status either", "HEAD /api/v1/tasks", 404, ``, "the document does not describe the answer: it has none", nil},
		{"a header that is described is no trouble", "GET /api/v1/tasks", 200, `[]`, "", []string{"X-Total", "7"}},
		{"a header in another shape is reported", "GET /api/v1/tasks", 200, `[]`, "the document does not describe the answer", []string{"X-Total", "many"}},
		{"a header that is not described is reported", "GET /api/v1/tasks", 200, `[]`, "the document does not describe the header X-Secret", []string{"X-Secret", "1"}},
		{"a header that is not described is reported without a body as well", "GET /api/v1/tasks", 304, ``, "the document does not describe the header Etag", []string{"ETag", "1"}},
		{"a header that is always there may not be missing", "GET /api/v1/tasks", 200, `[]`, "the header X-Request-Id is missing", []string{"X-Request-Id", ""}},
		{"headers of CORS and of the protocol are no trouble", "GET /api/v1/tasks", 200, `[]`, "", []string{"Vary", "Origin", "Access-Control-Allow-Origin", "*", "Date", "now"}},
		{"a header that the answer varies by is described", "GET /api/v1/tasks", 200, `[]`, "the document does not describe the header Vary", []string{"Vary", "Accept"}},
		{"a preflight is not looked at", "OPTIONS /api/v1/tasks", 204, ``, "", nil},
	} {
		t.Run(c.sentence, func(t *testing.T) {
			method, target, _ := strings.Cut(c.ask, " ")
			r := httptest.NewRequest(method, "http://localhost"+target, nil)
			if method == http.MethodOptions {
				r.Header.Set("Access-Control-Request-Method", http.MethodGet)
			}
			answer := &http.Response{StatusCode: c.status, Header: http.Header{"Content-Type": {"application/json"}}}
			if c.status == http.StatusOK {
				answer.Header.Set("X-Request-Id", "r1")
			}
			for i := 0; i < len(c.headers); i += 2 {
				answer.Header.Set(c.headers[i], c.headers[i+1])
			}
			got := strings.Join(check.exchange(r, nil, answer, []byte(c.answer)), "; ")
			if c.wrong == "" && got != "" || !strings.HasPrefix(got, c.wrong) {
				t.Errorf("got %q, want %q", got, c.wrong)
			}
		})
	}
}

func TestEventsAreHeldToTheDocument(t *testing.T) {
	path := filepath.Join(t.TempDir(), "openapi.yaml")
	must.NoError(t, os.WriteFile(path, []byte(smallDocument), 0o600))
	check := described(t, path)
	for _, c := range []struct{ sentence, target, kind, data, wrong string }{
		{"an event that is described is no trouble", "/changes", "", `{"id": "1"}`, ""},
		{"an event in another shape is reported", "/changes", "", `{"id": 1}`, "the document does not describe the event"},
		{"an event of another type is reported", "/changes", "resync", `{"id": "1"}`, `the document has no event "resync" here`},
		{"an event where there is no stream is reported", "/tasks", "", `{"id": "1"}`, `the document has no event "" here`},
		{"an event that is no JSON is reported", "/changes", "", `{`, "the data of an event is no JSON"},
	} {
		t.Run(c.sentence, func(t *testing.T) {
			r := httptest.NewRequest(http.MethodGet, "http://localhost/api/v1"+c.target, nil)
			got := strings.Join(check.event(r, c.kind, []byte(c.data)), "; ")
			if c.wrong == "" && got != "" || !strings.HasPrefix(got, c.wrong) {
				t.Errorf("got %q, want %q", got, c.wrong)
			}
		})
	}
}
