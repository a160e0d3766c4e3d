package backup

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"pgregory.net/rapid"

	"collab/adapters/gormdb"
	"collab/app/assembly/config"
	"collab/test/must"
)

func read(t *testing.T, environ ...string) config.Config {
	t.Helper()
	return must.Do(config.Read(environ)).Or(t)
}

// writeArchive returns an archive of these entries, each a name and content.
func writeArchive(t testing.TB, entries ...[2]string) []byte {
	t.Helper()
	manifest := must.Do(os.CreateTemp(t.TempDir(), "")).Or(t)
	defer manifest.Close()
	var out bytes.Buffer
	w := must.Do(newArchiver(&out, archiveHeader{time.Unix(1_800_000_000, 0).UTC(), "1.2.3", 7}, manifest)).Or(t)
	for _, e := range entries {
		must.Do(w.add(entry{name: e[0], size: int64(len(e[1]))}, strings.NewReader(e[1]))).Or(t)
	}
	must.NoError(t, w.close())
	return out.Bytes()
}

// intact is an archive as there are.
func intact(t testing.TB) []byte {
	return writeArchive(t, [2]string{databaseName, "the database"}, [2]string{"token-keys.pem", "keys"}, [2]string{"dev-payments.json", "{}"},
		[2]string{"blobs/org/a@1-x", "content of a"}, [2]string{"blobs/org/b!3A@1-x", strings.Repeat("content of b\n", 100)})
}

// encrypted returns an archive of a tar that was written by hand.
func encrypted(t testing.TB, write func(*tar.Writer)) []byte {
	t.Helper()
	var out bytes.Buffer
	zip := must.Do(zstd.NewWriter(&out)).Or(t)
	files := tar.NewWriter(zip)
	write(files)
	_ = files.Close() // it misses what a header only promised
	must.NoError(t, zip.Close())
	out.Write(checksumFrame)
	sum := sha256.Sum256(out.Bytes())
	out.Write(sum[:])
	return out.Bytes()
}

func ignore(archiveHeader, entry, io.Reader) error { return nil }

func TestAnArchiveDescribesItsContent(t *testing.T) {
	var got []string
	a, total, err := scan(t.Context(), bytes.NewReader(intact(t)), func(a archiveHeader, e entry, r io.Reader) error {
		text, err := io.ReadAll(r)
		got = append(got, fmt.Sprintf("%s %s %d %.12s", e.name, e.blob, e.size, text))
		return err
	})
	must.NoError(t, err)
	if a.schema != 7 || a.version != "1.2.3" || a.createdAt.Unix() != 1_800_000_000 {
		t.Errorf("it says %+v", a)
	}
	want := []string{
		"collab-backup.txt  60 collab backu", "collab.db  12 the database", "token-keys.pem  4 keys", "dev-payments.json  2 {}",
		"blobs/org/a@1-x org/a@1-x 12 content of a", "blobs/org/b!3A@1-x org/b:@1-x 1300 content of b",
	}
	must.Is(t, strings.Join(want, "\n"), strings.Join(got, "\n"))
	must.Is(t, (totals{entries: 6, blobs: 2, bytes: 60 + 12 + 4 + 2 + 12 + 1300}), total)
}

