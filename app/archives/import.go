package archives

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"iter"

	"collab/domain/archive"
	"collab/domain/audit"
	"collab/domain/check"
	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/identity"
	"collab/domain/object"
	"collab/domain/org"
	"collab/domain/task"
	"collab/domain/team"
	"collab/domain/workspace"
	"collab/ports"
)

// Import is a request to import an archive.
type Import struct {
	Open         func() (io.ReadCloser, error) // opens the archive, more than once
	Name         string                        // of the organisation; empty: that in the archive
	Slug         string                        // likewise
	Organisation string                        // the identity provider's id of it; empty: none
	Users        map[id.User]string            // users here, by id or the identity provider's id, by the member in the archive; noMember: none
	MaxBytes     int64                         // of records and contents together; 0: DefaultMaxBytes
}

// noMember stands in Import.Users for a member of the archive who does not become one here.
const noMember = "-"

// DefaultMaxBytes bounds the records and contents of an import.
const DefaultMaxBytes = 100 << 30

// Imported is the outcome of an import.
type Imported struct {
	Manifest      archive.Manifest
	Organisation  org.Organisation
	NewIDs        bool // the organisation and its records have other ids than in the archive
	ExistingUsers int  // members who were users before
	CreatedUsers  int  // members whose users were created
	Omitted       int  // members of the archive who are not members here
}

// errStop ends the reading of an archive.
var errStop = errors.New("enough was read")

// importer is an import that is under way.
type importer struct {
	*Archives
	Import
	result       Imported
	sum          string           // of the manifest's parts, so that each reading has the same
	organisation org.Organisation // as it is stored
	mapping      archive.Mapping
	members      map[id.User]org.Profile // by the id in the archive, with the user here; absent: no member
	providerIDs  map[string]bool         // the identity provider's ids of these users
	omitted      personal                // of the archive's members who become none
	listed       int                     // members in Users
	owners       int                     // members who are owners and may sign in
	unknown      int                     // members of another identity provider who are not in Users
	random       string                  // makes the names of the contents
}

// Import creates an organisation from an archive, completely or not at all. Members are users of the
// same identity provider, who are created if they never signed in here, or those in Users. It reads the
// archive once to check all of it and to store the contents, and then again to store the records in one
// transaction. The contents of an import that fails are garbage.
func (a *Archives) Import(ctx context.Context, in Import) (Imported, error) {
	i := &importer{Archives: a, Import: in, members: map[id.User]org.Profile{}, providerIDs: map[string]bool{}, random: a.Secrets.Secret()}
	i.omitted = personal{map[id.Team]bool{}, map[id.Workspace]bool{}, map[id.Task]bool{}}
	if err := i.check(); err != nil {
		return Imported{}, err
	}
	if err := i.checkAndStoreContents(ctx); err != nil {
		return Imported{}, err
	}
	err := a.Store.Atomic(ctx, func(r ports.Records) error { return i.store(ctx, r) })
	return i.result, err
}

func (i *importer) check() error {
	var c check.List
	if i.Name != "" {
		i.Name = c.Name("name", i.Name)
	}
	if i.Slug != "" {
		i.Slug = c.Name("slug", i.Slug)
	}
	if i.Organisation != "" && !identity.ValidID(i.Organisation) {
		c.Add("identity organisation", "must be the identity provider's id of one")
	}
	return c.Err()
}

// read reads the archive, its records of one kind only unless only is empty, and calls each with its
// items. Each may return errStop.
func (i *importer) read(ctx context.Context, only archive.Kind, each func(archive.Item) error) (err error) {
	r, err := i.Open()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	err = i.Archiver.Read(ctx, r, only, func(item archive.Item) error {
		if m := item.Manifest; m != nil {
			sum := fmt.Sprintf("%+v", *m)
			if i.sum == "" {
				i.sum = sum
			}
			if sum != i.sum {
				return fault.New(fault.Conflict, "The archive was changed while it was read")
			}
		}
		return each(item)
	})
	if errors.Is(err, errStop) {
		err = nil
	}
	return err
}

