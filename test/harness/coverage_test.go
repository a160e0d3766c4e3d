package harness

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"collab/domain/connector"
	"collab/domain/id"
	"collab/domain/invitation"
	"collab/domain/plan"
	"collab/domain/task"
	"collab/ports"
)

// moved is that a record of a kind came from one state to another.
type moved struct{ kind, from, to string }

// observed is a store that tells of every record that comes to another state.
type observed struct {
	ports.Store
	clock ports.Clock
	tell  func(moved)
}

func (s observed) Directory() ports.Directory { return s.records(s.Store).Directory() }
func (s observed) Work() ports.Work           { return s.records(s.Store).Work() }
func (s observed) Connections() ports.Connections {
	return s.records(s.Store).Connections()
}

func (s observed) records(r ports.Records) observedRecords {
	return observedRecords{r, s.clock, s.tell}
}

// Atomic tells of what a transaction moved once it was committed.
func (s observed) Atomic(ctx context.Context, fn func(ports.Records) error) error {
	var all []moved
	err := s.Store.Atomic(ctx, func(r ports.Records) error {
		all = nil
		return fn(observedRecords{r, s.clock, func(m moved) { all = append(all, m) }})
	})
	if err != nil {
		return err
	}
	for _, m := range all {
		s.tell(m)
	}
	return nil
}

type observedRecords struct {
	ports.Records
	clock ports.Clock
	tell  func(moved)
}

func (r observedRecords) Directory() ports.Directory {
	return observedDirectory{r.Records.Directory(), r}
}
func (r observedRecords) Work() ports.Work { return observedWork{r.Records.Work(), r} }
func (r observedRecords) Connections() ports.Connections {
	return observedConnections{r.Records.Connections(), r}
}

type observedDirectory struct {
	ports.Directory
	to observedRecords
}

func (d observedDirectory) Invitations() ports.Invitations {
	return observedInvitations{d.Directory.Invitations(), d.to}
}

func (d observedDirectory) Subscriptions() ports.Subscriptions {
	return observedSubscriptions{d.Directory.Subscriptions(), d.to}
}

type observedInvitations struct {
	ports.Invitations
	to observedRecords
}

func (s observedInvitations) Put(ctx context.Context, o id.Org, i invitation.Invitation) error {
	var from invitation.Status
	if was, err := s.Get(ctx, o, i.ID); err == nil {
		from = was.Status(s.to.clock.Now())
	}
	err := s.Invitations.Put(ctx, o, i)
	if err == nil {
		s.to.tell(moved{"invitation", string(from), string(i.Status(s.to.clock.Now()))})
	}
	return err
}

type observedSubscriptions struct {
	ports.Subscriptions
	to observedRecords
}

// Put tells of the end of a trial as well, which is read before it is recorded.
func (s observedSubscriptions) Put(ctx context.Context, o id.Org, p plan.Subscription) error {
	was, err := s.Get(ctx, o)
	if err != nil {
		return err
	}
	if err := s.Subscriptions.Put(ctx, o, p); err != nil {
		return err
	}
	now := was.At(s.to.clock.Now())
	s.to.tell(moved{"subscription", string(was.State()), string(now.State())})
	s.to.tell(moved{"subscription", string(now.State()), string(p.State())})
	return nil
}

type observedWork struct {
	ports.Work
	to observedRecords
}

func (w observedWork) Tasks() ports.Tasks { return observedTasks{w.Work.Tasks(), w.to} }

type observedTasks struct {
	ports.Tasks
	to observedRecords
}

func (s observedTasks) Add(ctx context.Context, o id.Org, t task.Task) (task.Task, error) {
	t, err := s.Tasks.Add(ctx, o, t)
	if err == nil {
		s.to.tell(moved{"task", "", string(t.Status())})
	}
	return t, err
}

func (s observedTasks) Revise(ctx context.Context, o id.Org, ids []id.Task, fn func([]task.Task) ([]task.Task, error)) ([]task.Task, error) {
	was := map[id.Task]task.Status{}
	all, err := s.Tasks.Revise(ctx, o, ids, func(all []task.Task) ([]task.Task, error) {
		for _, t := range all {
			was[t.ID] = t.Status()
		}
		return fn(all)
	})
	if err == nil {
		for _, t := range all {
			s.to.tell(moved{"task", string(was[t.ID]), string(t.Status())})
		}
	}
	return all, err
}

