package main

import (
	"encoding/json"
	"net/http"
	"strconv"
	"sync/atomic"
)

// Paths of the bare server's checks for updates.
const (
	checkPath     = "/api/v1/updates/check"
	bareResponses = "/answers" // receives the responses by their queries
)

// bareUpdates answers update checks with a fixed response.
type bareUpdates struct {
	responses atomic.Pointer[map[string][]byte] // by query
}

// publish sets the responses to those in the request, by query.
func (u *bareUpdates) publish(w http.ResponseWriter, r *http.Request) {
	var responses map[string][]byte
	if err := json.NewDecoder(r.Body).Decode(&responses); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	u.responses.Store(&responses)
	reply(w, http.StatusOK, len(responses))
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
