package script

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/gorillamux"
)

const documentPath = "../../docs/openapi.yaml"

// described holds every exchange to the OpenAPI document at the path: what was
// answered must be described there, and what was accepted must have been allowed. Paths that
// are not described must be answered with 404, methods with 405.
func described(t *testing.T, path string) func(*http.Request, []byte, *http.Response, []byte) []string {
	t.Helper()
	loader := openapi3.NewLoader()
	doc, err := loader.LoadFromFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := doc.Validate(loader.Context); err != nil {
		t.Fatal(err)
	}
	router, err := gorillamux.NewRouter(doc)
	if err != nil {
		t.Fatal(err)
	}
	for _, media := range []string{"text/html", "text/event-stream", "text/yaml", "application/rss+xml"} {
		openapi3filter.RegisterBodyDecoder(media, openapi3filter.PlainBodyDecoder)
	}
	options := &openapi3filter.Options{
		AuthenticationFunc:    openapi3filter.NoopAuthenticationFunc,
		IncludeResponseStatus: true,
		MultiError:            true,
	}
	return func(r *http.Request, body []byte, answer *http.Response, text []byte) []string {
		if !strings.HasPrefix(r.URL.Path, "/api/v1/") || r.Method == http.MethodOptions || r.Method == http.MethodHead {
			return nil
		}
		asked := r.Clone(context.Background())
		asked.Body = io.NopCloser(bytes.NewReader(body))
		route, params, err := router.FindRoute(asked)
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
		input := &openapi3filter.RequestValidationInput{Request: asked, PathParams: params, Route: route, Options: options}
		var wrong []string
		if answer.StatusCode < 300 {
			if err := openapi3filter.ValidateRequest(context.Background(), input); err != nil {
				wrong = append(wrong, "the document does not allow the request: "+oneLine(err))
			}
		}
		output := &openapi3filter.ResponseValidationInput{
			RequestValidationInput: input, Status: answer.StatusCode, Header: answer.Header, Options: options,
			Body: io.NopCloser(bytes.NewReader(text)),
		}
		if err := openapi3filter.ValidateResponse(context.Background(), output); err != nil {
			wrong = append(wrong, "the document does not describe the answer: "+oneLine(err))
		}
		if route.Operation.OperationID == "chat" && answer.StatusCode == http.StatusOK {
			wrong = append(wrong, chunks(doc.Components.Schemas["ChatChunk"].Value, text)...)
		}
		return wrong
	}
}

// chunks holds a model's answer to the chunks that are described, of which the
// last one ends the stream and no other does. An answer that stays open has none
// yet.
func chunks(described *openapi3.Schema, text []byte) []string {
	var wrong []string
	last := ""
	for line := range strings.Lines(string(text)) {
		data, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "data: ")
		if !ok {
			continue
		}
		var chunk map[string]any
		if err := json.Unmarshal([]byte(data), &chunk); err != nil {
			return append(wrong, "a chunk is no JSON object: "+err.Error())
		}
		if last == "done" || last == "error" {
			wrong = append(wrong, "something follows "+last)
		}
		last, _ = chunk["type"].(string)
		if err := described.VisitJSON(chunk); err != nil {
			wrong = append(wrong, "the document does not describe the chunk: "+oneLine(err))
		}
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
