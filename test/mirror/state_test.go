package mirror_test

import (
	"context"
	"sync"
	"testing"

	"collab/domain/fault"
	"collab/domain/mirror"
	"collab/domain/object"
	"collab/ports"
	"collab/test/contract"
)

// state is a client's state in memory. It outlives clients.
type state struct {
	lock    sync.Mutex // of Put
	binding *mirror.Binding
	rows    map[string]mirror.Row
	cursor  object.Cursor
	writes  int
	storing func(rows []mirror.Row) // is called with rows that are to be stored; nil for nobody
	stored  func(rows []mirror.Row) // is called with rows that are stored; nil for nobody
	before  func(call string) (half bool, err error)
}

var _ ports.MirrorState = (*state)(nil)

func newState() *state {
	return &state{rows: map[string]mirror.Row{}, before: func(string) (bool, error) { return false, nil }}
}

func (s *state) Binding(context.Context) (mirror.Binding, error) {
	if s.binding == nil {
		return mirror.Binding{}, fault.Missing("Binding")
	}
	return *s.binding, nil
}

func (s *state) Bind(_ context.Context, b mirror.Binding) error {
	_, err := s.before("bind")
	if err == nil {
		s.binding = &b
		s.writes++
	}
	return err
}

func (s *state) Rows(_ context.Context, each func(mirror.Row) error) error {
	for _, r := range s.rows {
		if err := each(r); err != nil {
			return err
		}
	}
	return nil
}

func (s *state) Cursor(context.Context) (object.Cursor, error) { return s.cursor, nil }

func (s *state) Put(_ context.Context, rows []mirror.Row, cursor *object.Cursor) error {
	s.lock.Lock()
	defer s.lock.Unlock()
	if s.storing != nil {
		s.storing(rows)
	}
	half, err := s.before("put")
	if err != nil && !half {
		return err
	}
	s.writes++
	for _, r := range rows {
		if r.Empty() {
			delete(s.rows, r.Key)
		} else {
			s.rows[r.Key] = r
		}
	}
	if cursor != nil {
		s.cursor = *cursor
	}
	if s.stored != nil {
		s.stored(rows)
	}
	return err
}

func TestTheStateInMemoryBehavesAsTheRealOne(t *testing.T) {
	contract.MirrorState(t, func(*testing.T) (ports.MirrorState, func() ports.MirrorState) {
		s := newState()
		return s, func() ports.MirrorState { return s }
	})
}
