package script

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/gorillamux"

	"collab/test/must"
)

const documentPath = "docs/openapi.yaml"

// contract is the OpenAPI document, to which every exchange and every event of a
// stream is held.
type contract struct {
	doc     *openapi3.T
	router  routers.Router
	options openapi3filter.Options
}

// described reads the document at the path.
func described(t *testing.T, path string) *contract {
	t.Helper()
	loader := openapi3.NewLoader()
	doc := must.Do(loader.LoadFromFile(path)).Or(t)
	must.NoError(t, doc.Validate(loader.Context))
	router := must.Do(gorillamux.NewRouter(doc)).Or(t)
	for _, media := range []string{"text/html", "text/yaml", "text/javascript", "application/rss+xml"} {
		openapi3filter.RegisterBodyDecoder(media, openapi3filter.PlainBodyDecoder)
	}
	return &contract{doc, router, openapi3filter.Options{
		AuthenticationFunc:    openapi3filter.NoopAuthenticationFunc,
		IncludeResponseStatus: true,
		MultiError:            true,
	}}
}

// find returns the operation of a request. HEAD works wherever GET does.
func (c *contract) find(r *http.Request) (*routers.Route, map[string]string, error) {
	asked := r.Clone(context.Background())
	if r.Method == http.MethodHead {
		asked.Method = http.MethodGet
	}
	return c.router.FindRoute(asked)
}

// exchange returns what the document does not say of a request and its response: the
// status, the headers and the body of the response must be described, and what was
// accepted must have been allowed. Paths that are not described must be answered
// with 404, methods with 405. The pages of the development providers and of the console are no
// part of the interface, and preflights are CORS's.
func (c *contract) exchange(r *http.Request, body []byte, answer *http.Response, text []byte) []string {
	if strings.HasPrefix(r.URL.Path, "/dev/") || strings.HasPrefix(r.URL.Path, "/console") || r.Method == http.MethodOptions && r.Header.Get("Access-Control-Request-Method") != "" {
		return nil
	}
	route, params, err := c.find(r)
	switch {
	case errors.Is(err, routers.ErrPathNotFound):
		if answer.StatusCode != http.StatusNotFound {
			return []string{fmt.Sprintf("the document has no such path, but the answer is %d", answer.StatusCode)}
		}
		return nil
	case errors.Is(err, routers.ErrMethodNotAllowed):
		if answer.StatusCode != http.StatusMethodNotAllowed {
			return []string{fmt.Sprintf("the document has no such method, but the answer is %d", answer.StatusCode)}
		}
		return nil
	case err != nil:
		return []string{"the document: " + err.Error()}
	}
	asked := r.Clone(context.Background())
	asked.Method, asked.Body = route.Method, io.NopCloser(bytes.NewReader(body))
	options := c.options
	// The schema of a stream is that of its events, to which event holds each.
	options.ExcludeResponseBody = r.Method == http.MethodHead || strings.HasPrefix(answer.Header.Get("Content-Type"), "text/event-stream")
	isLines := strings.HasPrefix(answer.Header.Get("Content-Type"), linesType)
	if isLines {
		options.ExcludeRequestBody, options.ExcludeResponseBody = true, true
	}
	isContents := answer.Header.Get("Content-Type") == contentsType
	options.ExcludeResponseBody = options.ExcludeResponseBody || isContents
	input := &openapi3filter.RequestValidationInput{Request: asked, PathParams: params, Route: route, Options: &options}
	var wrong []string
	if answer.StatusCode < 400 {
		if err := openapi3filter.ValidateRequest(context.Background(), input); err != nil {
			wrong = append(wrong, "the document does not allow the request: "+oneLine(err))
		}
	}
	response := route.Operation.Responses.Status(answer.StatusCode)
	if response == nil {
		return append(wrong, fmt.Sprintf("the document does not describe the answer: it has none with the status %d", answer.StatusCode))
	}
	output := &openapi3filter.ResponseValidationInput{
		RequestValidationInput: input, Status: answer.StatusCode, Header: answer.Header, Options: &options,
		Body: io.NopCloser(bytes.NewReader(text)),
	}
	if err := openapi3filter.ValidateResponse(context.Background(), output); err != nil {
		wrong = append(wrong, "the document does not describe the answer: "+oneLine(err))
	}
	wrong = append(wrong, undescribed(response.Value, answer.Header)...)
	if isLines {
		wrong = append(wrong, checkLines(route.Operation.RequestBody.Value.Content[linesType].Schema, response.Value.Content[linesType].Schema, body, text)...)
	}
	if isContents {
		wrong = append(wrong, checkContents(response.Value.Content[contentsType].Schema, text)...)
	}
	if route.Operation.OperationID == "chat" && answer.StatusCode == http.StatusOK {
		wrong = append(wrong, c.chunks(r, text)...)
	}
	return wrong
}

// linesType is the media type of JSON lines, whose schema is that of each line.
const linesType = "application/x-ndjson"

