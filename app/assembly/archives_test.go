package assembly

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"collab/adapters/archive"
	"collab/adapters/bucket"
	"collab/adapters/gormdb"
	"collab/app/archives"
	"collab/app/assembly/backup"
	"collab/app/assembly/config"
	domain "collab/domain/archive"
	"collab/domain/audit"
	"collab/domain/export"
	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/object"
	"collab/domain/org"
	"collab/domain/plan"
	"collab/domain/task"
	"collab/domain/team"
	"collab/domain/workspace"
	"collab/ports"
	"collab/test/must"
	"collab/test/postgres"
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
	must.NoError(t, err)
	d := &deployment{T: t, config: c}
	d.db = must.Do(gormdb.Open(t.Context(), gormdb.Options{URL: c.DatabaseURL.Text()})).Or(t)
	t.Cleanup(func() { d.db.Close() })
	d.blobs = must.Do(bucket.Open(t.Context(), c.BlobURL.Text())).Or(t)
	t.Cleanup(func() { d.blobs.Close() })
	must.NoError(t, d.db.Migrate(t.Context()))
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
		err := must.ErrorOf(dir.Organisations().Upsert(ctx, of, func(o org.Organisation) (org.Organisation, error) { return o, nil }))
		users := []id.User{uid[id.User](11), uid[id.User](12)}
		shared, err2 := team.New(uid[id.Team](20), exampleOrg, team.Shared, users[0], team.Draft{Name: "Shared"}, now)
		err = errors.Join(err, err2, work.Teams().Add(ctx, exampleOrg, shared))
		file := func(n int, in object.Place, path string, by id.User) {
			text := fmt.Sprintf("content %d", n)
			o := object.Object{Place: in, ID: uid[id.Object](n), Org: exampleOrg, Path: path, MimeType: "text/plain"}
			o = o.WithContent(object.Content{Blob: o.BlobName("r"), Size: int64(len(text)), Checksum: must.Sum(text), Text: true}, by, now)
			err = errors.Join(err, d.blobs.Put(ctx, o.Blob, o.MimeType, o.Size, strings.NewReader(text)), r.Storage().Objects().Add(ctx, exampleOrg, o),
				must.ErrorOf(r.Storage().Changes().Append(ctx, exampleOrg, object.NewChange(o))))
		}
		for i, user := range users {
			u := org.User{ID: user, ProviderID: fmt.Sprintf("user_%d", i), Name: []string{"Ada", "Ben"}[i], Email: fmt.Sprintf("u%d@example.com", i), CreatedAt: now, UpdatedAt: now}
			m := org.Membership{Org: exampleOrg, User: user, Role: []org.Role{org.Owner, org.Member}[i], OnboardingCompleted: true, JoinedAt: now}
			own, err2 := team.New(uid[id.Team](21+i), exampleOrg, team.Personal, user, team.Draft{Name: "Own"}, now)
			w, err3 := workspace.New(uid[id.Workspace](31+i), exampleOrg, user, workspace.Draft{Name: "Own", Team: own.ID}, now)
			t, err4 := task.New(uid[id.Task](41+i), exampleOrg, user, task.Draft{Title: "Own", Workspace: &w.ID, Tags: []string{"a"}, Metadata: `{"n":1}`}, now)
			err = errors.Join(err, err2, err3, err4, must.ErrorOf(dir.Users().Upsert(ctx, u, func(u org.User) (org.User, error) { return u, nil })),
				dir.Members().Put(ctx, exampleOrg, m), work.Teams().Add(ctx, exampleOrg, own),
				must.ErrorOf(work.TeamMembers().Put(ctx, exampleOrg, team.Member{Team: own.ID, User: user, JoinedAt: now})), work.Workspaces().Add(ctx, exampleOrg, w),
				work.Orders().Update(ctx, exampleOrg, user, func(workspace.Order) (workspace.Order, error) { return workspace.Order{w.ID}, nil }),
				must.ErrorOf(work.Tasks().Add(ctx, exampleOrg, t)),
				work.TaskHistory().Add(ctx, exampleOrg, []task.Change{{ID: uid[id.Entry](51 + i), Org: exampleOrg, Task: t.ID, At: now, By: user, Reason: "so"}}))
			file(61+i, object.Place{Kind: object.HubMemory, Scope: object.Personal, Owner: &users[i]}, "user-memory.md", user)
			file(64+i, object.Place{Kind: object.Artifact, Scope: object.Shared, Workspace: &w.ID}, "own.md", user)
		}
		every, err2 := task.New(uid[id.Task](43), exampleOrg, users[1], task.Draft{Title: "For all", Assignee: &users[0], Status: task.Done}, now)
		file(63, object.Place{Kind: object.BrandAsset, Scope: object.Shared}, "logo/ä.svg", users[1])
		return errors.Join(err, err2, must.ErrorOf(work.Tasks().Add(ctx, exampleOrg, every)), r.Journal().Audit().Add(ctx, audit.Entry{
			ID: uid[id.Entry](71), Org: exampleOrg, At: now, Actor: users[0], Action: audit.RoleChanged, Target: string(users[1]), Detail: "VIEWER -> MEMBER",
		}))
	})
	must.NoError(d, err)
}