// files ranges over the files of the archive; an error is the last.
func (i *importer) files(ctx context.Context) iter.Seq2[object.Object, error] {
	return func(yield func(object.Object, error) bool) {
		err := i.read(ctx, archive.Objects, func(item archive.Item) error {
			if o := item.Record.Object; o != nil && !yield(*o, nil) || item.Content != nil {
				return errStop
			}
			return nil
		})
		if err != nil {
			yield(object.Object{}, err)
		}
	}
}

// checkAndStoreContents checks the whole archive, finds the users and stores the contents.
func (i *importer) checkAndStoreContents(ctx context.Context) error {
	next, stop := iter.Pull2(i.files(ctx))
	defer stop()
	var references archive.References
	err := i.read(ctx, "", func(item archive.Item) error {
		switch {
		case item.Manifest != nil:
			i.result.Manifest = *item.Manifest
			i.mapping = archive.Mapping{From: item.Manifest.Organisation, Users: map[id.User]id.User{}}
			references.ArchivedAt = item.Manifest.CreatedAt
			return item.Manifest.Check(cmp.Or(i.MaxBytes, DefaultMaxBytes), i.Clock.Now())
		case item.Content != nil:
			if err := i.checkComplete(&references); err != nil {
				return err
			}
			o, err, more := next()
			if err == nil && !more {
				err = fault.New(fault.Invalid, "The archive has more contents than files")
			}
			if err != nil {
				return err
			}
			return i.storeContent(ctx, o, item)
		}
		err := references.Check(item.Record)
		if o := item.Record.Object; err == nil && o != nil && o.Size > i.MaxSize {
			err = fault.Field("size", "must be at most %d, the largest content of a file here", i.MaxSize)
		}
		if err == nil && item.Record.Organisation != nil {
			err = i.chooseOrganisation(ctx, *item.Record.Organisation)
		}
		if err == nil && item.Record.Member != nil {
			err = i.findUser(ctx, *item.Record.Member)
		}
		if err != nil {
			return item.Location.Wrap(err)
		}
		i.omits(item.Record)
		return nil
	})
	if err != nil {
		return err
	}
	if _, err, more := next(); err != nil || more {
		return errors.Join(err, fault.New(fault.Invalid, "The archive has fewer contents than files"))
	}
	return i.checkComplete(&references)
}

// checkComplete returns an error if the records that were read cannot be imported.
func (i *importer) checkComplete(references *archive.References) error {
	if err := references.CheckOwner(); err != nil {
		return err
	}
	switch {
	case i.unknown > 0:
		return fault.New(fault.Conflict, "The archive has %d members of another identity provider (%q, and "+
			"here %q); say with --users which users here they are",
			i.unknown, i.result.Manifest.Issuer, i.Issuer)
	case i.listed < len(i.Users):
		return fault.New(fault.Conflict, "%d of the %d lines of --users name nobody in %s",
			len(i.Users)-i.listed, len(i.Users), archive.FileName(archive.Members))
	case i.owners == 0:
		return fault.New(fault.Conflict, "No OWNER of the archive is a user here who may sign in; map one with --users")
	}
	return nil
}

// sameProvider reports whether ids of the identity provider name the same users and organisations.
func (i *importer) sameProvider() bool {
	return i.Issuer != "" && i.Issuer == i.result.Manifest.Issuer
}

// chooseOrganisation sets the id of the organisation, and the provider's id: the given one, which nobody else
// may have. That of the archive is not taken, since nothing proves that the archive is of it.
func (i *importer) chooseOrganisation(ctx context.Context, o org.Organisation) error {
	all := i.Store.Directory().Organisations()
	_, err := all.Get(ctx, o.ID)
	switch {
	case err == nil:
		i.result.NewIDs = true
		i.mapping.To = id.Org(i.IDs.New())
	case fault.Is(err, fault.NotFound):
		i.mapping.To = o.ID
	default:
		return err
	}
	now := i.Clock.Now()
	i.organisation = org.Organisation{
		ID: i.mapping.To, ProviderID: i.Organisation, Name: cmp.Or(i.Name, o.Name), Slug: cmp.Or(i.Slug, o.Slug),
		CreatedAt: o.CreatedAt, UpdatedAt: now,
	}
	if i.Organisation == "" {
		i.organisation.ProviderID = "imported:" + string(i.mapping.To)
		return nil
	}
	if i.sameProvider() && i.Organisation == o.ProviderID {
		i.organisation.CreatedBy = o.CreatedBy
	}
	_, err = all.ByProvider(ctx, i.Organisation)
	switch {
	case err == nil:
		return fault.New(fault.Conflict, "The organisation %s of the identity provider belongs to another one here", i.Organisation)
	case fault.Is(err, fault.NotFound):
		return nil
	}
	return err
}

