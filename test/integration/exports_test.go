package integration

import (
	"archive/tar"
	"compress/gzip"
	"net/http"
	"strings"
	"testing"

	"collab/test/collabd"
	"collab/test/must"
	"collab/test/tempdir"
)

// startExport asks for an archive of the owner's organisation and returns the export's path.
func startExport(t *testing.T, owner collabd.Client) string {
	t.Helper()
	var export struct{ ID string }
	owner.Must(t, 202, "POST", "/org/export", nil, &export)
	return "/org/exports/" + export.ID
}

// checkExport waits for an archive and downloads it, at the owner's server with the token if its address is that of a
// server, and without it at another one, which is returned.
func checkExport(t *testing.T, owner collabd.Client, path string) string {
	t.Helper()
	var export struct{ Status, DownloadURL string }
	must.Wait(t, "the archive is ready", func() bool {
		owner.Must(t, 200, "GET", path, nil, &export)
		return export.Status == "READY"
	})
	at, header := export.DownloadURL, http.Header{}
	if strings.HasSuffix(at, path+"/archive") { // at the public address
		at = owner.Base + "/api/v1" + path + "/archive"
		header.Set("Authorization", "Bearer "+owner.Token)
	}
	r := must.Do(http.NewRequest("GET", at, nil)).Or(t)
	r.Header = header
	response := must.Do(http.DefaultClient.Do(r)).Or(t)
	defer response.Body.Close()
	if h := response.Header; response.StatusCode != 200 || h.Get("Content-Type") != "application/gzip" || !strings.HasPrefix(h.Get("Content-Disposition"), "attachment; filename*=UTF-8''collab-export-") {
		t.Fatalf("%s with %v", response.Status, h)
	}
	zip := must.Do(gzip.NewReader(response.Body)).Or(t)
	if first, err := tar.NewReader(zip).Next(); err != nil || first.Name != "manifest.json" {
		t.Errorf("the archive begins with %+v, %v", first, err)
	}
	return at
}

// TestAnExportOfAKilledServerIsTakenOver kills a server while a lock holds its export: another server makes the archive
// once the claim has ended.
func TestAnExportOfAKilledServerIsTakenOver(t *testing.T) {
	t.Parallel()
	d := postgresDatabase(t)
	rows := connect(t, d.url)
	first := collabd.Start(t, "COLLAB_DATABASE_URL="+d.url, "COLLAB_BLOB_URL=file://"+tempdir.New(t))
	ada := first.SignIn(t, "ada@example.com", "Ada Ltd", "owner")
	execute(t, rows, "BEGIN")
	execute(t, rows, "LOCK TABLE tasks")
	export := startExport(t, ada)
	count := func(query string) (n int) {
		t.Helper()
		must.NoError(t, rows.QueryRow(t.Context(), query).Scan(&n))
		return n
	}
	must.Wait(t, "the export waits", func() bool {
		return count("SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'tasks'::regclass") > 0
	})
	first.Kill()
	execute(t, rows, "ROLLBACK")
	second := first.Peer(t)
	if claimed := count("UPDATE exports SET due_at = created_at RETURNING attempts"); claimed != 1 {
		t.Errorf("the export was claimed %d times", claimed)
	}
	checkExport(t, ada.At(second), export)
	if claimed := count("SELECT attempts FROM exports"); claimed != 2 {
		t.Errorf("the export was claimed %d times", claimed)
	}
}
