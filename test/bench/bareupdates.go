package main

import (
	"encoding/json"
	"net/http"
	"strconv"
	"sync/atomic"
)

// Paths of the bare server's checks for updates.
const (
	checkPath   = "/api/v1/updates/check"
	bareAnswers = "/answers" // receives the responses by their queries
)

// bareUpdates answers update checks with a fixed response.
type bareUpdates struct {
	answers atomic.Pointer[map[string][]byte] // by query
}

// publish sets the responses to those in the request, by query.
func (u *bareUpdates) publish(w http.ResponseWriter, r *http.Request) {
	var answers map[string][]byte
	if err := json.NewDecoder(r.Body).Decode(&answers); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	u.answers.Store(&answers)
	answer(w, http.StatusOK, len(answers))
}

func (u *bareUpdates) check(w http.ResponseWriter, r *http.Request) {
	answers := u.answers.Load()
	if answers == nil {
		http.NotFound(w, r)
		return
	}
	body, ok := (*answers)[r.URL.RawQuery]
	if !ok {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	_, _ = w.Write(body)
}