// findUser finds the user of a member.
func (i *importer) findUser(ctx context.Context, p org.Profile) error {
	users := i.Store.Directory().Users()
	name, listed := i.Users[p.User]
	var u org.User
	var err error
	switch user, isID := id.Parse[id.User](name); {
	case !listed && !i.sameProvider():
		i.unknown++
		return nil
	case !listed:
		u, err = users.ByProvider(ctx, p.Person.ProviderID)
	case name == noMember:
		i.listed++
		i.result.Omitted++
		return nil
	case isID:
		u, err = users.Get(ctx, user)
	default:
		u, err = users.ByProvider(ctx, name)
	}
	if listed {
		i.listed++
		p.ProviderRole = ""
		if err != nil {
			return fault.Wrap(fault.KindOf(err), err, "the member %s is not %.300q here", p.User, name)
		}
	}
	switch {
	case fault.Is(err, fault.NotFound):
		if u, err = i.newUser(ctx, p.Person); err == nil {
			i.result.CreatedUsers++
		}
	case err == nil && u.Deleted():
		i.result.Omitted++
		return nil
	case err == nil:
		i.result.ExistingUsers++
	}
	if err != nil {
		return err
	}
	return i.addMember(p, u)
}

// newUser returns the record of a user who never signed in here.
func (i *importer) newUser(ctx context.Context, u org.User) (org.User, error) {
	now := i.Clock.Now()
	u.CreatedAt, u.UpdatedAt = now, now
	_, err := i.Store.Directory().Users().Get(ctx, u.ID)
	switch {
	case err == nil:
		u.ID = id.User(i.IDs.New())
	case !fault.Is(err, fault.NotFound):
		return u, err
	}
	return u, nil
}

func (i *importer) addMember(p org.Profile, u org.User) error {
	if i.providerIDs[u.ProviderID] {
		return fault.Field("userId", "is of the same user here as that of another member")
	}
	i.providerIDs[u.ProviderID] = true
	if u.ID != p.User {
		i.mapping.Users[p.User] = u.ID
	}
	if p.Role == org.Owner && u.CheckSignIn() == nil {
		i.owners++
	}
	p.Person = u
	i.members[p.User] = p
	return nil
}

// personal are the ids in the archive of personal teams, their workspaces and their tasks.
type personal struct {
	teams      map[id.Team]bool
	workspaces map[id.Workspace]bool
	tasks      map[id.Task]bool
}

func (i *importer) isOmitted(u id.User) bool {
	_, ok := i.members[u]
	return !ok
}

// omits reports whether a record is not imported: the personal files, and the personal team with
// its workspaces, tasks and files, of somebody who does not become a member, such as a user who was
// deleted since the archive was made. It remembers the teams, workspaces and tasks that are left out,
// so members, teams and workspaces must be given before what is in them.
func (i *importer) omits(r archive.Record) bool {
	in := func(t *id.Team, w *id.Workspace) bool {
		return t != nil && i.omitted.teams[*t] || w != nil && i.omitted.workspaces[*w]
	}
	switch {
	case r.Team != nil && r.Team.Kind == team.Personal && i.isOmitted(r.Team.CreatedBy):
		i.omitted.teams[r.Team.ID] = true
		return true
	case r.TeamMember != nil:
		return i.isOmitted(r.TeamMember.User) || in(&r.TeamMember.Team, nil)
	case r.Workspace != nil && in(&r.Workspace.Team, nil):
		i.omitted.workspaces[r.Workspace.ID] = true
		return true
	case r.WorkspaceOrder != nil:
		return i.isOmitted(r.WorkspaceOrder.User)
	case r.Task != nil && in(nil, r.Task.Workspace):
		i.omitted.tasks[r.Task.ID] = true
		return true
	case r.TaskChange != nil:
		return i.omitted.tasks[r.TaskChange.Task]
	case r.Object != nil && r.Object.Scope == object.Personal:
		return r.Object.Owner != nil && i.isOmitted(*r.Object.Owner)
	case r.Object != nil:
		return in(r.Object.Team, r.Object.Workspace)
	}
	return false
}

