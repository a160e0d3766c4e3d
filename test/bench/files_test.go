package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"collab/test/must"
)

// newFileServer returns a server of the bare server's files, and their folder.
func newFileServer(t *testing.T) (fileServer, string) {
	t.Helper()
	folder := t.TempDir()
	files := bareFiles{folder}
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+bareUploads, handlerOf(files.upload))
	mux.HandleFunc("GET "+bareUploads+"/{id}", files.download)
	return fileServer{testServer(t, mux.ServeHTTP), "", bareUploads, bareUploads + "/", ""}, folder
}

func TestOtherContentIsAnError(t *testing.T) {
	content := randomBytes(300 << 10)

	t.Run("a response with another checksum is an error", func(t *testing.T) {
		p := testServer(t, func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			w.WriteHeader(http.StatusCreated)
			fmt.Fprintf(w, `{"checksum":%q}`, strings.Repeat("0", 64))
		})
		s := fileServer{process: p, uploads: "/uploads"}
		if f, err := s.atOnce(t.Context(), s.form(content, 2), 2); err == nil {
			t.Errorf("no error, but %+v", f)
		}
	})
	t.Run("a download of other content is an error", func(t *testing.T) {
		s, folder := newFileServer(t)
		ids, err := s.stock(t.Context(), content)
		must.NoError(t, err)
		damaged := append([]byte("x"), content[1:]...)
		must.NoError(t, os.WriteFile(filepath.Join(folder, ids[0]), damaged, 0o600))
		if f, err := measure(t.Context(), s.process, s.download(content, ids[:1]), 1, time.Millisecond, 50*time.Millisecond, nil); err == nil {
			t.Errorf("no error, but %+v", f)
		}
	})
}
