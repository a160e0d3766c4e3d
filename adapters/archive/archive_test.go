package archive

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"collab/domain/archive"
	"collab/domain/audit"
	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/object"
	"collab/domain/org"
	"collab/domain/plan"
	"collab/domain/task"
	"collab/domain/team"
	"collab/domain/usage"
	"collab/domain/workspace"
	"collab/test/must"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 678_000_000, time.UTC)

func uid[T ~string](n int) T { return T(fmt.Sprintf("01900000-0000-7000-8000-%012d", n)) }

const orgID = id.Org("01900000-0000-7000-8000-000000000001")

// contents are the contents of the sample's files.
var contents = []string{"# Brief\n", strings.Repeat("0123456789", 200)}

// sample returns records of the kinds that are imported, with every field set.
func sample(t testing.TB) []archive.Record {
	t.Helper()
	ada, w, tm := uid[id.User](2), uid[id.Workspace](4), uid[id.Team](3)
	due, _ := task.ParseDue("2026-01-31")
	first := must.Full(must.Do(task.Task{
		ID: uid[id.Task](5), Org: orgID, Title: "Tïtle <&>", Description: new("a\nb"), Priority: task.High, Assignee: &ada, Workspace: &w, Due: &due,
		Tags: []string{"x", "ü"}, Metadata: `{"a":[1,2]}`, SortOrder: 7, CreatedBy: ada, CreatedAt: now, UpdatedAt: now, Version: 3,
	}.Imported(task.Done, &now)).Or(t))
	second := must.Do(task.Task{
		ID: uid[id.Task](6), Org: orgID, Title: "Bare", Priority: task.Low, CreatedBy: ada, CreatedAt: now, UpdatedAt: now, Version: 1,
	}.Imported(task.Todo, nil)).Or(t)
	file := func(n int, in object.Place, path, content string) archive.Record {
		return archive.Record{Object: new(must.Full(object.Object{
			Place: in, ID: uid[id.Object](n), Org: orgID, Path: path, MimeType: "text/markdown", Version: 2, CreatedBy: ada, UpdatedBy: ada, CreatedAt: now,
			UpdatedAt: now, Content: object.Content{Size: int64(len(content)), Checksum: must.Sum(content), Text: true},
		}, "Workspace", "Team", "Owner", "Blob", "N"))}
	}
	return []archive.Record{
		{Organisation: new(must.Full(org.Organisation{ID: orgID, ProviderID: "org_1", Name: "Örg", Slug: "org", CreatedAt: now, UpdatedAt: now, CreatedBy: "user_1"},
			"Full", "Seen", "SlugIssuedAt", "CreatedBySeen", "ClosedAt", "ErasedAt", "EmailsUntil"))},
		{Member: new(must.Full(org.Profile{
			Membership: org.Membership{Org: orgID, User: ada, Role: org.Owner, ProviderRole: "org:admin", OnboardingCompleted: true, JoinedAt: now},
			Person:     org.User{ID: ada, ProviderID: "user_1", Name: "Ada", Email: "ada@example.com", AvatarURL: "https://example.com/a"},
		}, "UsedAt", "RoleIssuedAt", "RoleSetHere", "Seen", "RemovedAt", "CreatedAt", "UpdatedAt", "Full", "NameIssuedAt", "EmailIssuedAt", "AvatarURLIssuedAt", "Blocked", "DeletedAt"))},
		{Team: new(must.Full(team.Team{ID: tm, Org: orgID, Name: "Team", Description: new("d"), Kind: team.Standard, CreatedBy: ada, CreatedAt: now, UpdatedAt: now}))},
		{TeamMember: new(must.Full(team.Member{Team: tm, User: ada, JoinedAt: now}))},
		{Workspace: new(must.Full(workspace.Workspace{ID: w, Org: orgID, Team: tm, Name: "Work", Description: new("w"), CreatedBy: ada, CreatedAt: now, UpdatedAt: now}))},
		{WorkspaceOrder: new(must.Full(archive.WorkspaceOrder{User: ada, Workspaces: workspace.Order{w}}))},
		{Task: &first}, {Task: &second},
		{TaskChange: &archive.TaskChange{Change: must.Full(task.Change{
			ID: uid[id.Entry](7), Org: orgID, Task: first.ID, At: now, By: ada, Reason: "because", Fields: []task.Delta{{Field: "title", From: new("a"), To: new("")}, {Field: "metadata"}},
		})}},
		{AuditEntry: new(must.Full(audit.Entry{
			ID: uid[id.Entry](8), Org: orgID, At: now, Actor: ada, Operator: true, Action: audit.RoleChanged, Target: string(ada), Detail: "A -> B", Address: "::1", Request: "r",
		}))},
		file(9, object.Place{Kind: object.Template, Scope: object.Shared}, "brief.md", contents[0]),
		file(10, object.Place{Kind: object.WorkspaceMemory, Scope: object.Shared, Workspace: &w}, strings.Repeat("a", 120)+"/ünd.md", contents[1]),
	}
}

