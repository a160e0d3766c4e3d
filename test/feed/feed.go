// Package feed follows the change feeds of servers for tests, and compares what followers
// received with the change log of their organisation.
package feed

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"

	"collab/domain/id"
	"collab/domain/object"
	"collab/ports"
)

// Received has the events that the followers of an organisation received, by number.
type Received struct {
	mu     sync.Mutex
	events map[int64]string // guarded by mu
}

// add adds an event. It returns an error if another follower received another one with the number.
func (r *Received) add(n int64, data string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.events == nil {
		r.events = map[int64]string{}
	}
	if before, ok := r.events[n]; ok && before != data {
		return fmt.Errorf("one follower received %s, another one %s", before, data)
	}
	r.events[n] = data
	return nil
}

// Follower is a client of a feed. It goes on after the last event that it has when its connection
// breaks.
type Follower struct {
	Received *Received // of its organisation

	Started bool    // it has received the first id
	Start   int64   // the number after which it began
	Last    int64   // the number of the last event, or of a later id without one
	LastID  string  // what to send as Last-Event-ID; empty: nothing
	Events  []int64 // the numbers of the events about files
	Resyncs []int64 // and of those that have the client read all files again
}

// Request returns a request for the feed of a server, after the last event that the follower has.
func (f *Follower) Request(ctx context.Context, server, token string) (*http.Request, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, server+"/api/v1/sync/changes", nil)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Authorization", "Bearer "+token)
	if f.LastID != "" {
		r.Header.Set("Last-Event-ID", f.LastID)
	}
	return r, nil
}

// ErrViolation is in the errors of a feed that breaks its contract. Other errors are those of a
// connection.
var ErrViolation = errors.New("the feed breaks its contract")

// Read takes the events of a connection until done returns true, which it calls after each frame.
func (f *Follower) Read(body io.Reader, done func() bool) error {
	var event, data, at string
	for lines := bufio.NewReaderSize(body, 8<<10); ; {
		line, err := lines.ReadString('\n')
		if err != nil {
			return err
		}
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ":")
		value = strings.TrimPrefix(value, " ")
		switch name {
		case "id":
			at = value
		case "event":
			event = value
		case "data":
			data = value
		case "":
			if line != "\n" { // a comment
				continue
			}
			if err := f.take(event, at, data); err != nil {
				return errors.Join(ErrViolation, err)
			}
			event, data, at = "", "", ""
			if done() {
				return nil
			}
		}
	}
}

// take takes one frame.
func (f *Follower) take(event, at, data string) error {
	if event != "" && event != "resync" {
		return fmt.Errorf("after %q an event %s %s came", f.LastID, event, data)
	}
	if at == "" {
		if data != "" {
			return fmt.Errorf("an event without id: %s", data)
		}
		return nil
	}
	c, ok := object.ParseCursor(at)
	switch {
	case !ok:
		return fmt.Errorf("the id %q", at)
	case !f.Started:
		f.Started, f.Start, f.Last, f.LastID = true, c.N, c.N, at
		if data != "" {
			return fmt.Errorf("an event before the first id: %s", data)
		}
		return nil
	case data == "" && c.N < f.Last || data != "" && c.N <= f.Last:
		return fmt.Errorf("after %s came %s with %q", f.LastID, at, data)
	}
	f.Last, f.LastID = c.N, at
	switch {
	case data == "":
		return nil
	case event == "resync":
		f.Resyncs = append(f.Resyncs, c.N)
		return nil
	}
	f.Events = append(f.Events, c.N)
	return f.Received.add(c.N, data)
}

// Compare returns an error unless the follower received each entry of the log that it sees and
// that is later than its start, once, and nothing else. Of entries that have it read all files again
// it must have received the first one, as one such event does for several.
func (f *Follower) Compare(log []object.Change, sees func(object.Change) bool) error {
	var want, resyncs []int64
	for _, e := range log {
		switch {
		case e.N <= f.Start || !sees(e):
		case e.Type == object.AccessChanged:
			resyncs = append(resyncs, e.N)
		default:
			want = append(want, e.N)
		}
	}
	unknown := slices.ContainsFunc(f.Resyncs, func(n int64) bool { return !slices.Contains(resyncs, n) })
	if unknown || len(resyncs) > 0 && !slices.Contains(f.Resyncs, resyncs[0]) {
		return fmt.Errorf("a follower who began after %d received the resyncs %v, of %v", f.Start, f.Resyncs, resyncs)
	}
	if slices.Equal(f.Events, want) {
		return nil
	}
	missing := slices.DeleteFunc(slices.Clone(want), func(n int64) bool { return slices.Contains(f.Events, n) })
	more := slices.DeleteFunc(slices.Clone(f.Events), func(n int64) bool { return slices.Contains(want, n) })
	first := ""
	if len(missing) > 0 {
		first = fmt.Sprintf(" (%s %s)", log[missing[0]-1].Type, log[missing[0]-1].Object.StorageKey())
	}
	return fmt.Errorf("a follower who began after %d received %d changes, want %d; missing %v%s, too many %v", f.Start, len(f.Events), len(want), missing, first, more)
}

