// Package memory implements the store in maps, and a clock, ids, secrets, a mailer, a bus
// and payments that tests control.
//
// They pass the same contract suites as other adapters. The offline harness and unit tests
// run the core on them, without network or database and with the same outcome every time.
// One lock guards the whole store, so that transactions run one after the other. A
// transaction that fails is undone step by step.
package memory

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"collab/domain/audit"
	"collab/domain/connector"
	"collab/domain/export"
	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/invitation"
	"collab/domain/object"
	"collab/domain/org"
	"collab/domain/plan"
	"collab/domain/quota"
	"collab/domain/release"
	"collab/domain/replay"
	"collab/domain/session"
	"collab/domain/task"
	"collab/domain/team"
	"collab/domain/upload"
	"collab/domain/usage"
	"collab/domain/workspace"
	"collab/ports"
)

var (
	_ ports.Store  = (*Store)(nil)
	_ ports.Epochs = (*Store)(nil)
	_ ports.Health = (*Store)(nil)
)

// Store is ports.Store in maps.
type Store struct {
	records

	mu       sync.Mutex
	state    state               // guarded by mu
	onChange []func(object.Hint) // guarded by mu
}

// NewStore returns an empty store.
func NewStore() *Store {
	s := new(Store)
	makeTables(&s.state)
	s.records = records{run: s.run}
	return s
}

// Atomic runs fn once: nothing in maps asks for a retry. The store is locked
// meanwhile, so that fn hangs if it uses the store itself.
func (s *Store) Atomic(_ context.Context, fn func(ports.Records) error) error {
	return s.run(func(x *tx) error { return fn(records{run: x.run, inside: true}) })
}

// At compares the epoch in the transaction of each method.
func (s *Store) At(o id.Org, epoch int64) ports.Records {
	return records{run: runner(s.run).at(o, epoch, org.ErrEpochChanged)}
}

// Position returns none, as there are no replicas.
func (s *Store) Position(context.Context, string) (string, error) { return "", nil }

// From returns the store, which has no replicas.
func (s *Store) From(string) ports.Records { return s }

// Epochs reads the epochs of the organisations that exist.
func (s *Store) Epochs(_ context.Context, orgs []id.Org) (map[id.Org]int64, error) {
	return ofEach(s.run, orgs, func(x *tx, o id.Org) (int64, error) { return x.Epochs.get(o) })
}

// Ready returns nil: maps always answer.
func (s *Store) Ready(context.Context) error { return nil }

// OnChange has fn called after the commit of every transaction that appended to
// organisations' logs, with the last number in each of them.
func (s *Store) OnChange(fn func(object.Hint)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.onChange = append(s.onChange, fn)
}

// run runs fn as a transaction of its own, and calls the subscribers outside the lock, so
// that they can read what was committed.
func (s *Store) run(fn func(*tx) error) error {
	appended, subscribers, err := s.commit(fn)
	if err != nil {
		return err
	}
	for _, o := range slices.Sorted(maps.Keys(appended)) {
		for _, notify := range subscribers {
			notify(object.Hint{Org: o, N: appended[o]})
		}
	}
	return nil
}

// commit runs fn as a transaction. It returns the last number in each log that it appended
// to, and the subscribers.
func (s *Store) commit(fn func(*tx) error) (appended map[id.Org]int64, subscribers []func(object.Hint), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	x := &tx{state: &s.state, locked: map[id.Org]bool{}}
	defer func() { x.state = nil }()
	err = x.run(fn)
	return x.appended, s.onChange, err
}

// state has all records. Every organisation has a tenant and an epoch.
type state struct {
	Users       table[id.User, org.User]                  `record:"User"`
	Orgs        table[id.Org, org.Organisation]           `record:"Organisation"`
	Epochs      table[id.Org, int64]                      `record:"Organisation"`
	Tenants     table[id.Org, *tenant]                    `record:"Organisation"`
	Inbox       table[messageKey, time.Time]              `record:"Message"`
	Audit       table[id.Entry, audit.Entry]              `record:"Entry"`
	Requests    table[requestsKey, requestCount]          `record:"Requests"`
	Replays     table[string, replay.Record]              `record:"Key"`
	Sessions    table[id.Session, session.Session]        `record:"Session"`
	Devices     table[string, session.DeviceGrant]        `record:"Device"` // by the digest of the device code
	Heads       table[id.Org, object.Head]                `record:"Log"`    // of the logs that were appended to
	Blobs       table[string, object.Blob]                `record:"Blob"`
	Flows       table[string, connector.Flow]             `record:"Authorization"`
	Clients     table[clientKey, connector.Registered]    `record:"Client"`
	Revocations table[connectorKey, connector.Revocation] `record:"Revocation"`
	Releases    table[id.Release, revisedRelease]         `record:"Release"`
	revision    int64                                     // of releases
	Adoption    table[checkCountKey, release.CheckCount]  `record:"Count"`
	Seen        table[devicesKey, release.DailyDevices]   `record:"Devices"`
	Reports     table[reportKey, release.Report]          `record:"Report"`
}