// exported exports an organisation to a file and returns what the command printed.
func (d *deployment) exported(organisation string) (file, printed string, err error) {
	d.Helper()
	var out, log bytes.Buffer
	file = filepath.Join(d.TempDir(), "export.tar.gz")
	err = Export(d.Context(), d.config, organisation, file, &out, &log)
	return file, out.String(), err
}

// exportedFile returns an export of the organisation that add adds to a new deployment.
func exportedFile(t *testing.T) string {
	t.Helper()
	from := newDeployment(t, sameIssuer)
	from.add()
	file, _, err := from.exported("example")
	must.NoError(t, err)
	return file
}

// contents reads an archive: the records by file, in their form there, and the contents by path.
func contents(t *testing.T, file string) (m domain.Manifest, records map[domain.Kind]int, texts map[string]string) {
	t.Helper()
	f, err := os.Open(file)
	must.NoError(t, err)
	defer f.Close()
	records, texts = map[domain.Kind]int{}, map[string]string{}
	must.NoError(t, archive.Archiver{}.Read(context.Background(), f, "", func(i domain.Item) error {
		switch {
		case i.Manifest != nil:
			m = *i.Manifest
		case i.Content != nil:
			var text bytes.Buffer
			_, err := text.ReadFrom(i.Content)
			texts[i.Path] = text.String()
			return err
		default:
			records[i.Location.Kind]++
		}
		return nil
	}))
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
	if m.Organisation != exampleOrg || m.Contents != 5 || m.Version != Version() {
		t.Errorf("the manifest is %+v", m)
	}
	for k, n := range map[domain.Kind]int{domain.Members: 2, domain.Teams: 3, domain.Workspaces: 2, domain.Tasks: 3, domain.TaskHistory: 2, domain.AuditEntries: 1, domain.Objects: 5} {
		if records[k] != n {
			t.Errorf("%d %s, want %d", records[k], k, n)
		}
	}
	if texts["shared/brand/logo/ä.svg"] != "content 63" || texts["personal/"+string(uid[id.User](12))+"/user-memory.md"] != "content 62" {
		t.Errorf("the contents are %q", texts)
	}
	if err := Export(t.Context(), d.config, string(exampleOrg), file, os.Stderr, os.Stderr); err == nil || !strings.Contains(err.Error(), "already exists") {
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
	must.NoError(t, err)
	file, _, err := d.exported("example")
	if err == nil || !strings.Contains(err.Error(), "does not have the content") {
		t.Errorf("%v", err)
	}
	if _, err := os.Stat(file); !os.IsNotExist(err) {
		t.Errorf("the file: %v", err)
	}
}

// imported imports an archive and returns what the command printed.
func (d *deployment) imported(file string, in archives.Import) (string, error) {
	d.Helper()
	return d.importedWith("", file, in)
}

// importedWith imports an archive with the text of a file of users, unless that is empty.
func (d *deployment) importedWith(users, file string, in archives.Import) (string, error) {
	d.Helper()
	var out, log bytes.Buffer
	name := ""
	if users != "" {
		name = filepath.Join(d.TempDir(), "users.txt")
		must.NoError(d, os.WriteFile(name, []byte(users), 0o600))
	}
	err := ImportFile(d.Context(), d.config, file, name, in, &out, &log)
	return out.String(), err
}

// lines returns the record files of an archive as they are, without the kinds that imports leave
// out and what each import adds to the audit log.
func lines(t *testing.T, file string) map[string]string {
	t.Helper()
	f := must.Do(os.Open(file)).Or(t)
	defer f.Close()
	zip := must.Do(gzip.NewReader(f)).Or(t)
	texts := map[string]string{}
	for r := tar.NewReader(zip); ; {
		h, err := r.Next()
		if err == io.EOF {
			return texts
		}
		text, err2 := io.ReadAll(r)
		must.NoError(t, errors.Join(err, err2))
		if h.Name != "manifest.json" && h.Name != "subscription.jsonl" {
			texts[h.Name] = regexp.MustCompile(`(?m)^.*"organisation.imported".*\n`).ReplaceAllString(string(text), "")
		}
	}
}

var ids = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}`)

// renamed returns texts with each id replaced by the number of its first use, in the order of the
// names of the files.
func renamed(texts map[string]string) map[string]string {
	numbers := map[string]int{}
	is := map[string]string{}
	number := func(id string) string {
		if numbers[id] == 0 {
			numbers[id] = len(numbers) + 1
		}
		return fmt.Sprintf("id%d", numbers[id])
	}
	for _, k := range domain.Kinds {
		name := domain.FileName(k)
		is[name] = ids.ReplaceAllStringFunc(texts[name], number)
	}
	for name, text := range texts {
		if strings.HasPrefix(name, "files/") {
			is[ids.ReplaceAllStringFunc(name, number)] = text
		}
	}
	return is
}

const sameIssuer = "COLLAB_IDENTITY_ISSUER=https://id.example.com"

func TestAnImportedOrganisationIsExportedAsItWas(t *testing.T) {
	file := exportedFile(t)
	for name, database := range map[string]string{"SQLite": "", "Postgres": postgres.URL(t)} {
		t.Run(name, func(t *testing.T) {
			to := newDeployment(t, sameIssuer, "COLLAB_DATABASE_URL="+database)
			printed, err := to.imported(file, archives.Import{Organisation: "org_1"})
			if err != nil || !strings.Contains(printed, "Members: 0 were users here, 2 become users, 0 are no members here.") {
				t.Fatalf("%v, %s", err, printed)
			}
			again, _, err := to.exported("example")
			must.NoError(t, err)
			now := regexp.MustCompile(`"updatedAt":"[^"]*","createdByI`)
			want, got := lines(t, file), lines(t, again)
			want["organisation.jsonl"], got["organisation.jsonl"] = now.ReplaceAllString(want["organisation.jsonl"], ""), now.ReplaceAllString(got["organisation.jsonl"], "")
			must.Equal(t, want, got) // with the same ids
			head, err := to.db.Storage().Changes().Heads(t.Context(), []id.Org{exampleOrg})
			if err != nil || head[exampleOrg].N != 5 {
				t.Errorf("the log is at %+v, %v", head, err)
			}

			printed, err = to.imported(file, archives.Import{Name: "Copy", Slug: "copy"})
			if err != nil || !strings.Contains(printed, "have new ids") || !strings.Contains(printed, "2 were users here") {
				t.Fatalf("%v, %s", err, printed)
			}
			copied, _, err := to.exported("copy")
			must.NoError(t, err)
			fields := regexp.MustCompile(`"(name|slug|identityOrganisationId)":"[^"]*",?`)
			plain := func(texts map[string]string) map[string]string {
				texts["organisation.jsonl"] = fields.ReplaceAllString(now.ReplaceAllString(texts["organisation.jsonl"], ""), "")
				return texts
			}
			want, got = plain(lines(t, file)), plain(lines(t, copied))
			if strings.Contains(got["tasks.jsonl"], string(uid[id.Task](41))) {
				t.Error("tasks of the copy have the ids of those of the first")
			}
			must.Equal(t, sorted(renamed(want)), sorted(renamed(got))) // with new ids
		})
	}
}

