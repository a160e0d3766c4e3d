package main

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"sync/atomic"
)

// Paths of the bare server's checks for updates.
const (
	checkPath     = "/api/v1/updates/check"
	bareResponses = "/responses" // receives the responses by their queries
)

// bareUpdates replies to update checks with a fixed response.
type bareUpdates struct {
	responses atomic.Pointer[map[string][]byte] // by query
}

// setResponses has the bare server send the responses to checks with the queries.
func (p *process) setResponses(ctx context.Context, responses map[string][]byte) error {
	body, err := json.Marshal(responses)
	if err == nil {
		_, _, err = fetch(ctx, "POST", "http://"+p.address+bareResponses, "", "application/json", string(body))
	}
	return err
}

// publish sets the responses to those in the request, by query.
func (u *bareUpdates) publish(w http.ResponseWriter, r *http.Request) error {
	var responses map[string][]byte
	if err := json.NewDecoder(r.Body).Decode(&responses); err != nil {
		return err
	}
	u.responses.Store(&responses)
	return reply(w, http.StatusOK, len(responses))
}

func (u *bareUpdates) check(w http.ResponseWriter, r *http.Request) {
	responses := u.responses.Load()
	if responses == nil {
		http.NotFound(w, r)
		return
	}
	body, ok := (*responses)[r.URL.RawQuery]
	if !ok {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	_, _ = w.Write(body)
}
