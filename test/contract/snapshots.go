package contract

import (
	"errors"
	"testing"

	"collab/domain/archive"
	"collab/domain/id"
	"collab/domain/org"
	"collab/ports"
	"collab/test/must"
)

// Snapshots is the suite of ports.Snapshots.
func Snapshots(t *testing.T, open func(t *testing.T) Opened) {
	suite{
		"an export has every record as stored, in the order of kinds": func(w *fixture) {
			w.tenant()
			tn := w.tenant()
			i := w.connector(tn.ID)
			other := w.join(tn.ID, w.user().ID, org.Viewer, at(900))
			all := w.export(tn.ID)
			c := w.content(tn)
			var want []archive.Record
			want = append(want, archive.Record{Organisation: &c.Organisation}, archive.Record{Subscription: &c.Subscription})
			for _, p := range c.Profiles {
				want = append(want, archive.Record{Member: &p})
			}
			wantEqual(w, c.Profiles[len(c.Profiles)-1].User, other.User)
			want = append(want, archive.Record{Invitation: &tn.invitation})
			for _, v := range c.Teams {
				want = append(want, archive.Record{Team: &v})
			}
			for _, v := range c.InTeam {
				want = append(want, archive.Record{TeamMember: &v.Member})
			}
			for _, v := range c.Workspaces {
				want = append(want, archive.Record{Workspace: &v})
			}
			want = append(want, archive.Record{WorkspaceOrder: &archive.WorkspaceOrder{User: tn.owner.ID, Workspaces: c.Order}})
			want = append(want, archive.Record{Task: &tn.inside}, archive.Record{Task: &tn.unplaced})
			for _, v := range c.Inside {
				want = append(want, archive.Record{TaskChange: &archive.TaskChange{Change: v, Workspace: &tn.workspace.ID}})
			}
			for _, v := range c.Unplaced {
				want = append(want, archive.Record{TaskChange: &archive.TaskChange{Change: v}})
			}
			want = append(want, archive.Record{Connector: &i})
			for _, v := range c.Entries {
				want = append(want, archive.Record{Usage: &v})
			}
			for _, v := range c.Audit {
				want = append(want, archive.Record{AuditEntry: &v})
			}
			for _, v := range c.Objects {
				want = append(want, archive.Record{Object: &v})
			}
			wantEqual(w, all, want)
		},
		"changes during an export are not in it": func(w *fixture) {
			tn := w.tenant()
			before := w.export(tn.ID)
			var all []archive.Record
			w.ok(w.snapshots.Export(w.ctx, tn.ID, func(r archive.Record) error {
				if len(all) == 0 {
					w.join(tn.ID, w.user().ID, org.Member, at(1))
					w.task(tn.ID, nil, tn.owner.ID)
					w.change(tn.inside)
					w.atomic(func(s ports.Records) error {
						return s.Storage().Objects().Remove(w.ctx, tn.ID, []id.Object{tn.sharedObject.ID})
					})
				}
				all = append(all, r)
				return nil
			}))
			wantEqual(w, all, before)
			wantEqual(w, len(w.export(tn.ID)), len(before)+2)
		},
		"an error ends an export and is returned": func(w *fixture) {
			o := w.tenant().ID
			wantStop(w, func(each func(archive.Record) error) error { return w.snapshots.Export(w.ctx, o, each) })
		},
		"an organisation that is closed or not there is not found": func(w *fixture) {
			none := func(archive.Record) error { return errors.New("there is a record") }
			w.wantNotFound(w.snapshots.Export(w.ctx, fresh[id.Org](), none))
			o := w.org()
			must.Do(w.Organisations().Upsert(w.ctx, o, func(o org.Organisation) (org.Organisation, error) { return o.Close(at(1)), nil })).Or(w)
			w.wantNotFound(w.snapshots.Export(w.ctx, o.ID, none))
		},
	}.run(t, open)
}

// export returns the records of an export.
func (w *fixture) export(o id.Org) (all []archive.Record) {
	w.Helper()
	w.ok(w.snapshots.Export(w.ctx, o, collect(&all)))
	return all
}