// pack returns an archive of records.
func pack(t testing.TB, records []archive.Record) ([]byte, archive.Manifest) {
	t.Helper()
	var out bytes.Buffer
	n := 0
	m := archive.Manifest{Organisation: orgID, CreatedAt: now, Version: "1.2.3", Issuer: "https://id.example.com", Member: uid[id.User](2)}
	m, err := Archiver{Dir: t.TempDir()}.Pack(t.Context(), &out, m, func(each func(archive.Record) error) error {
		for _, r := range records {
			if err := each(r); err != nil {
				return err
			}
		}
		return nil
	}, func(_ context.Context, o object.Object) (io.ReadCloser, error) {
		n++
		return io.NopCloser(strings.NewReader(contents[n-1])), nil
	}, func(int64, int64) {})
	must.NoError(t, err)
	return out.Bytes(), m
}

var compared = cmp.Options{cmp.AllowUnexported(task.Task{}, task.Due{}), cmpopts.EquateEmpty()}

// read reads an archive to its end.
func read(t testing.TB, file []byte) (m archive.Manifest, records []archive.Record, texts map[string]string, err error) {
	t.Helper()
	return readOnly(t, file, "")
}

// readOnly is read for the records of one kind.
func readOnly(t testing.TB, file []byte, only archive.Kind) (m archive.Manifest, records []archive.Record, texts map[string]string, err error) {
	t.Helper()
	texts = map[string]string{}
	err = Archiver{}.Read(t.Context(), bytes.NewReader(file), only, func(i archive.Item) error {
		switch {
		case i.Manifest != nil:
			m = *i.Manifest
		case i.Content != nil:
			text, err := io.ReadAll(i.Content)
			texts[i.Path] = string(text)
			return err
		default:
			records = append(records, i.Record)
		}
		return nil
	})
	return m, records, texts, err
}

func TestAnArchiveIsReadAsItWasWritten(t *testing.T) {
	records := sample(t)
	file, m := pack(t, records)
	got, read, texts, err := read(t, file)
	must.NoError(t, err)
	must.Equal(t, m, got)                  // the manifest
	must.Equal(t, records, read, compared) // the records
	want := map[string]string{archive.ContentPath(*records[10].Object): contents[0], archive.ContentPath(*records[11].Object): contents[1]}
	must.Equal(t, want, texts) // the contents
	got, read, texts, err = readOnly(t, file, archive.Objects)
	if err != nil || len(texts) != len(want) || got.Records() != m.Records() {
		t.Errorf("with its files only it is %+v with %d contents, %v", got, len(texts), err)
	}
	must.Equal(t, records[10:12], read, compared)
}

