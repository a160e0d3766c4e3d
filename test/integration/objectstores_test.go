package integration

import (
	"database/sql"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"collab/adapters/bucket"
	"collab/test/collabd"
	"collab/test/objectstore"
	"collab/test/race"
)

func TestFilesLieInObjectStoresOfOtherProtocols(t *testing.T) {
	race.Skip(t, "its requests come one after another")
	for name, start := range map[string]func(testing.TB) *objectstore.Store{"S3": objectstore.StartS3, "Azure": objectstore.StartAzure} {
		t.Run(name, func(t *testing.T) {
			store := start(t)
			store.Setenv(t)
			s := collabd.Start(t, append(store.Credentials, "COLLAB_BLOB_URL="+store.Address)...)
			if said, err := s.Command(t, []string{"doctor"}).Output(); !strings.Contains(string(said), "an object was written, read and removed") {
				t.Errorf("the doctor says %v:\n%s", err, said)
			}
			ada := s.SignIn(t, "ada@example.com", "Ada Ltd", "owner")
			content := strings.Repeat("0123456789abcdef", 9<<20/16) // in several parts
			var file struct{ ID string }
			ada.Must(t, 201, "POST", "/sync/files", map[string]string{"path": "long.txt", "content": content}, &file)
			for _, part := range []struct {
				status  int
				headers []string
				want    string
			}{
				{200, nil, content}, {206, []string{"Range: bytes=5-9"}, "56789"}, {206, []string{"Range: bytes=-3"}, "def"},
			} {
				status, got, err := ada.Do("GET", "/sync/files/"+file.ID+"?raw=1", nil, part.headers...)
				if err != nil || status != part.status || string(got) != part.want {
					t.Errorf("%q is %d, %v, %d bytes", part.headers, status, err, len(got))
				}
			}
			ada.Must(t, 200, "DELETE", "/sync/files/"+file.ID, nil, nil)

			blobs, err := bucket.Open(t.Context(), store.Address)
			if err != nil {
				t.Fatal(err)
			}
			defer blobs.Close()
			kept := func() (n int) {
				if err := blobs.List(t.Context(), func(string, int64, time.Time) error { n++; return nil }); err != nil {
					t.Fatal(err)
				}
				return n
			}
			before := kept()
			db, err := sql.Open("sqlite", "file:"+filepath.Join(s.Dir, "collab.db")+"?_pragma=busy_timeout(10000)")
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			if _, err := db.Exec("UPDATE blob_names SET at = at - 90000000 WHERE is_discarded"); err != nil {
				t.Fatal(err)
			}
			ran(t, s, true, "gc")
			if after := kept(); after != before-1 {
				t.Errorf("of %d objects are %d left", before, after)
			}
		})
	}
}