func TestFilesOfCommandsRunByRootAreTheDirectorysOwners(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root gives files away")
	}
	const owner = 12345
	file, directory := exportedFile(t), t.TempDir()
	must.NoError(t, os.Chown(directory, owner, owner))
	c := read(t, sameIssuer, "COLLAB_DATA_DIR="+filepath.Join(directory, "deep", "data"))
	must.NoError(t, errors.Join(
		Migrate(t.Context(), c, false, io.Discard),
		ImportFile(t.Context(), c, file, "", archives.Import{Organisation: "org_1"}, io.Discard, io.Discard),
	))
	saved := filepath.Join(t.TempDir(), "backup")
	restored := read(t, sameIssuer, "COLLAB_DATA_DIR="+filepath.Join(directory, "restored", "data"))
	must.NoError(t, errors.Join(
		backup.Write(t.Context(), c, "test", saved, io.Discard, io.Discard),
		backup.RestoreDirectory(t.Context(), restored, saved, false, io.Discard),
	))
	files := 0
	must.NoError(t, filepath.WalkDir(directory, func(path string, e fs.DirEntry, err error) error {
		var s syscall.Stat_t
		if err := errors.Join(err, syscall.Stat(path, &s)); err != nil || s.Uid != owner || s.Gid != owner {
			t.Errorf("%s is %d's: %v", path, s.Uid, err)
		}
		if !e.IsDir() {
			files++
		}
		return nil
	}))
	if files < 12 { // twice those of the database and five contents
		t.Errorf("there are %d files", files)
	}
}