// blobName returns the name of the content of a file of the archive.
func (i *importer) blobName(o object.Object) string {
	target := *i.mapping.Record(archive.Record{Object: &o}).Object
	target.Version--
	sum := sha256.Sum256([]byte(i.random + string(o.ID)))
	return target.BlobName(hex.EncodeToString(sum[:16]))
}

// storeContent stores the content of a file.
func (i *importer) storeContent(ctx context.Context, o object.Object, item archive.Item) error {
	if item.Path != archive.ContentPath(o) || item.Size != o.Size {
		return fault.New(fault.Invalid, "The archive has the content %.200s of %d bytes in the place of "+
			"%.200s of %d bytes", item.Path, item.Size, archive.ContentPath(o), o.Size)
	}
	read := object.Verify(item.Content, o.Size, o.Checksum, func(int64) error {
		return fault.New(fault.Invalid, "The content of %.200s has another checksum than in %s", archive.ContentPath(o), archive.FileName(archive.Objects))
	})
	if i.omits(archive.Record{Object: &o}) {
		_, err := io.Copy(io.Discard, read)
		return err
	}
	name := i.blobName(o)
	if err := i.Store.Storage().BlobNames().Announce(ctx, i.mapping.To, name, 0, i.Clock.Now()); err != nil {
		return err
	}
	return i.Blobs.Put(ctx, name, o.MimeType, o.Size, read)
}

// store stores the records in a transaction.
func (i *importer) store(ctx context.Context, r ports.Records) error {
	now := i.Clock.Now()
	w := &writer{importer: i, Records: r, o: i.mapping.To}
	err := i.read(ctx, "", func(item archive.Item) error {
		if item.Content != nil {
			return errStop
		}
		// Records that are not stored, such as usage, may be many, and the database ends a transaction without statements.
		if item.Manifest == nil && item.Location.Line%maxTogether == 0 {
			if _, err := r.Directory().Organisations().Get(ctx, w.o); err != nil {
				return err
			}
		}
		if item.Record.Kind() == "" {
			return nil
		}
		return w.add(ctx, item.Location, item.Record)
	})
	if err == nil {
		err = w.flush(ctx)
	}
	if err != nil {
		return err
	}
	detail := fmt.Sprintf("from %s as of %s", i.mapping.From, i.result.Manifest.CreatedAt.Format("2006-01-02T15:04:05Z"))
	entry := audit.By(org.Actor{Operator: true}, audit.Origin{}, id.Entry(i.IDs.New()), w.o, audit.Imported, "", detail, now)
	i.result.Organisation = i.organisation
	return r.Journal().Audit().Add(ctx, entry)
}

// writer adds the records of an archive to the collections of a transaction.
type writer struct {
	*importer
	ports.Records
	o        id.Org
	location archive.Location // of the last record
	tasks    []task.Task
	changes  []task.Change
	objects  []object.Change
	bytes    int // of the texts of tasks
}

// Bounds of the records that are added in one transaction.
const (
	maxTogether = 500
	maxBytes    = 1 << 20
)

func (w *writer) add(ctx context.Context, location archive.Location, r archive.Record) error {
	if location.Kind != w.location.Kind {
		if err := w.flush(ctx); err != nil {
			return err
		}
	}
	w.location = location
	err := w.put(ctx, w.mapping.Record(r), r)
	if err == nil && (len(w.tasks)+len(w.changes)+len(w.objects) >= maxTogether || w.bytes >= maxBytes) {
		return w.flush(ctx)
	}
	if err != nil {
		return location.Wrap(err)
	}
	return nil
}