// Log returns the whole change log of an organisation.
func Log(ctx context.Context, changes ports.Changes, o id.Org) ([]object.Change, error) {
	var all []object.Change
	for {
		after := int64(0)
		if len(all) > 0 {
			after = all[len(all)-1].N
		}
		page, err := changes.List(ctx, o, after, 1000)
		if err != nil || len(page) == 0 {
			return all, err
		}
		all = append(all, page...)
	}
}

// Last returns the number of the last change in a log that a follower sees, 0 if there is none.
func Last(log []object.Change, sees func(object.Change) bool) int64 {
	last := int64(0)
	for _, e := range log {
		if sees(e) {
			last = e.N
		}
	}
	return last
}

// Write is a change of an object that a server acknowledged.
type Write struct {
	Key      string // of storage
	Version  int64
	Checksum string // empty: a deletion
}

// Content is what a log says that an object has.
type Content struct {
	Version  int64
	Checksum string
}

// Replay follows the log of an organisation. It returns the objects that exist at its end by their
// storage keys, the owners of the personal ones, and what is wrong: numbers with gaps, versions
// that do not follow each other, acknowledged writes that are missing, and events that differ
// from their entries.
func Replay(o id.Org, log []object.Change, acknowledged []Write, received *Received) (exist map[string]Content, owners map[string]id.User, wrong []error) {
	exist, owners = map[string]Content{}, map[string]id.User{}
	report := func(format string, a ...any) { wrong = append(wrong, fmt.Errorf(format, a...)) }
	received.mu.Lock()
	defer received.mu.Unlock()
	entries := map[Write]bool{}
	deleted := map[string]int64{} // the last versions of objects, by key, which go on if they are restored
	for i, e := range log {
		if e.N != int64(i+1) {
			report("entry %d has the number %d", i, e.N)
			return exist, owners, wrong
		}
		key := e.Object.StorageKey()
		switch e.Type {
		case object.Changed:
			before := key
			if e.FromPath != "" {
				before = e.FromKey()
			}
			is, there := exist[before]
			if e.Object.Version != is.Version+1 && (there || e.Object.Version != deleted[key]+1) {
				report("entry %d makes version %d of %s, before there was %d", e.N, e.Object.Version, key, is.Version)
			}
			if before != key {
				if e.Object.Checksum != is.Checksum {
					report("entry %d moves %s with another content", e.N, before)
				}
				delete(exist, before)
			}
			exist[key] = Content{e.Object.Version, e.Object.Checksum}
			entries[Write{key, e.Object.Version, e.Object.Checksum}] = true
		case object.Deleted:
			is, ok := exist[key]
			if !ok {
				report("entry %d deletes %s, which was not there", e.N, key)
			}
			deleted[key] = is.Version
			delete(exist, key)
			entries[Write{Key: key}] = true
		}
		if e.Object.Scope == object.Personal && e.Type == object.Changed {
			owners[key] = *e.Object.Owner
		}
		data, ok := received.events[e.N]
		if !ok {
			continue // Compare covers that
		}
		var event struct {
			Type, StorageKey, Path, From, FromPath, Checksum, ChangedBy string
			Version                                                     int64
		}
		if err := json.Unmarshal([]byte(data), &event); err != nil {
			report("the event of entry %d: %w", e.N, err)
		}
		want := event
		want.Type, want.StorageKey, want.Path, want.ChangedBy = string(e.Type), key, e.Object.Path, string(e.By)
		want.From, want.FromPath = "", e.FromPath
		if e.FromPath != "" {
			want.From = e.FromKey()
		}
		if e.Type == object.Changed {
			want.Checksum, want.Version = e.Object.Checksum, e.Object.Version
		}
		if event != want || !strings.HasPrefix(key, string(o)+"/") {
			report("entry %d was sent as %s, want %+v", e.N, data, want)
		}
	}
	for _, w := range acknowledged {
		if !entries[w] {
			report("the write %+v was acknowledged and is not in the log", w)
		}
	}
	return exist, owners, wrong
}