// sorted returns the texts with sorted lines, without the numbers of ids, because new ids are in another
// order. Texts whose names differ by ids only are one.
func sorted(texts map[string]string) map[string]string {
	numbered := regexp.MustCompile(`\bid\d+\b`)
	all := map[string][]string{}
	for name, text := range texts {
		name = numbered.ReplaceAllString(name, "id")
		all[name] = append(all[name], slices.Collect(strings.Lines(numbered.ReplaceAllString(text, "id")))...)
	}
	is := map[string]string{}
	for name, lines := range all {
		is[name] = fmt.Sprintln(len(lines), slices.Sorted(slices.Values(lines)))
	}
	return is
}

func TestMembersOfAnotherProviderAreTheUsersThatTheOperatorNames(t *testing.T) {
	file := exportedFile(t)
	to := newDeployment(t, "COLLAB_IDENTITY_ISSUER=https://other.example.com")
	ada := to.user(org.User{ID: uid[id.User](99), ProviderID: "other_ada"})
	to.user(org.User{ID: uid[id.User](98), ProviderID: "mallory", Email: "u0@example.com"})
	to.user(org.User{ID: uid[id.User](97), ProviderID: "blocked", Blocked: true})
	to.user(org.User{ID: uid[id.User](96), ProviderID: "deleted", DeletedAt: new(time.Now())})
	first, second := string(uid[id.User](11)), string(uid[id.User](12))
	for _, c := range [][2]string{
		{"", "2 members of another identity provider"},
		{first + " other_ada", "1 members of another identity provider"},
		{first + " nobody\n" + second + " -", "members.jsonl line 1: the member " + first + " is not \"nobody\" here: User not found"},
		{first + " other_ada\n" + second + " " + string(ada.ID), "members.jsonl line 2: userId is of the same user here"},
		{first + " other_ada\n" + second + " -\n" + string(uid[id.User](13)) + " -", "1 of the 3 lines of --users name nobody"},
		{first + " -\n" + second + " other_ada", "No OWNER of the archive"},
		{first + " blocked\n" + second + " other_ada", "No OWNER of the archive"},
		{first + " deleted\n" + second + " other_ada", "No OWNER of the archive"},
		{"u0@example.com other_ada", "line 1 must be the userId"},
		{first + " a\n" + first + " b", "line 2 has the member " + first},
	} {
		if _, err := to.importedWith(c[0], file, archives.Import{}); err == nil || !strings.Contains(err.Error(), c[1]) {
			t.Errorf("%q: %v", c[0], err)
		}
	}
	must.Fail(t, must.ErrorOf(to.db.Directory().Organisations().Get(t.Context(), exampleOrg)), fault.NotFound) // a refused import leaves nothing
	printed, err := to.importedWith(first+" other_ada\n"+second+" -\n", file, archives.Import{Organisation: "org_other"})
	if err != nil || !strings.Contains(printed, "1 were users here, 0 become users, 1 are no members here.") {
		t.Fatalf("%v, %s", err, printed)
	}
	m, err := to.db.Directory().Members().Get(t.Context(), exampleOrg, ada.ID)
	if err != nil || m.Role != org.Owner {
		t.Errorf("the membership is %+v, %v", m, err)
	}
	own, err := to.db.Storage().Objects().At(t.Context(), exampleOrg, string(exampleOrg)+"/personal/"+string(ada.ID)+"/user-memory.md")
	if err != nil || own.CreatedBy != ada.ID {
		t.Errorf("the personal file is %+v, %v", own, err)
	}
	every, err := to.db.Work().Tasks().Get(t.Context(), exampleOrg, uid[id.Task](43))
	if err != nil || every.Assignee == nil || *every.Assignee != ada.ID || every.CreatedBy != uid[id.User](12) {
		t.Errorf("the task is %+v, %v", every, err)
	}
	// The personal data of Ben, who is left out.
	for about, err := range map[string]error{
		"file":      must.ErrorOf(to.db.Storage().Objects().Get(t.Context(), exampleOrg, uid[id.Object](62))),
		"document":  must.ErrorOf(to.db.Storage().Objects().Get(t.Context(), exampleOrg, uid[id.Object](65))),
		"team":      must.ErrorOf(to.db.Work().Teams().Get(t.Context(), exampleOrg, uid[id.Team](22))),
		"workspace": must.ErrorOf(to.db.Work().Workspaces().Get(t.Context(), exampleOrg, uid[id.Workspace](32))),
		"task":      must.ErrorOf(to.db.Work().Tasks().Get(t.Context(), exampleOrg, uid[id.Task](42))),
	} {
		if !fault.Is(err, fault.NotFound) {
			t.Errorf("the %s: %v", about, err)
		}
	}
	must.Is(t, exampleOrg, must.Do(to.db.Directory().Organisations().ByProvider(t.Context(), "org_other")).Or(t).ID)
	must.Is(t, plan.None, must.Do(to.db.Directory().Subscriptions().Get(t.Context(), exampleOrg)).Or(t).Plan)
}