// tenant has the records of one organisation.
type tenant struct {
	Members       table[id.User, org.Membership]              `record:"Member"`
	Invitations   table[id.Invitation, invitation.Invitation] `record:"Invitation"`
	Subscriptions table[id.Org, plan.Subscription]            `record:"Subscription"` // the organisation's own, or none
	Teams         table[id.Team, team.Team]                   `record:"Team"`
	TeamMembers   table[teamMemberKey, team.Member]           `record:"Member"`
	Workspaces    table[id.Workspace, workspace.Workspace]    `record:"Workspace"`
	Orders        table[id.User, workspace.Order]             `record:"Order"`
	Tasks         table[id.Task, task.Task]                   `record:"Task"`
	History       table[id.Entry, task.Change]                `record:"Change"`
	Objects       table[id.Object, object.Object]             `record:"Object"`
	Keys          table[string, id.Object]                    `record:"Path"` // by folded storage key
	Versions      table[versionKey, object.EarlierVersion]    `record:"Version"`
	Log           table[int64, object.Change]                 `record:"Change"`
	Accounts      table[accountKey, quota.Account]            `record:"Account"`
	Leases        table[leaseKey, quota.Lease]                `record:"Lease"`
	Usage         table[id.Request, usage.Entry]              `record:"Entry"`
	Connectors    table[id.Connector, connector.Instance]     `record:"Connector"`
	Credentials   table[id.Connector, connector.Sealed]       `record:"Credentials"`
	Exports       table[id.Export, export.Export]             `record:"Export"`
	Uploads       table[id.Upload, upload.Upload]             `record:"Upload"`
	UploadParts   table[partKey, uploadPart]                  `record:"Part"`
}

func newTenant() *tenant {
	t := new(tenant)
	makeTables(t)
	return t
}

// Clone returns the tenant itself, whose tables store and return copies.
func (t *tenant) Clone() *tenant { return t }

// tenant returns the records of an organisation for reading. An unknown organisation has
// none.
func (s *state) tenant(o id.Org) *tenant {
	if t, err := s.Tenants.get(o); err == nil {
		return t
	}
	return newTenant()
}

// tx is a transaction over the state.
type tx struct {
	*state                    // nil after the end
	undo     []func()         // reverses each step, in the order of the steps
	locked   map[id.Org]bool  // organisations whose epoch the transaction has incremented
	appended map[id.Org]int64 // the last number in each log that was appended to
}

// run runs fn as a part of the transaction: when it fails, panics or ends its
// goroutine, its steps are undone and no others.
func (x *tx) run(fn func(*tx) error) error {
	if x.state == nil {
		return fault.New(fault.Internal, "The transaction of these collections has ended")
	}
	start, done := len(x.undo), false
	defer func() {
		if done {
			return
		}
		for _, step := range slices.Backward(x.undo[start:]) {
			step()
		}
		x.undo = x.undo[:start]
	}()
	err := fn(x)
	done = err == nil
	return err
}

// notify has the subscribers called with a log's last number after the commit.
func (x *tx) notify(o id.Org, n int64) {
	if x.appended == nil {
		x.appended = map[id.Org]int64{}
	}
	x.appended[o] = n
}

// runner runs a function with the state: in a transaction of its own, or as a part of one.
type runner func(fn func(*tx) error) error

// in runs fn with the records of an organisation, NotFound for an unknown one.
func (r runner) in(o id.Org, fn func(x *tx, t *tenant) error) error {
	return r(func(x *tx) error {
		t, err := x.Tenants.get(o)
		if err != nil {
			return err
		}
		return fn(x, t)
	})
}

// at returns a runner that returns the error changed if the organisation has another epoch.
func (r runner) at(o id.Org, epoch int64, changed error) runner {
	return func(fn func(*tx) error) error {
		return r(func(x *tx) error {
			if now, err := x.Epochs.get(o); err != nil || now != epoch {
				return changed
			}
			return fn(x)
		})
	}
}

// do runs fn, which cannot fail.
func (r runner) do(fn func(*tx)) error {
	return r(func(x *tx) error {
		fn(x)
		return nil
	})
}

// result runs fn and returns its value, the zero value when it fails.
func result[V any](run runner, fn func(*tx) (V, error)) (V, error) {
	var v V
	err := run(func(x *tx) (err error) {
		v, err = fn(x)
		return err
	})
	if err != nil {
		var zero V
		return zero, err
	}
	return v, nil
}

// ofEach returns the values of the organisations for which fn returns no error.
func ofEach[V any](run runner, orgs []id.Org, fn func(*tx, id.Org) (V, error)) (map[id.Org]V, error) {
	return result(run, func(x *tx) (map[id.Org]V, error) {
		values := make(map[id.Org]V, len(orgs))
		for _, o := range orgs {
			if v, err := fn(x, o); err == nil {
				values[o] = v
			}
		}
		return values, nil
	})
}

// records returns the collections. It implements all groups of them except Storage, which has methods of its own.
type records struct {
	run    runner
	inside bool // of an Atomic
}

func (r records) Directory() ports.Directory     { return r }
func (r records) Work() ports.Work               { return r }
func (r records) Journal() ports.Journal         { return r }
func (r records) Storage() ports.Storage         { return storage(r) }
func (r records) Usage() ports.Usage             { return r }
func (r records) Connections() ports.Connections { return r }
func (r records) Deployment() ports.Deployment   { return r }
