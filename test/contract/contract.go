// Package contract has the contracts of the ports' comments as tests. Every
// adapter's own test calls the suites of the ports that it implements:
//
//	func TestStore(t *testing.T) {
//		contract.Store(t, func(t *testing.T) contract.Opened { … })
//	}
//
// Every sub-test works with organisations, users and ids of its own and runs in
// parallel with the others, so that they may share one database, also with
// another run of the same suite.
package contract

import (
	"maps"
	"slices"
	"testing"

	"collab/ports"
)

// Opened is a store that is ready for use.
type Opened struct {
	Store  ports.Store
	Epochs ports.Epochs // usually the same value as Store

	Snapshots ports.Snapshots // the same

	// Apart says that transactions run concurrently. In other stores each
	// waits for the one before it.
	Apart bool
}

// Store runs the suites of everything that a store holds. Open is called by
// every sub-test; what it returns must stay usable until that sub-test's
// cleanup, and may be the same value each time.
func Store(t *testing.T, open func(t *testing.T) Opened) {
	t.Run("Atomic", func(t *testing.T) { Atomic(t, open) })
	t.Run("From", func(t *testing.T) { From(t, open) })
	t.Run("Users", func(t *testing.T) { Users(t, open) })
	t.Run("Organisations", func(t *testing.T) { Organisations(t, open) })
	t.Run("Epochs", func(t *testing.T) { Epochs(t, open) })
	t.Run("Members", func(t *testing.T) { Members(t, open) })
	t.Run("Seats", func(t *testing.T) { Seats(t, open) })
	t.Run("Invitations", func(t *testing.T) { Invitations(t, open) })
	t.Run("InvitationSets", func(t *testing.T) { InvitationSets(t, open) })
	t.Run("Subscriptions", func(t *testing.T) { Subscriptions(t, open) })
	t.Run("Teams", func(t *testing.T) { Teams(t, open) })
	t.Run("TeamMembers", func(t *testing.T) { TeamMembers(t, open) })
	t.Run("Workspaces", func(t *testing.T) { Workspaces(t, open) })
	t.Run("Orders", func(t *testing.T) { Orders(t, open) })
	t.Run("Tasks", func(t *testing.T) { Tasks(t, open) })
	t.Run("TasksAt", func(t *testing.T) { TasksAt(t, open) })
	t.Run("TaskSets", func(t *testing.T) { TaskSets(t, open) })
	t.Run("TaskHistory", func(t *testing.T) { TaskHistory(t, open) })
	t.Run("Inbox", func(t *testing.T) { Inbox(t, open) })
	t.Run("Audit", func(t *testing.T) { Audit(t, open) })
	t.Run("Replays", func(t *testing.T) { Replays(t, open) })
	t.Run("Sessions", func(t *testing.T) { Sessions(t, open) })
	t.Run("DeviceGrants", func(t *testing.T) { DeviceGrants(t, open) })
	t.Run("Storage", func(t *testing.T) { Storage(t, open) })
	t.Run("UsedStorage", func(t *testing.T) { UsedStorage(t, open) })
	t.Run("Objects", func(t *testing.T) { Objects(t, open) })
	t.Run("ObjectSets", func(t *testing.T) { ObjectSets(t, open) })
	t.Run("Changes", func(t *testing.T) { Changes(t, open) })
	t.Run("BlobNames", func(t *testing.T) { BlobNames(t, open) })
	t.Run("Versions", func(t *testing.T) { Versions(t, open) })
	t.Run("Quotas", func(t *testing.T) { Quotas(t, open) })
	t.Run("Ledger", func(t *testing.T) { Ledger(t, open) })
	t.Run("Requests", func(t *testing.T) { Requests(t, open) })
	t.Run("Connectors", func(t *testing.T) { Connectors(t, open) })
	t.Run("Credentials", func(t *testing.T) { Credentials(t, open) })
	t.Run("Flows", func(t *testing.T) { Flows(t, open) })
	t.Run("Clients", func(t *testing.T) { Clients(t, open) })
	t.Run("Revocations", func(t *testing.T) { Revocations(t, open) })
	t.Run("Releases", func(t *testing.T) { Releases(t, open) })
	t.Run("Exports", func(t *testing.T) { Exports(t, open) })
	t.Run("Uploads", func(t *testing.T) { Uploads(t, open) })
	t.Run("Snapshots", func(t *testing.T) { Snapshots(t, open) })
	t.Run("Reports", func(t *testing.T) { Reports(t, open) })
	t.Run("Adoption", func(t *testing.T) { Adoption(t, open) })
}

// suite is the sub-tests of one port by the sentence that each of them proves.
type suite map[string]func(w *fixture)

func (s suite) run(t *testing.T, open func(t *testing.T) Opened) {
	t.Helper()
	runSuite(t, s, func(t *testing.T) *fixture {
		t.Parallel()
		return newFixture(t, open(t))
	})
}

// runSuite runs each test of a suite with a fixture of its own, in the order of their names.
func runSuite[F any](t *testing.T, tests map[string]func(F), open func(t *testing.T) F) {
	t.Helper()
	for _, name := range slices.Sorted(maps.Keys(tests)) {
		t.Run(name, func(t *testing.T) { tests[name](open(t)) })
	}
}