func TestInvalidBackupsAreRefused(t *testing.T) {
	file := func(name, content string) func(*tar.Writer) {
		return func(w *tar.Writer) {
			_ = w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Size: int64(len(content)), Mode: 0o600})
			_, _ = io.WriteString(w, content)
		}
	}
	header := func(h tar.Header) func(*tar.Writer) {
		return func(w *tar.Writer) { _ = w.WriteHeader(&h) }
	}
	begin := file(headerName, string(archiveHeader{time.Unix(0, 0), "x", 1}.encode()))
	database := file(databaseName, "db")
	archiveOf := func(parts ...func(*tar.Writer)) []byte {
		return encrypted(t, func(w *tar.Writer) {
			for _, p := range parts {
				p(w)
			}
		})
	}
	whole := intact(t)
	for name, c := range map[string]struct {
		archive []byte
		why     string
	}{
		"nothing":                      {nil, "too short"},
		"something else":               {bytes.Repeat([]byte("text "), 100), "it is no backup"},
		"a part":                       {whole[:len(whole)-1], ""},
		"half":                         {whole[:len(whole)/2], ""},
		"more than one":                {append(bytes.Clone(whole), whole...), ""},
		"a byte more":                  {append(bytes.Clone(whole), 0), ""},
		"no entries":                   {archiveOf(), "no manifest"},
		"no beginning":                 {archiveOf(database), "out of order"},
		"a later format":               {archiveOf(file(headerName, "collab backup 2\nmade x\n")), "format 2"},
		"a beginning with more":        {archiveOf(file(headerName, string(archiveHeader{time.Unix(0, 0), "x", 1}.encode())+"more\n")), "malformed"},
		"a beginning without a schema": {archiveOf(file(headerName, string(archiveHeader{time.Unix(0, 0), "x", 0}.encode()))), "malformed"},
		"no database":                  {archiveOf(begin, file("token-keys.pem", "")), "out of order"},
		"no database, content":         {archiveOf(begin, file("blobs/a@1", "")), "out of order"},
		"a manifest alone":             {archiveOf(begin, file(manifestName, "")), "no collab.db"},
		"no manifest":                  {archiveOf(begin, database), "no manifest"},
		"another manifest":             {archiveOf(begin, database, file(manifestName, "total  2  entries  2  bytes\n")), "the manifest does not match"},
		"two databases":                {archiveOf(begin, database, database), "out of order"},
		"keys in another order":        {archiveOf(begin, database, file("secrets-keys.json", ""), file("token-keys.pem", "")), "out of order"},
		"content twice":                {archiveOf(begin, database, file("blobs/a@1", ""), file("blobs/a@1", "")), "out of order"},
		"content before its time":      {archiveOf(begin, database, file("blobs/b@1", ""), file("blobs/a@1", "")), "out of order"},
		"keys after content":           {archiveOf(begin, database, file("blobs/b@1", ""), file("token-keys.pem", "")), "out of order"},
		"another file":                 {archiveOf(begin, database, file("authorized_keys", "")), "does not belong"},
		"a path to above":              {archiveOf(begin, database, file("../token-keys.pem", "")), "does not belong"},
		"a path to above content":      {archiveOf(begin, database, file("blobs/../../a@1", "")), "does not belong"},
		"a path from the root":         {archiveOf(begin, database, file("/etc/cron.d/a@1", "")), "does not belong"},
		"a root among content":         {archiveOf(begin, database, file("blobs//etc/a@1", "")), "does not belong"},
		"a path with a dot":            {archiveOf(begin, database, file("blobs/./a@1", "")), "does not belong"},
		"a backslash":                  {archiveOf(begin, database, file(`blobs/..\a@1`, "")), "does not belong"},
		"a link":                       {archiveOf(begin, database, header(tar.Header{Typeflag: tar.TypeSymlink, Name: "blobs/a@1", Linkname: "/etc/passwd"})), "not a regular file"},
		"a hard link":                  {archiveOf(begin, database, header(tar.Header{Typeflag: tar.TypeLink, Name: "blobs/a@1", Linkname: "/etc/passwd"})), "not a regular file"},
		"a directory":                  {archiveOf(begin, database, header(tar.Header{Typeflag: tar.TypeDir, Name: "blobs/a/", Mode: 0o777})), "not a regular file"},
		"a device":                     {archiveOf(begin, database, header(tar.Header{Typeflag: tar.TypeChar, Name: "blobs/a@1"})), "not a regular file"},
		"attributes":                   {archiveOf(begin, database, header(tar.Header{Typeflag: tar.TypeReg, Name: "blobs/a@1", PAXRecords: map[string]string{"SCHILY.xattr.user.a": "b"}})), "attribute"},
		"attributes of all":            {archiveOf(begin, header(tar.Header{Typeflag: tar.TypeXGlobalHeader, PAXRecords: map[string]string{"path": "b"}})), "not a regular file"},
		"a long beginning":             {archiveOf(file(headerName, strings.Repeat("x", maxHeader+1))), "the most"},
		"a long database":              {archiveOf(begin, header(tar.Header{Typeflag: tar.TypeReg, Name: databaseName, Size: maxContent + 1})), "the most"},
		"long keys":                    {archiveOf(begin, database, header(tar.Header{Typeflag: tar.TypeReg, Name: "token-keys.pem", Size: maxSmall + 1})), "the most"},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := scan(t.Context(), bytes.NewReader(c.archive), ignore)
			if err == nil || !strings.HasPrefix(err.Error(), "the archive is refused: ") || !strings.Contains(err.Error(), c.why) {
				t.Errorf("%v", err)
			}
		})
	}
	t.Run("a manifest with something after it", func(t *testing.T) {
		var manifest bytes.Buffer
		_, _, err := scan(t.Context(), bytes.NewReader(archiveOf(begin, database)), func(_ archiveHeader, e entry, r io.Reader) error {
			text, err := io.ReadAll(r)
			fmt.Fprintf(&manifest, "%x  %d  %s\n", sha256.Sum256(text), e.size, e.name)
			return err
		})
		if err == nil {
			t.Fatal("no manifest is accepted")
		}
		fmt.Fprintf(&manifest, "total  2  entries  %d  bytes\n", len(archiveHeader{time.Unix(0, 0), "x", 1}.encode())+2)
		end := file(manifestName, manifest.String())
		if _, _, err := scan(t.Context(), bytes.NewReader(archiveOf(begin, database, end)), ignore); err != nil {
			t.Fatalf("the archive without it: %v", err)
		}
		if _, _, err := scan(t.Context(), bytes.NewReader(archiveOf(begin, database, end, database)), ignore); err == nil || !strings.Contains(err.Error(), "after the manifest") {
			t.Error(err)
		}
	})
}