// checkLines returns which lines of a response the document does not describe, and which lines of the
// request it does not allow although they were accepted.
func checkLines(request, response *openapi3.SchemaRef, body, text []byte) (wrong []string) {
	asked := slices.DeleteFunc(strings.Split(string(body), "\n"), func(line string) bool { return strings.TrimSpace(line) == "" })
	answered := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	if len(asked) != len(answered) {
		return []string{fmt.Sprintf("%d lines are answered with %d", len(asked), len(answered))}
	}
	for i, line := range answered {
		var outcome, operation map[string]any
		err := json.Unmarshal([]byte(line), &outcome)
		if err == nil {
			err = response.Value.VisitJSON(outcome)
		}
		if err == nil && outcome["error"] == nil {
			if err = json.Unmarshal([]byte(asked[i]), &operation); err == nil {
				err = request.Value.VisitJSON(operation)
			}
		}
		if err != nil {
			wrong = append(wrong, fmt.Sprintf("line %d: %s", i, oneLine(err)))
		}
	}
	return wrong
}

// contentsType is the media type of lines each of which is followed by content.
const contentsType = "application/vnd.collab.files"

// checkContents returns which lines of a response with contents the document does not describe.
func checkContents(schema *openapi3.SchemaRef, text []byte) (wrong []string) {
	for i := 0; len(text) > 0; i++ {
		line, rest, _ := bytes.Cut(text, []byte{'\n'})
		var outcome map[string]any
		err := json.Unmarshal(line, &outcome)
		if err == nil {
			err = schema.Value.VisitJSON(outcome)
		}
		if err != nil {
			return append(wrong, fmt.Sprintf("line %d: %s", i, oneLine(err)))
		}
		length := int(outcome["length"].(float64))
		if length > len(rest) || outcome["index"] != float64(i) {
			return append(wrong, fmt.Sprintf("line %d is %s, before %d bytes", i, line, len(rest)))
		}
		text = rest[length:]
	}
	return wrong
}

// transport are the headers that are the protocol's own.
var transport = []string{"Connection", "Content-Length", "Content-Type", "Date", "Transfer-Encoding"}

// undescribed returns which headers of a response are not described, and which
// of those that are always there are not.
func undescribed(response *openapi3.Response, got http.Header) []string {
	known := http.Header{}
	var wrong []string
	for name, h := range response.Headers {
		known.Set(name, "")
		if h.Value.Required && got.Get(name) == "" {
			wrong = append(wrong, fmt.Sprintf("the header %s is missing", name))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(got)) {
		cors := strings.HasPrefix(name, "Access-Control-") || name == "Vary" && slices.Equal(got[name], []string{"Origin"})
		if _, described := known[name]; !described && !cors && !slices.Contains(transport, name) {
			wrong = append(wrong, fmt.Sprintf("the document does not describe the header %s: %s", name, got.Get(name)))
		}
	}
	return wrong
}

// event returns what the document does not say of an event of the stream that a
// request got. The empty kind is the default one.
func (c *contract) event(r *http.Request, kind string, data []byte) []string {
	route, _, err := c.find(r)
	if err != nil {
		return []string{"the document: " + err.Error()}
	}
	var schema *openapi3.SchemaRef
	if media := route.Operation.Responses.Status(http.StatusOK).Value.Content["text/event-stream"]; media != nil {
		all, _ := media.Extensions["x-events"].(map[string]any)
		ref, _ := all[cmp.Or(kind, "message")].(map[string]any)
		name, _ := ref["$ref"].(string)
		schema = c.doc.Components.Schemas[strings.TrimPrefix(name, "#/components/schemas/")]
	}
	if schema == nil {
		return []string{fmt.Sprintf("the document has no event %q here", kind)}
	}
	var v any
	if err := json.Unmarshal(data, &v); err != nil {
		return []string{"the data of an event is no JSON: " + err.Error()}
	}
	if err := schema.Value.VisitJSON(v); err != nil {
		return []string{"the document does not describe the event: " + oneLine(err)}
	}
	return nil
}

// chunks holds a model's answer to the chunks that are described, of which the
// last one ends the stream and no other does. A response that stays open has none
// yet.
func (c *contract) chunks(r *http.Request, text []byte) []string {
	var wrong []string
	last := ""
	for line := range strings.Lines(string(text)) {
		data, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "data: ")
		if !ok {
			continue
		}
		if last == "done" || last == "error" {
			wrong = append(wrong, "something follows "+last)
		}
		wrong = append(wrong, c.event(r, "", []byte(data))...)
		var chunk struct{ Type string }
		_ = json.Unmarshal([]byte(data), &chunk) // event says what is wrong with it
		last = chunk.Type
	}
	if len(text) > 0 && last != "done" && last != "error" {
		wrong = append(wrong, "the stream ends after "+last)
	}
	return wrong
}

func oneLine(err error) string {
	text := strings.Join(strings.Fields(err.Error()), " ")
	if len(text) > 600 {
		text = text[:600] + "…"
	}
	return text
}