// TestRecordsThatAreNotImportedAreReadEmpty packs records that are only exported. Read checks them and returns empty ones.
func TestRecordsThatAreNotImportedAreReadEmpty(t *testing.T) {
	records := []archive.Record{
		{Subscription: new(plan.Unsubscribed(orgID))},
		{Usage: &usage.Entry{ID: uid[id.Request](3), Org: orgID, User: uid[id.User](2), At: now, Model: "m", Provider: "p"}},
	}
	file, _ := pack(t, records)
	_, got, _, err := read(t, file)
	if diff := cmp.Diff(make([]archive.Record, 2), got); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

func TestEveryChangeOfAnArchiveIsNoticed(t *testing.T) {
	file, _ := pack(t, sample(t))
	for n := 0; n < len(file); n += 11 {
		if _, _, _, err := read(t, file[:n]); err == nil || !fault.Is(err, fault.Invalid) {
			t.Fatalf("cut to %d of %d bytes: %v", n, len(file), err)
		}
	}
	plain := unzipped(t, file)
	for n := 0; n < len(plain); n += 211 {
		changed := bytes.Clone(plain)
		changed[n] ^= 1
		m, records, texts, err := read(t, zipped(t, changed))
		if err != nil {
			continue
		}
		// Contents are checked by the checksums of their records, and padding has no meaning.
		for i, path := range []string{"shared/templates/brief.md", archive.ContentPath(*records[11].Object)} {
			if texts[path] != contents[i] {
				records = nil
			}
		}
		_, want, _, _ := read(t, file)
		if diff := cmp.Diff(want, records, compared); records != nil && diff != "" {
			t.Fatalf("byte %d was changed, and %v is read as valid:\n%s", n, m, diff)
		}
	}
}

func unzipped(t testing.TB, file []byte) []byte {
	t.Helper()
	z := must.Do(gzip.NewReader(bytes.NewReader(file))).Or(t)
	return must.Do(io.ReadAll(z)).Or(t)
}

func zipped(t testing.TB, plain []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	must.NoError(t, writeGzip(&b, plain))
	return b.Bytes()
}

// entry is a file of an archive.
type entry struct {
	header *tar.Header
	text   []byte
}

func entriesOf(t testing.TB, file []byte) (entries []entry) {
	t.Helper()
	for r := tar.NewReader(bytes.NewReader(unzipped(t, file))); ; {
		h, err := r.Next()
		if err == io.EOF {
			return entries
		}
		must.NoError(t, err)
		entries = append(entries, entry{h, must.Do(io.ReadAll(r)).Or(t)})
	}
}

// rewritten returns the archive with the text of one of its files changed, also in the manifest.
func rewritten(t testing.TB, file []byte, name, old, replacement string) []byte {
	t.Helper()
	var out bytes.Buffer
	entries := entriesOf(t, file)
	var before, after string
	for i, e := range entries {
		if e.header.Name != name {
			continue
		}
		text := strings.Replace(string(e.text), old, replacement, 1)
		if text == string(e.text) {
			t.Fatalf("%s does not have %s", name, old)
		}
		before, after = fmt.Sprintf("%d,\n      \"sha256\": \"%s\"", len(e.text), must.Sum(e.text)), fmt.Sprintf("%d,\n      \"sha256\": \"%s\"", len(text), must.Sum(text))
		entries[i].text = []byte(text)
	}
	w := tar.NewWriter(&out)
	for _, e := range entries {
		if e.header.Name == manifestName {
			e.text = []byte(strings.Replace(string(e.text), before, after, 1))
		}
		e.header.Size = int64(len(e.text))
		must.NoError(t, errors.Join(w.WriteHeader(e.header), must.ErrorOf(w.Write(e.text))))
	}
	must.NoError(t, w.Close())
	return zipped(t, out.Bytes())
}

func TestInvalidRecordsAreRefused(t *testing.T) {
	file, _ := pack(t, sample(t))
	_, got, _, err := read(t, rewritten(t, file, "tasks.jsonl", `"Bare"`, `" Bore "`))
	must.NoError(t, err)
	if !slices.ContainsFunc(got, func(r archive.Record) bool { return r.Task != nil && r.Task.Title == "Bore" }) {
		t.Error("a title is not trimmed")
	}
	for _, c := range []struct{ name, was, is, want string }{
		{"tasks.jsonl", `"status":"DONE"`, `"status":"GONE"`, "tasks.jsonl line 1: status must be"},
		{"tasks.jsonl", `"status":"TODO"`, `"status":"DONE"`, "tasks.jsonl line 2: completedAt"},
		{"tasks.jsonl", `"title":"Bare"`, `"title":""`, "tasks.jsonl line 2: title must not be empty"},
		{"tasks.jsonl", `"sortOrder":7`, `"sortOrder":9223372036854775807`, "line 1: sortOrder"},
		{"tasks.jsonl", `"sortOrder":7`, `"sortOrder":7,"more":1`, "line 1: is not as it is written"},
		{"tasks.jsonl", `"metadata":{"a":[1,2]}`, `"metadata":[]`, "metadata must be an object"},
		{"tasks.jsonl", `0005","title"`, `0005/../x","title"`, "line 1: id must be an id"},
		{"tasks.jsonl", "\n", " {}\n", "more than one value"},
		{"tasks.jsonl", "\n", "\n\n", "line 2: is not as it is written"},
		{"members.jsonl", `"role":"OWNER"`, `"role":"GOD"`, "members.jsonl line 1: role must be"},
		{"organisation.jsonl", string(orgID), string(uid[id.Org](99)), "organisation.jsonl line 1: id must be the organisation"},
		{"files.jsonl", `"path":"brief.md"`, `"path":"../brief.md"`, "files.jsonl line 1: path must not have the segments"},
		{"files.jsonl", `"content":"files/shared`, `"content":"files/../shared`, "files.jsonl line 1: content must be"},
		{"files.jsonl", `"scope":"SHARED"`, `"scope":"PERSONAL"`, "line 1: ownerId"},
		{"teams.jsonl", `"kind":"STANDARD"`, `"kind":"X"`, "teams.jsonl line 1: kind"},
		{"teams.jsonl", `"name":"Team"`, `"name":"` + strings.Repeat("x", maxLine) + `"`, "teams.jsonl line 1 has more than"},
		{"manifest.json", `"format": 1`, `"format": 2`, "it has the format 2, and this program reads only 1"},
		{"manifest.json", `"tasks.jsonl"`, `"../tasks.jsonl"`, "manifest.json: parts must be"},
		{"manifest.json", `"count": 2`, `"count": 3`, "it is not whole"},
		{"manifest.json", `"count": 2`, `"count": 1`, "and "},
	} {
		_, _, _, err := read(t, rewritten(t, file, c.name, c.was, c.is))
		if err == nil || !strings.Contains(err.Error(), c.want) || !fault.Is(err, fault.Invalid) {
			t.Errorf("%s with %.40s: %v, want %q", c.name, c.is, err, c.want)
		}
	}
}

// TestEveryTextOfARecordIsChecked adds a null character to each text of each record. The error names the
// field, or the invalid time, except for texts that TestProfilesAreReadClean has.
func TestEveryTextOfARecordIsChecked(t *testing.T) {
	file, _ := pack(t, sample(t))
	value := regexp.MustCompile(`"(\w+)":\[?"[^"]*`)
	clean := map[string][]string{"organisation.jsonl": {"name", "slug"}, "members.jsonl": {"name", "email", "avatarUrl", "identityRole"}}
	for _, e := range entriesOf(t, file) {
		name, text := e.header.Name, string(e.text)
		if !strings.HasSuffix(name, ".jsonl") {
			continue
		}
		for _, at := range value.FindAllStringSubmatchIndex(text, -1) {
			field := text[at[2]:at[3]]
			if slices.Contains(clean[name], field) {
				continue
			}
			_, _, _, err := read(t, rewritten(t, file, name, text[:at[1]], text[:at[1]]+`\u0000`))
			if strings.HasSuffix(field, "At") {
				field = "parsing time"
			}
			if err == nil || !strings.Contains(err.Error(), field) || !fault.Is(err, fault.Invalid) {
				t.Errorf("%s, %s: %v", name, field, err)
			}
		}
	}
}

// TestProfilesAreReadClean expects texts of profiles to be cleaned as those of the identity provider are.
func TestProfilesAreReadClean(t *testing.T) {
	file, _ := pack(t, []archive.Record{
		{Organisation: &org.Organisation{ID: orgID, Name: " a\nb", Slug: "c\u0085", ProviderID: "org_1"}},
		{Member: &org.Profile{
			Membership: org.Membership{Org: orgID, User: uid[id.User](2), Role: org.Owner, ProviderRole: "r\t"},
			Person:     org.User{ID: uid[id.User](2), ProviderID: "user_1", Name: "Ada\x00", Email: "nobody", AvatarURL: "javascript:alert(1)"},
		}},
	})
	_, got, _, err := read(t, file)
	must.NoError(t, err)
	o, m := got[0].Organisation, got[1].Member
	if o.Name != "a b" || o.Slug != "c" || m.ProviderRole != "r" || m.Person.Name != "Ada" || m.Person.Email != "" || m.Person.AvatarURL != "" {
		t.Errorf("%+v, %+v", o, m)
	}
}

func TestFilesThatDoNotBelongInAnArchiveAreRefused(t *testing.T) {
	file, m := pack(t, sample(t)[:10])
	plain := unzipped(t, file)
	inner, end := plain[:len(plain)-2*block], make([]byte, 2*block)
	zeros := make([]byte, maxPadding)
	for want, plain := range map[string][]byte{
		"more than its manifest has": slices.Concat(inner, encodeHeader("files/x", 0, m.CreatedAt), end),
		"something follows its end":  slices.Concat(inner, end, zeros, []byte{0}),
		"follows its end":            slices.Concat(inner, end, []byte{0, 1}),
		"":                           slices.Concat(inner, end, zeros), // as GNU's tar pads it
	} {
		if _, _, _, err := read(t, zipped(t, plain)); (want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", want, err)
		}
	}
	if _, _, _, err := read(t, []byte("of something else")); err == nil || !strings.Contains(err.Error(), "it is no export") {
		t.Errorf("%v", err)
	}
	full, _ := pack(t, sample(t))
	for _, c := range [][2]string{{"files/shared/templates/brief.md", "files/shared/../../etc/hosts.."}, {"files/shared/templates/brief.md", "giles/shared/templates/brief.md"}} {
		plain := unzipped(t, full)
		at := bytes.LastIndex(plain, []byte(c[0]))
		begin := at - at%block
		copy(plain[at:], append([]byte(c[1]), make([]byte, max(0, len(c[0])-len(c[1])))...))
		copy(plain[begin+148:begin+156], "        ")
		sum := 0
		for _, b := range plain[begin : begin+block] {
			sum += int(b)
		}
		copy(plain[begin+148:], fmt.Sprintf("%06o\x00 ", sum))
		if _, _, _, err := read(t, zipped(t, plain)); err == nil || !strings.Contains(err.Error(), "does not belong") {
			t.Errorf("%s: %v", c[1], err)
		}
	}
}

func TestReadReturnsTheErrorOfItsFunction(t *testing.T) {
	file, _ := pack(t, sample(t))
	wantErr := errors.New("no")
	if err := (Archiver{}).Read(t.Context(), bytes.NewReader(file), "", func(archive.Item) error { return wantErr }); err != wantErr {
		t.Errorf("%v", err)
	}
}

func TestContentWithAnotherChecksumIsNotPacked(t *testing.T) {
	_, err := Archiver{Dir: t.TempDir()}.Pack(t.Context(), io.Discard, archive.Manifest{Organisation: orgID, CreatedAt: now}, func(each func(archive.Record) error) error {
		return each(sample(t)[10])
	}, func(context.Context, object.Object) (io.ReadCloser, error) {
		return io.NopCloser(strings.NewReader("# brief\n")), nil
	}, func(int64, int64) {})
	if err == nil || !strings.Contains(err.Error(), "another checksum") {
		t.Errorf("%v", err)
	}
}

func TestTheDocumentHasEveryFileAndField(t *testing.T) {
	text := must.Do(os.ReadFile("../../docs/export.md")).Or(t)
	documented := map[string][]string{}
	for _, m := range regexp.MustCompile("(?s)\n### `([^`]+)`\n.*?\nFields: (.*?)\\.\n").FindAllSubmatch(text, -1) {
		fields := regexp.MustCompile(`\([^)]*\)`).ReplaceAllString(string(m[2]), "")
		for _, f := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(fields, -1) {
			documented[string(m[1])] = append(documented[string(m[1])], f[1])
		}
	}
	written := map[string][]string{manifestName: jsonNames(reflect.TypeFor[manifestRow]())}
	for _, k := range archive.Kinds {
		written[archive.FileName(k)] = jsonNames(reflect.TypeOf(codecs[k].row()).Elem())
	}
	must.Equal(t, written, documented) // fields
}

func jsonNames(row reflect.Type) (names []string) {
	for i := range row.NumField() {
		names = append(names, row.Field(i).Tag.Get("json"))
	}
	return names
}

func FuzzRead(f *testing.F) {
	file, _ := pack(f, sample(f))
	f.Add(unzipped(f, file))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, data []byte) {
		_, records, _, err := read(t, zipped(t, data))
		if err != nil {
			return
		}
		for _, r := range records {
			if c, ok := codecs[r.Kind()]; ok {
				must.Do(c.encodeLine(r)).Or(t)
			}
		}
	})
}
