package integration

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"collab/test/collabd"
	"collab/test/must"
	"collab/test/objectstore"
	"collab/test/race"
)

func TestClientsUseTheObjectStoreByAddresses(t *testing.T) {
	race.Skip(t, "its requests come one after another")
	for name, start := range map[string]func(testing.TB) *objectstore.Store{"S3": objectstore.StartS3, "Azure": objectstore.StartAzure} {
		t.Run(name, func(t *testing.T) {
			store := start(t)
			s := collabd.Start(t, append(store.Credentials, "COLLAB_BLOB_URL="+store.Address)...)
			ada := s.SignIn(t, "ada@example.com", "Ada Ltd", "owner")
			export := startExport(t, ada)
			useAddresses(t, ada, store)
			if at := checkExport(t, ada, export); !strings.HasPrefix(at, "http://"+store.Host+"/") {
				t.Errorf("the archive is at %s", at)
			}
		})
	}
}

// useAddresses uploads a file to the object store and downloads it from there, without the
// server's tokens.
func useAddresses(t *testing.T, ada collabd.Client, store *objectstore.Store) {
	const content = "sent to the store\n"
	start := func(fields map[string]any) (upload struct {
		ID, URL, Method string
		Headers         map[string]string
	}) {
		t.Helper()
		fields["size"], fields["checksum"] = len(content), must.Sum(content)
		ada.Must(t, 201, "POST", "/sync/uploads", fields, &upload)
		if !strings.HasPrefix(upload.URL, "http://"+store.Host+"/") {
			t.Fatalf("the address is %s", upload.URL)
		}
		return upload
	}
	put := func(method, address string, headers map[string]string, content string) bool {
		t.Helper()
		r := must.Do(http.NewRequest(method, address, strings.NewReader(content))).Or(t)
		for name, value := range headers {
			r.Header.Set(name, value)
		}
		response := must.Do(http.DefaultClient.Do(r)).Or(t)
		_ = response.Body.Close()
		return response.StatusCode/100 == 2
	}
	var file struct {
		ID, Checksum string
		Version      int
	}
	upload := start(map[string]any{"path": "a/sent; 'é'.txt"})
	ada.Must(t, 409, "POST", "/sync/uploads/"+upload.ID+"/complete", nil, nil)
	if !put(upload.Method, upload.URL, upload.Headers, content) {
		t.Fatal("the store refuses the content")
	}
	for range 2 {
		ada.Must(t, 201, "POST", "/sync/uploads/"+upload.ID+"/complete", nil, &file)
	}
	if put(upload.Method, upload.URL, upload.Headers, strings.ToUpper(content)) || put(upload.Method, upload.URL, upload.Headers, content) {
		t.Error("the store takes content after the upload was completed")
	}
	next := start(map[string]any{"fileId": file.ID, "expectedVersion": 1})
	if !put(next.Method, next.URL, next.Headers, content) {
		t.Fatal("the store refuses the content")
	}
	ada.Must(t, 200, "POST", "/sync/uploads/"+next.ID+"/complete", nil, &file)
	must.Is(t, 2, file.Version)

	var redirected *http.Response
	client := &http.Client{CheckRedirect: func(r *http.Request, _ []*http.Request) error {
		redirected = r.Response
		return nil
	}}
	r := must.Do(ada.Request(t.Context(), "GET", "/sync/files/"+file.ID+"?raw=1", nil, "Prefer: redirect", "Range: bytes=5-6")).Or(t)
	response := must.Do(client.Do(r)).Or(t)
	defer response.Body.Close()
	got, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != 206 || string(got) != "to" || redirected == nil || redirected.StatusCode != 307 || redirected.Header.Get("X-Collab-Checksum") != file.Checksum {
		t.Fatalf("%d %q, %v, redirected by %+v", response.StatusCode, got, err, redirected)
	}
	if h := response.Header; h.Get("Content-Disposition") != "attachment; filename*=UTF-8''sent%3B%20%27%C3%A9%27.txt" || !strings.HasPrefix(h.Get("Content-Type"), "text/plain") {
		t.Errorf("the store's headers are %v", h)
	}
}