// user adds a user.
func (d *deployment) user(u org.User) org.User {
	d.Helper()
	must.Do(d.db.Directory().Users().Upsert(d.Context(), u, func(u org.User) (org.User, error) { return u, nil })).Or(d)
	return u
}

// TestAnImportLeavesUsersAndOrganisationsOfTheProviderAlone imports an archive of the same identity provider: users
// get the membership and no other change, and on Postgres their sign-ins do not wait for the import.
func TestAnImportLeavesUsersAndOrganisationsOfTheProviderAlone(t *testing.T) {
	file := exportedFile(t)
	ctx := t.Context()
	to := newDeployment(t, sameIssuer, "COLLAB_DATABASE_URL="+postgres.URL(t))
	users, members := to.db.Directory().Users(), to.db.Directory().Members()
	ada := to.user(org.User{ID: uid[id.User](99), ProviderID: "user_0", Name: "Known"})
	to.user(org.User{ID: uid[id.User](98), ProviderID: "user_1", DeletedAt: new(time.Now())})
	used := time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)
	of := org.Organisation{ID: uid[id.Org](5), ProviderID: "org_own", Name: "Own"}
	err := errors.Join(must.ErrorOf(to.db.Directory().Organisations().Upsert(ctx, of, func(o org.Organisation) (org.Organisation, error) { return o, nil })),
		members.Put(ctx, of.ID, org.Membership{Org: of.ID, User: ada.ID, Role: org.Owner, JoinedAt: used, UsedAt: used}))
	must.NoError(t, err)
	opened := 0
	err = withArchives(ctx, to.config, io.Discard, func(a *archives.Archives) error {
		did, err := a.Import(ctx, archives.Import{Open: func() (io.ReadCloser, error) {
			f, err := os.Open(file)
			if opened++; opened < 3 || err != nil {
				return f, err
			}
			return &closing{f, func() { // in the transaction, after all records
				bounded, cancel := context.WithTimeout(ctx, 20*time.Second)
				defer cancel()
				if err := must.ErrorOf(users.Upsert(bounded, ada, func(u org.User) (org.User, error) { return u, nil })); err != nil {
					t.Errorf("a sign-in during the import: %v", err)
				}
			}}, nil
		}})
		if did.ExistingUsers != 1 || did.Omitted != 1 || did.CreatedUsers != 0 {
			t.Errorf("%+v", did)
		}
		return err
	})
	if err != nil || opened != 3 {
		t.Fatalf("%v after %d", err, opened)
	}
	all, err := users.Memberships(ctx, ada.ID)
	if err != nil || len(all) != 2 || all[0].Org != of.ID {
		t.Errorf("the memberships are %+v, %v", all, err)
	}
	must.Fail(t, must.ErrorOf(members.Get(ctx, exampleOrg, uid[id.User](98))), fault.NotFound) // a deleted user is no member
	if o, err := to.db.Directory().Organisations().ByProvider(ctx, "org_1"); !fault.Is(err, fault.NotFound) {
		t.Errorf("the provider's organisation is %+v, %v", o, err)
	}
}

