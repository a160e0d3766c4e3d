package assembly

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"collab/adapters/archive"
	"collab/adapters/bucket"
	"collab/adapters/gormdb"
	"collab/app/assembly/config"
	domain "collab/domain/archive"
	"collab/domain/audit"
	"collab/domain/id"
	"collab/domain/object"
	"collab/domain/org"
	"collab/domain/task"
	"collab/domain/team"
	"collab/domain/workspace"
	"collab/ports"
	"collab/test/tempdir"
)

func uid[T ~string](n int) T { return T(fmt.Sprintf("01900000-0000-7000-8000-%012d", n)) }

// deployment is a data folder with a database and a store.
type deployment struct {
	*testing.T
	config config.Config
	db     *gormdb.DB
	blobs  *bucket.Bucket
}

func newDeployment(t *testing.T, environ ...string) *deployment {
	t.Helper()
	c, err := config.Read(append(environ, "COLLAB_DATA_DIR="+filepath.Join(tempdir.New(t), "data")))
	if err != nil {
		t.Fatal(err)
	}
	d := &deployment{T: t, config: c}
	if d.db, err = gormdb.Open(t.Context(), gormdb.Options{URL: c.DatabaseURL.Text()}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.db.Close() })
	if d.blobs, err = bucket.Open(t.Context(), c.BlobURL.Text()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.blobs.Close() })
	if err := d.db.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	return d
}

const exampleOrg = id.Org("01900000-0000-7000-8000-000000000001")

// add adds an organisation with two members, Ada and Ben, of whom each has a personal team with a
// workspace, a task and a file, beside what all see.
func (d *deployment) add() {
	d.Helper()
	now := time.Date(2026, 1, 2, 3, 4, 5, 678_000_000, time.UTC)
	ctx := d.Context()
	err := d.db.Atomic(ctx, func(r ports.Records) error {
		dir, work := r.Directory(), r.Work()
		of := org.Organisation{ID: exampleOrg, ProviderID: "org_1", Name: "Example", Slug: "example", CreatedAt: now, UpdatedAt: now}
		err := keep(dir.Organisations().Upsert(ctx, of, func(o org.Organisation) (org.Organisation, error) { return o, nil }))
		users := []id.User{uid[id.User](11), uid[id.User](12)}
		shared, err2 := team.New(uid[id.Team](20), exampleOrg, team.Shared, users[0], team.Draft{Name: "Shared"}, now)
		err = errors.Join(err, err2, work.Teams().Add(ctx, exampleOrg, shared))
		file := func(n int, in object.Place, path string, by id.User) {
			text := fmt.Sprintf("content %d", n)
			sum := sha256.Sum256([]byte(text))
			o := object.Object{Place: in, ID: uid[id.Object](n), Org: exampleOrg, Path: path, MimeType: "text/plain"}
			o = o.WithContent(object.Content{Blob: o.BlobName("r"), Size: int64(len(text)), Checksum: hex.EncodeToString(sum[:]), Text: true}, by, now)
			err = errors.Join(err, d.blobs.Put(ctx, o.Blob, o.MimeType, o.Size, strings.NewReader(text)), r.Storage().Objects().Add(ctx, exampleOrg, o),
				keep(r.Storage().Changes().Append(ctx, exampleOrg, object.NewChange(o))))
		}
		for i, user := range users {
			u := org.User{ID: user, ProviderID: fmt.Sprintf("user_%d", i), Name: []string{"Ada", "Ben"}[i], Email: fmt.Sprintf("u%d@example.com", i), CreatedAt: now, UpdatedAt: now}
			m := org.Membership{Org: exampleOrg, User: user, Role: []org.Role{org.Owner, org.Member}[i], OnboardingCompleted: true, JoinedAt: now}
			own, err2 := team.New(uid[id.Team](21+i), exampleOrg, team.Personal, user, team.Draft{Name: "Own"}, now)
			w, err3 := workspace.New(uid[id.Workspace](31+i), exampleOrg, user, workspace.Draft{Name: "Own", Team: own.ID}, now)
			t, err4 := task.New(uid[id.Task](41+i), exampleOrg, user, task.Draft{Title: "Own", Workspace: &w.ID, Tags: []string{"a"}, Metadata: `{"n":1}`}, now)
			err = errors.Join(err, err2, err3, err4, keep(dir.Users().Upsert(ctx, u, func(u org.User) (org.User, error) { return u, nil })),
				dir.Members().Put(ctx, exampleOrg, m), work.Teams().Add(ctx, exampleOrg, own),
				keep(work.TeamMembers().Put(ctx, exampleOrg, team.Member{Team: own.ID, User: user, JoinedAt: now})), work.Workspaces().Add(ctx, exampleOrg, w),
				work.Orders().Update(ctx, exampleOrg, user, func(workspace.Order) (workspace.Order, error) { return workspace.Order{w.ID}, nil }),
				keep(work.Tasks().Add(ctx, exampleOrg, t)),
				work.TaskHistory().Add(ctx, exampleOrg, []task.Change{{ID: uid[id.Entry](51 + i), Org: exampleOrg, Task: t.ID, At: now, By: user, Reason: "so"}}))
			file(61+i, object.Place{Kind: object.HubMemory, Scope: object.Personal, Owner: &users[i]}, "user-memory.md", user)
		}
		every, err2 := task.New(uid[id.Task](43), exampleOrg, users[1], task.Draft{Title: "For all", Assignee: &users[0], Status: task.Done}, now)
		file(63, object.Place{Kind: object.BrandAsset, Scope: object.Shared}, "logo/ä.svg", users[1])
		return errors.Join(err, err2, keep(work.Tasks().Add(ctx, exampleOrg, every)), r.Journal().Audit().Add(ctx, audit.Entry{
			ID: uid[id.Entry](71), Org: exampleOrg, At: now, Actor: users[0], Action: audit.RoleChanged, Target: string(users[1]), Detail: "VIEWER -> MEMBER",
		}))
	})
	if err != nil {
		d.Fatal(err)
	}
}