func TestAByteThatChangedAnywhereIsNoticed(t *testing.T) {
	whole := intact(t)
	changed := func(t interface{ Errorf(string, ...any) }, at int, by byte) {
		other := bytes.Clone(whole)
		other[at] ^= by
		if _, _, err := scan(context.Background(), bytes.NewReader(other), ignore); err == nil {
			t.Errorf("byte %d of %d changed by %#x is not noticed", at, len(whole), by)
		}
	}
	for at := range whole {
		changed(t, at, 1<<(at%8))
	}
	rapid.Check(t, func(t *rapid.T) {
		changed(t, rapid.IntRange(0, len(whole)-1).Draw(t, "at"), rapid.ByteRange(1, 255).Draw(t, "by"))
	})
}

func TestAnErrorOfTheVisitorEndsTheScan(t *testing.T) {
	stop := errors.New("stop")
	_, _, err := scan(t.Context(), bytes.NewReader(intact(t)), func(_ archiveHeader, e entry, _ io.Reader) error {
		if e.blob != "" {
			return stop
		}
		return nil
	})
	if !errors.Is(err, stop) || strings.Contains(err.Error(), "refused") {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := scan(ctx, bytes.NewReader(intact(t)), ignore); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestSizesAreHeld(t *testing.T) {
	for name, content := range map[string]string{"shorter": "abc", "longer": "abcde"} {
		manifest := must.Do(os.CreateTemp(t.TempDir(), "")).Or(t)
		defer manifest.Close()
		w := must.Do(newArchiver(io.Discard, archiveHeader{time.Now(), "x", 1}, manifest)).Or(t)
		if _, err := w.add(entry{name: databaseName, size: 4}, strings.NewReader(content)); !errors.Is(err, errLength) {
			t.Errorf("%s: %v", name, err)
		}
		w = must.Do(newArchiver(io.Discard, archiveHeader{time.Now(), "x", 1}, manifest)).Or(t)
		if _, err := w.add(entry{name: "blobs/b", blob: "b", size: 4}, strings.NewReader(content)); !errors.Is(err, errContentLength) {
			t.Errorf("%s content: %v", name, err)
		}
	}
}

func TestOnlyTheEmbeddedProfileIsBackedUp(t *testing.T) {
	for _, c := range []struct {
		settings []string
		want     string
	}{
		{[]string{"COLLAB_DATABASE_URL=postgres://localhost/collab"}, "pg_dump"},
		{[]string{"COLLAB_DATABASE_URL=memory://"}, "memory"},
		{[]string{"COLLAB_BLOB_URL=gs://bucket"}, "versions"},
		{nil, "there is no database"},
	} {
		directory := filepath.Join(t.TempDir(), "data")
		conf := read(t, append(c.settings, "COLLAB_DATA_DIR="+directory)...)
		file := filepath.Join(t.TempDir(), "backup")
		if err := Write(t.Context(), conf, "1.0.0", file, io.Discard, io.Discard); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %v", c.settings, err)
		}
		if err := RestoreDirectory(t.Context(), conf, file, true, io.Discard); err == nil || c.settings != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("restore with %v: %v", c.settings, err)
		}
		for _, path := range []string{directory, file} {
			if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%v: %s is there: %v", c.settings, path, err)
			}
		}
	}
}

func TestASchemaThatIsNotKnownIsNotBackedUp(t *testing.T) {
	for version, want := range map[int64]string{0: "nothing to back up", gormdb.Schema() + 1: "use a later one"} {
		directory := t.TempDir()
		db := must.Do(sql.Open("sqlite", filepath.Join(directory, databaseName))).Or(t)
		_, err := db.ExecContext(t.Context(), fmt.Sprintf("CREATE TABLE goose_db_version AS SELECT %d AS version_id, true AS is_applied", version))
		must.NoError(t, errors.Join(err, db.Close()))
		err = Write(t.Context(), read(t, "COLLAB_DATA_DIR="+directory), "1.0.0", "-", io.Discard, io.Discard)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("version %d: %v, not %s", version, err, want)
		}
	}
}