func TestAnImportThatFailsLeavesNothingAndCanBeRepeated(t *testing.T) {
	file := exportedFile(t)
	whole, err := os.ReadFile(file)
	must.NoError(t, err)
	to := newDeployment(t, sameIssuer)
	for _, n := range []int{10, len(whole) / 2, len(whole) - 20} {
		must.NoError(t, os.WriteFile(file, whole[:n], 0o600))
		if _, err := to.imported(file, archives.Import{}); err == nil {
			t.Errorf("%d bytes are imported", n)
		}
	}
	must.NoError(t, os.WriteFile(file, whole, 0o600))
	err = withArchives(t.Context(), to.config, io.Discard, func(a *archives.Archives) error {
		a.MaxSize = 9
		_, err := a.Import(t.Context(), archives.Import{Open: func() (io.ReadCloser, error) { return os.Open(file) }})
		return err
	})
	if err == nil || !strings.Contains(err.Error(), "files.jsonl line 1: size must be at most 9") {
		t.Errorf("with a file that is too large: %v", err)
	}
	opened := 0
	ctx, cancel := context.WithCancel(t.Context())
	err = withArchives(ctx, to.config, io.Discard, func(a *archives.Archives) error {
		_, err := a.Import(ctx, archives.Import{Open: func() (io.ReadCloser, error) {
			if opened++; opened == 3 { // for the transaction
				return &cutReader{strings.NewReader(string(whole[:len(whole)/2])), cancel}, nil
			}
			return os.Open(file)
		}})
		return err
	})
	if err == nil || opened != 3 {
		t.Errorf("interrupted in the transaction: %v after %d", err, opened)
	}
	must.Fail(t, must.ErrorOf(to.db.Directory().Organisations().Get(t.Context(), exampleOrg)), fault.NotFound) // nothing is left
	opened = 0
	err = withArchives(t.Context(), to.config, io.Discard, func(a *archives.Archives) error {
		_, err := a.Import(t.Context(), archives.Import{Organisation: "org_1", Open: func() (io.ReadCloser, error) {
			if opened++; opened == 2 { // after the id was chosen
				must.Do(to.imported(file, archives.Import{Organisation: "org_1"})).Or(t)
			}
			return os.Open(file)
		}})
		return err
	})
	if err == nil || !strings.Contains(err.Error(), "made meanwhile: import again") {
		t.Errorf("beside another import of the archive: %v", err)
	}
	if _, err := to.imported(file, archives.Import{MaxBytes: 1000}); err == nil || !strings.Contains(err.Error(), "more than 1000 bytes") {
		t.Errorf("of more than its bound: %v", err)
	}
	if _, err := to.imported(file, archives.Import{Organisation: "org_1"}); err == nil || !strings.Contains(err.Error(), "belongs to another one here") {
		t.Errorf("for an organisation that the provider has: %v", err)
	}
}

// cutReader cancels a context at its end.
type cutReader struct {
	io.Reader
	cancel func()
}

