package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
)

// Paths of the bare server's chat. The query of a request has the provider's address.
const (
	bareChat   = "/chat"
	bareCopies = "/copied" // the provider's response, unchanged
)

// bareRelay relays a provider's responses.
type bareRelay struct{ client *http.Client }

func newBareRelay() bareRelay {
	return bareRelay{&http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64, DisableCompression: true, ReadBufferSize: 8 << 10}}}
}

// ask sends the message of a request to the provider.
func (b bareRelay) ask(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	var asked struct {
		Message   string `json:"message"`
		MaxTokens int    `json:"maxTokens"`
	}
	if err := json.Unmarshal(body, &asked); err != nil {
		return nil, err
	}
	type message struct {
		Role    string `json:"role"`
		Content string `json:"content"`
	}
	body, err = json.Marshal(struct {
		Model     string    `json:"model"`
		MaxTokens int       `json:"max_tokens"`
		Messages  []message `json:"messages"`
		Stream    bool      `json:"stream"`
	}{"bench", asked.MaxTokens, []message{{"user", asked.Message}}, true})
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(r.Context(), "POST", "http://"+r.URL.Query().Get("provider")+"/v1/messages", bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := b.client.Do(request)
	if err == nil && response.StatusCode != http.StatusOK {
		err = errors.Join(fmt.Errorf("the provider replies with %s", response.Status), response.Body.Close())
	}
	return response, err
}

// Parts of the provider's events, in which text is found without decoding.
var (
	eventData  = []byte("data: ")
	textBegins = []byte(deltaBegins)
	textEnds   = []byte(`"}}`)
)

// relay writes each text as a chunk in Collab's format, and flushes it.
func (b bareRelay) relay(w http.ResponseWriter, r *http.Request) {
	response, err := b.ask(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	defer response.Body.Close()
	w.Header().Set("Content-Type", "text/event-stream")
	control := http.NewResponseController(w)
	lines := bufio.NewReaderSize(response.Body, 8<<10)
	var usage struct {
		Usage struct {
			Input  int64 `json:"input_tokens"`
			Output int64 `json:"output_tokens"`
		} `json:"usage"`
	}
	var chunk []byte
	for {
		line, err := lines.ReadSlice('\n')
		if err != nil {
			return // without the event that ends the stream
		}
		data, ok := bytes.CutPrefix(bytes.TrimSuffix(line, []byte("\n")), eventData)
		if !ok {
			continue
		}
		chunk = chunk[:0]
		switch text, ok := bytes.CutPrefix(data, textBegins); {
		case ok:
			chunk = append(append(append(chunk, chunkBegins...), bytes.TrimSuffix(text, textEnds)...), "\"}\n\n"...)
		case bytes.HasPrefix(data, []byte(`{"type":"message_delta"`)):
			if err := json.Unmarshal(data, &usage); err != nil {
				return
			}
		case bytes.HasPrefix(data, []byte(`{"type":"message_stop"`)):
			chunk = fmt.Appendf(chunk, "%s,\"usage\":{\"inputTokens\":%d,\"outputTokens\":%d}}\n\n", doneBegins, usage.Usage.Input, usage.Usage.Output)
			_, _ = w.Write(chunk)
			_, _ = io.Copy(io.Discard, response.Body) // so that the connection is reused
			return
		}
		if len(chunk) == 0 {
			continue
		}
		if _, err := w.Write(chunk); err != nil {
			return
		}
		if err := control.Flush(); err != nil {
			return
		}
	}
}

// copied forwards the provider's response unchanged, and flushes after each read.
func (b bareRelay) copied(w http.ResponseWriter, r *http.Request) {
	response, err := b.ask(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	defer response.Body.Close()
	w.Header().Set("Content-Type", "text/event-stream")
	control := http.NewResponseController(w)
	buffer := make([]byte, 8<<10)
	for {
		n, err := response.Body.Read(buffer)
		if n > 0 {
			if _, err := w.Write(buffer[:n]); err != nil {
				return
			}
			if err := control.Flush(); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}
