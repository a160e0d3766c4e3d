package forms

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"collab/test/must"
)

// Event is an event of a provider whose content has the form C.
type Event[C any] struct {
	Message string // its id
	Type    string
	Content C
}

// Service records the events of a provider; while it is down it refuses them.
type Service[C any] struct {
	mu       sync.Mutex
	down     bool
	events   []Event[C]
	attempts int
}

// Emit is called by the provider.
func (s *Service[C]) Emit(_ context.Context, message string, body []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.attempts++
	if s.down {
		return errors.New("down")
	}
	e := Event[C]{Message: message}
	if err := errors.Join(json.Unmarshal(body, &e), json.Unmarshal(body, &e.Content)); err != nil {
		return err
	}
	s.events = append(s.events, e)
	return nil
}

// SetDown makes the service refuse events, or accept them again.
func (s *Service[C]) SetDown(down bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = down
}

// Attempts returns the number of events that were sent or refused.
func (s *Service[C]) Attempts() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.attempts
}

// Take returns the events since the last call.
func (s *Service[C]) Take() []Event[C] {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := s.events
	s.events = nil
	return list
}

// Await returns the next n events.
func (s *Service[C]) Await(t testing.TB, n int) (list []Event[C]) {
	t.Helper()
	must.Wait(t, fmt.Sprintf("%d events have arrived", n), func() bool {
		list = append(list, s.Take()...)
		return len(list) >= n
	})
	return list
}

// Expect checks the types of the events since the last call.
func (s *Service[C]) Expect(t testing.TB, want string) {
	t.Helper()
	must.Is(t, want, Types(s.Take()))
}

// Types returns the types of events, separated by spaces.
func Types[C any](list []Event[C]) string {
	var types []string
	for _, e := range list {
		types = append(types, e.Type)
	}
	return strings.Join(types, " ")
}