func (r *cutReader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	if err == io.EOF {
		r.cancel()
	}
	return n, err
}

func (r *cutReader) Close() error { return nil }

// TestReferencesThatPointNowhereAreRefused expects the file and line of each in the error.
func TestReferencesThatPointNowhereAreRefused(t *testing.T) {
	from := newDeployment(t, sameIssuer)
	from.add()
	to := newDeployment(t, sameIssuer)
	for _, c := range []struct {
		kind   domain.Kind
		change func(*domain.Record)
		want   string
	}{
		{domain.Workspaces, func(r *domain.Record) { r.Workspace.Team = uid[id.Team](98) }, "workspaces.jsonl line 1: teamId is of no team"},
		{domain.Tasks, func(r *domain.Record) { r.Task.Workspace = new(uid[id.Workspace](98)) }, "tasks.jsonl line 1: workspaceId is of no workspace"},
		{domain.Tasks, func(r *domain.Record) { r.Task.Assignee = new(uid[id.User](98)) }, "tasks.jsonl line 1: assigneeId is of nobody"},
		{domain.Tasks, func(r *domain.Record) { r.Task.ID = uid[id.Task](41) }, "tasks.jsonl, up to line 3: "},
		{domain.TaskHistory, func(r *domain.Record) { r.TaskChange.Task = uid[id.Task](98) }, "task-history.jsonl, up to line 2: Task not found"},
		{domain.Members, func(r *domain.Record) { r.Member.Role = org.Viewer }, "No member of the archive is an OWNER"},
		{domain.Members, func(r *domain.Record) { r.Member.Person.ProviderID = "user_0" }, "members.jsonl line 2: userId is of the same user here"},
		{domain.Members, func(r *domain.Record) { r.Member.JoinedAt = time.Now().Add(2 * time.Hour) }, "members.jsonl line 1: has a time after the archive was made"},
		{domain.Teams, func(r *domain.Record) { r.Team.Kind = team.Shared }, "teams.jsonl line 2: "},
	} {
		file := filepath.Join(t.TempDir(), "x.tar.gz")
		f, err := os.Create(file)
		must.NoError(t, err)
		err = withArchives(t.Context(), from.config, io.Discard, func(a *archives.Archives) error {
			a.Snapshots = changed{a.Snapshots, c.kind, c.change}
			_, err := a.Export(t.Context(), exampleOrg, domain.All(), f)
			return err
		})
		must.NoError(t, errors.Join(err, f.Close()))
		if _, err := to.imported(file, archives.Import{}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.kind, err, c.want)
		}
	}
}

func TestAPanicFailsTheAttemptOfAnExport(t *testing.T) {
	d := newDeployment(t)
	d.add()
	must.NoError(t, withArchives(t.Context(), d.config, io.Discard, func(a *archives.Archives) error {
		exports := a.Store.Journal().Exports()
		e := export.New(uid[id.Export](81), exampleOrg, uid[id.User](11), a.Clock.Now())
		if err := exports.Add(t.Context(), exampleOrg, e); err != nil {
			return err
		}
		a.Snapshots = changed{a.Snapshots, domain.Tasks, func(*domain.Record) { panic("so") }}
		if err := a.MakeDue(t.Context()); err == nil || !strings.Contains(err.Error(), "panic: so") {
			t.Errorf("%v", err)
		}
		e, err := exports.Get(t.Context(), exampleOrg, e.ID)
		if e.StoredStatus() != export.Pending || e.Attempts != 1 {
			t.Errorf("%+v", e)
		}
		return err
	}))
}

// changed is snapshots whose records of a kind are changed.
type changed struct {
	ports.Snapshots
	kind   domain.Kind
	change func(*domain.Record)
}

func (s changed) Export(ctx context.Context, o id.Org, each func(domain.Record) error) error {
	return s.Snapshots.Export(ctx, o, func(r domain.Record) error {
		if r.Kind() == s.kind {
			s.change(&r)
		}
		return each(r)
	})
}

// closing is a file that calls a function before it is closed.
type closing struct {
	*os.File
	before func()
}

func (c *closing) Close() error {
	c.before()
	return c.File.Close()
}