func TestABackupKeepsExistingFiles(t *testing.T) {
	directory := t.TempDir()
	at := func(name string) string { return filepath.Join(directory, name) }
	for _, path := range []string{"data/sub", "blobs/org"} {
		must.NoError(t, os.MkdirAll(at(path), 0o700))
	}
	for name, content := range map[string]string{
		"data/collab.db": "SQLite format 3", "key.pem": "-----BEGIN", "short": "(", "empty": "", "earlier": string(intact(t)), "logs.zst": string(zstdMagic) + strings.Repeat("x", 100),
	} {
		must.NoError(t, os.WriteFile(at(name), []byte(content), 0o600))
	}
	for link, to := range map[string]string{"linked": "data", "latest": "earlier", "link-to-key": "key.pem", "null": os.DevNull} {
		must.NoError(t, os.Symlink(to, at(link)))
	}
	for _, c := range []struct{ file, want string }{
		{"new", ""},
		{"earlier", ""},
		{"latest", ""},
		{"empty", ""},
		{"data.tar.zst", ""},
		{"data/collab.db", "is backed up"},
		{"data/new", "is backed up"},
		{"data/sub/new", "is backed up"},
		{"linked/new", "is backed up"},
		{"blobs/org/new", "is backed up"},
		{"key.pem", "not a backup"},
		{"short", "not a backup"},
		{"logs.zst", "not a backup"},
		{"link-to-key", "not a backup"},
		{"data", "not a regular file"},
		{"null", "not a regular file"},
		{"nowhere/new", "no such file"},
	} {
		conf := read(t, "COLLAB_DATA_DIR="+at("linked"), "COLLAB_BLOB_URL=file://"+at("blobs"))
		err := checkTarget(conf, at(c.file))
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, not %q", c.file, err, c.want)
		}
	}
}

func TestARestoreNeedsItsPlaces(t *testing.T) {
	whole := filepath.Join(t.TempDir(), "backup")
	must.NoError(t, os.WriteFile(whole, intact(t), 0o600))
	directory := filepath.Join(t.TempDir(), "data")
	must.NoError(t, os.MkdirAll(directory, 0o700))
	refused := func(want string, replace bool, settings ...string) {
		t.Helper()
		err := RestoreDirectory(t.Context(), read(t, append(settings, "COLLAB_DATA_DIR="+directory)...), whole, replace, io.Discard)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, not %s", err, want)
		}
		entries, err := os.ReadDir(filepath.Dir(directory))
		if err != nil || len(entries) != 1 {
			t.Errorf("%v, %v", entries, err)
		}
	}
	refused("COLLAB_DATABASE_URL", false, "COLLAB_DATABASE_URL=sqlite://"+directory+"/other.db")
	refused("COLLAB_BLOB_URL", false, "COLLAB_BLOB_URL=file://"+directory+"/other")
	refused("nothing was changed: The database is damaged", false)
	must.NoError(t, os.WriteFile(filepath.Join(directory, "somebody's"), nil, 0o600))
	refused("not empty", false)
	refused("does not look like a data directory", true)
}

func FuzzArchive(f *testing.F) {
	whole := intact(f)
	f.Add(whole)
	f.Add(whole[:len(whole)/2])
	f.Add(writeArchive(f))
	f.Add(writeArchive(f, [2]string{databaseName, ""}))
	f.Add(writeArchive(f, [2]string{databaseName, "db"}, [2]string{"blobs/../a@1", ""}))
	f.Fuzz(func(t *testing.T, archive []byte) {
		// Most are stopped by the hash: so it is also made to fit.
		sum := sha256.Sum256(append(bytes.Clone(archive), checksumFrame...))
		for _, a := range [][]byte{archive, append(append(bytes.Clone(archive), checksumFrame...), sum[:]...)} {
			var size int64
			_, total, err := scan(t.Context(), bytes.NewReader(a), func(_ archiveHeader, e entry, r io.Reader) error {
				if !filepath.IsLocal(e.name) || e.name != headerName && e.blob == "" && !strings.Contains(strings.Join(entryOrder, "\n"), e.name) {
					t.Errorf("%q is accepted", e.name)
				}
				n, err := io.Copy(io.Discard, r)
				size += n
				return err
			})
			if err == nil && (size != total.bytes || total.entries < 2) {
				t.Errorf("%+v of %d bytes", total, size)
			}
		}
	})
}