func keep[V any](_ V, err error) error { return err }

// exported exports an organisation to a file and returns what the command printed.
func (d *deployment) exported(organisation string) (file, printed string, err error) {
	d.Helper()
	var out, log bytes.Buffer
	file = filepath.Join(d.TempDir(), "export.tar.gz")
	err = Export(d.Context(), d.config, organisation, file, &out, &log)
	return file, out.String(), err
}

// contents reads an archive: the records by file, in their form there, and the contents by path.
func contents(t *testing.T, file string) (m domain.Manifest, records map[domain.Kind]int, texts map[string]string) {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	records, texts = map[domain.Kind]int{}, map[string]string{}
	err = archive.Archiver{}.Read(context.Background(), f, func(i domain.Item) error {
		switch {
		case i.Manifest != nil:
			m = *i.Manifest
		case i.Content != nil:
			var text bytes.Buffer
			_, err := text.ReadFrom(i.Content)
			texts[i.Path] = text.String()
			return err
		default:
			records[i.Place.Kind]++
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return m, records, texts
}

func TestExportWritesAnOrganisationToAFile(t *testing.T) {
	d := newDeployment(t)
	d.add()
	file, printed, err := d.exported("example")
	if err != nil || !strings.Contains(printed, "Exported Example ("+string(exampleOrg)+")") {
		t.Fatalf("%v, %s", err, printed)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	m, records, texts := contents(t, file)
	if m.Organisation != exampleOrg || m.Contents != 3 || m.Version != Version() {
		t.Errorf("the manifest is %+v", m)
	}
	for k, n := range map[domain.Kind]int{domain.Members: 2, domain.Teams: 3, domain.Workspaces: 2, domain.Tasks: 3, domain.Changes: 2, domain.Entries: 1, domain.Objects: 3} {
		if records[k] != n {
			t.Errorf("%d %s, want %d", records[k], k, n)
		}
	}
	if texts["shared/brand/logo/ä.svg"] != "content 63" || texts["personal/"+string(uid[id.User](12))+"/user-memory.md"] != "content 62" {
		t.Errorf("the contents are %q", texts)
	}
	if err := Export(t.Context(), d.config, string(exampleOrg), file, os.Stderr, os.Stderr); err == nil || !strings.Contains(err.Error(), "is there already") {
		t.Errorf("again: %v", err)
	}
	if _, _, err := d.exported("nobody"); err == nil || !strings.Contains(err.Error(), "Organisation not found") {
		t.Errorf("of nobody: %v", err)
	}
}

func TestAnExportWithoutAContentLeavesNoFile(t *testing.T) {
	d := newDeployment(t)
	d.add()
	o, err := d.db.Storage().Objects().Get(t.Context(), exampleOrg, uid[id.Object](62))
	if err == nil {
		err = d.blobs.Remove(t.Context(), o.Blob)
	}
	if err != nil {
		t.Fatal(err)
	}
	file, _, err := d.exported("example")
	if err == nil || !strings.Contains(err.Error(), "does not have the content") {
		t.Errorf("%v", err)
	}
	if _, err := os.Stat(file); !os.IsNotExist(err) {
		t.Errorf("the file: %v", err)
	}
}