type observedConnections struct {
	ports.Connections
	to observedRecords
}

func (c observedConnections) Connectors() ports.Connectors {
	return observedConnectors{c.Connections.Connectors(), c.to}
}

type observedConnectors struct {
	ports.Connectors
	to observedRecords
}

func (s observedConnectors) Add(ctx context.Context, o id.Org, i connector.Instance) error {
	err := s.Connectors.Add(ctx, o, i)
	if err == nil {
		s.to.tell(moved{"connector", "", string(i.Status())})
	}
	return err
}

func (s observedConnectors) Update(ctx context.Context, o id.Org, of id.Connector, fn func(connector.Instance) (connector.Instance, error)) (connector.Instance, error) {
	var was connector.Status
	i, err := s.Connectors.Update(ctx, o, of, func(i connector.Instance) (connector.Instance, error) {
		was = i.Status()
		return fn(i)
	})
	if err == nil {
		s.to.tell(moved{"connector", string(was), string(i.Status())})
	}
	return i, err
}

// allMoves are all that the domain's rules allow from one state to another.
func allMoves() map[moved]bool {
	all := map[moved]bool{}
	add := func(kind, from, to string) {
		if to != from {
			all[moved{kind, from, to}] = true
		}
	}
	for _, row := range plan.Table() {
		for _, from := range row.From {
			if row.To != "" && row.To != "stays" {
				add("subscription", string(from), string(row.To))
			}
		}
	}
	for _, row := range connector.Table() {
		for _, from := range row.From {
			add("connector", string(from), string(row.To))
		}
	}
	statuses := []task.Status{"", task.Todo, task.InProgress, task.Done, task.Cancelled}
	for _, from := range statuses {
		for _, to := range statuses[1:] {
			add("task", string(from), string(to))
		}
	}
	// That one has expired is time's work, and nobody notes it.
	for from, to := range map[invitation.Status][]invitation.Status{
		"":                  {invitation.Pending, invitation.Accepted, invitation.Revoked},
		invitation.Pending:  {invitation.Accepted, invitation.Revoked},
		invitation.Expired:  {invitation.Pending, invitation.Accepted, invitation.Revoked},
		invitation.Accepted: {invitation.Revoked},
		invitation.Revoked:  {invitation.Accepted},
	} {
		for _, to := range to {
			add("invitation", string(from), string(to))
		}
	}
	return all
}

// Whatever the tables of docs/states.md, and those of tasks and invitations,
// allow happens in some scenario.
func TestScenariosGoThroughAllStates(t *testing.T) {
	files, err := filepath.Glob("testdata/scenarios/*.txt")
	if err != nil || len(files) < 25 {
		t.Fatalf("there are %d scenarios, and have to be 25: %v", len(files), err)
	}
	var mu sync.Mutex // connectors are looked at side by side
	happened := map[moved]bool{}
	tell := func(m moved) {
		mu.Lock()
		defer mu.Unlock()
		happened[m] = true
	}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		s, errs := Parse(f, string(text))
		if len(errs) > 0 {
			t.Fatal(errs)
		}
		if filepath.Base(f) == "year.txt" {
			continue // nothing comes about in it that does not in others, and it takes long
		}
		w, err := NewWorld(Beginning)
		if err != nil {
			t.Fatal(err)
		}
		w.watch = func(s ports.Store) ports.Store {
			return observed{s, w.Clock, tell}
		}
		if err := w.Restart(); err != nil {
			t.Fatal(err)
		}
		r := newRun(w, f)
		r.play(t.Context(), s.steps)
		r.close()
		for _, f := range r.report.Failures {
			t.Error(f)
		}
	}
	all := allMoves()
	for _, m := range slices.SortedFunc(maps.Keys(all), func(a, b moved) int {
		return strings.Compare(a.kind+" "+a.from+" "+a.to, b.kind+" "+b.from+" "+b.to)
	}) {
		if !happened[m] {
			t.Errorf("in no scenario a %s comes from %q to %q", m.kind, m.from, m.to)
		}
	}
	for m := range happened {
		if m.from != m.to && !all[m] && m.to != "" {
			t.Errorf("in a scenario a %s comes from %q to %q, which no table has", m.kind, m.from, m.to)
		}
	}
}