// put adds a record; was is the record of the archive.
func (w *writer) put(ctx context.Context, r, was archive.Record) error {
	if w.omits(was) {
		return nil
	}
	dir, work := w.Directory(), w.Work()
	switch {
	case r.Organisation != nil:
		stored, err := dir.Organisations().Upsert(ctx, w.organisation, func(o org.Organisation) (org.Organisation, error) {
			if o != w.organisation {
				return o, fault.New(fault.Conflict, "The organisation was made meanwhile: import again")
			}
			return o, nil
		})
		if err != nil {
			return err
		}
		_, err = dir.Organisations().Lock(ctx, stored.ID)
		return err
	case r.Member != nil:
		return w.putMember(ctx, was.Member.User)
	case r.Team != nil:
		return work.Teams().Add(ctx, w.o, *r.Team)
	case r.TeamMember != nil:
		_, err := work.TeamMembers().Put(ctx, w.o, *r.TeamMember)
		return err
	case r.Workspace != nil:
		return work.Workspaces().Add(ctx, w.o, *r.Workspace)
	case r.WorkspaceOrder != nil:
		return work.Orders().Update(ctx, w.o, r.WorkspaceOrder.User, func(workspace.Order) (workspace.Order, error) { return r.WorkspaceOrder.Workspaces, nil })
	case r.Task != nil:
		t := *r.Task
		if t.Assignee != nil && w.isOmitted(*was.Task.Assignee) {
			t.Assignee = nil
		}
		w.bytes += len(t.Metadata)
		if t.Description != nil {
			w.bytes += len(*t.Description)
		}
		w.tasks = append(w.tasks, t)
	case r.TaskChange != nil:
		w.changes = append(w.changes, r.TaskChange.Change)
	case r.AuditEntry != nil:
		return w.Journal().Audit().Add(ctx, *r.AuditEntry)
	case r.Object != nil:
		return w.putObject(ctx, *r.Object, w.blobName(*was.Object))
	}
	return nil
}

// putMember adds the membership of a member by the id in the archive, and the user if there is none.
func (w *writer) putMember(ctx context.Context, user id.User) error {
	p, ok := w.members[user]
	if !ok {
		return nil
	}
	dir := w.Directory()
	u, err := dir.Users().Get(ctx, p.Person.ID) // Upsert would lock it, and its sign-ins would wait for the import
	if fault.Is(err, fault.NotFound) {
		u, err = dir.Users().Upsert(ctx, p.Person, func(u org.User) (org.User, error) { return u, nil })
	}
	if err == nil && (u.ID != p.Person.ID || u.ProviderID != p.Person.ProviderID || u.Deleted()) {
		err = fault.New(fault.Conflict, "The user signed in or was deleted meanwhile: import again")
	}
	if err != nil {
		return err
	}
	m := p.Membership // never used: it is nobody's default organisation before they choose it
	m.Org, m.User, m.RoleSetHere = w.o, u.ID, true
	return dir.Members().Put(ctx, w.o, m)
}

func (w *writer) putObject(ctx context.Context, o object.Object, blob string) error {
	o.Blob = blob
	storage := w.Storage()
	if len(w.objects) == 0 { // the first one locks the log until the end of the transaction
		if _, err := storage.Changes().Lock(ctx, w.o); err != nil {
			return err
		}
	}
	if err := storage.BlobNames().Forget(ctx, object.Blob{Org: w.o, Name: blob}); err != nil {
		return fault.Wrap(fault.KindOf(err), err, "its content was collected, as the import took longer than %v", object.BlobGracePeriod)
	}
	if err := storage.Objects().Add(ctx, w.o, o); err != nil {
		return err
	}
	w.objects = append(w.objects, object.NewChange(o))
	return nil
}

// flush stores the gathered records.
func (w *writer) flush(ctx context.Context) error {
	var err error
	switch {
	case len(w.tasks) > 0:
		err = w.Work().TaskSets().Add(ctx, w.o, w.tasks)
	case len(w.changes) > 0:
		err = w.Work().TaskHistory().Add(ctx, w.o, w.changes)
	case len(w.objects) > 0:
		_, err = w.Storage().Changes().Append(ctx, w.o, w.objects...)
	}
	if err != nil {
		return fault.Wrap(fault.KindOf(err), err, "%s, up to line %d", archive.FileName(w.location.Kind), w.location.Line)
	}
	w.tasks, w.changes, w.objects, w.bytes = nil, nil, nil, 0
	return nil
}
