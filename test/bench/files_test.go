package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
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
	mux.HandleFunc("POST "+bareUploads, orError(files.upload))
	mux.HandleFunc("GET "+bareUploads+"/{id}", files.download)
	return fileServer{testServer(t, mux.ServeHTTP), "", bareUploads, bareUploads + "/", ""}, folder
}

func TestFiles(t *testing.T) {
	const warm, run = time.Millisecond, 50 * time.Millisecond
	content := randomBytes(300 << 10)

	t.Run("an upload in a form has the repeated content", func(t *testing.T) {
		s, folder := newFileServer(t)
		f, err := s.atOnce(t.Context(), s.form(content, 3), 4)
		must.NoError(t, err)
		if f.rate <= 0 || f.p50 <= 0 || f.p99 < f.p50 {
			t.Errorf("%+v", f)
		}
		stored, err := os.ReadDir(folder)
		if err != nil || len(stored) != 4 {
			t.Fatalf("%d files of 4: %v", len(stored), err)
		}
		got, err := os.ReadFile(filepath.Join(folder, stored[0].Name()))
		if err != nil || string(got) != strings.Repeat(string(content), 3) {
			t.Errorf("%d bytes: %v", len(got), err)
		}
	})
	t.Run("every upload has fields and a unique path before the content", func(t *testing.T) {
		var mu sync.Mutex
		paths := map[string]bool{}
		p := testServer(t, func(w http.ResponseWriter, r *http.Request) {
			form, err := r.MultipartReader()
			if err != nil {
				http.Error(w, err.Error(), http.StatusBadRequest)
				return
			}
			seen := ""
			for {
				part, err := form.NextPart()
				if err != nil {
					break
				}
				b, _ := io.ReadAll(part)
				if part.FormName() == "path" {
					mu.Lock()
					if paths[string(b)] {
						seen = "twice "
					}
					paths[string(b)] = true
					mu.Unlock()
				}
				seen += part.FormName() + " "
			}
			if seen != "kind scope path file " {
				http.Error(w, seen, http.StatusBadRequest)
				return
			}
			w.WriteHeader(http.StatusCreated)
			fmt.Fprintf(w, `{"checksum":%q}`, must.Sum(content))
		})
		s := fileServer{process: p, uploads: "/uploads"}
		must.Succeed(t, must.ErrorOf(measure(t.Context(), p, s.form(content, 1), 2, warm, run, nil)))
	})
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
	t.Run("a stored file is sent", func(t *testing.T) {
		s, _ := newFileServer(t)
		ids, err := s.stock(t.Context(), content)
		must.NoError(t, err)
		must.Succeed(t, must.ErrorOf(measure(t.Context(), s.process, s.download(content, ids), 2, warm, run, nil)))
	})
	t.Run("a download of other content is an error", func(t *testing.T) {
		s, folder := newFileServer(t)
		ids, err := s.stock(t.Context(), content)
		must.NoError(t, err)
		damaged := append([]byte("x"), content[1:]...)
		must.NoError(t, os.WriteFile(filepath.Join(folder, ids[0]), damaged, 0o600))
		if f, err := measure(t.Context(), s.process, s.download(content, ids[:1]), 1, warm, run, nil); err == nil {
			t.Errorf("no error, but %+v", f)
		}
	})
	t.Run("other content in the download is an error", func(t *testing.T) {
		p := testServer(t, func(w http.ResponseWriter, r *http.Request) {
			if r.Method == "POST" {
				w.WriteHeader(http.StatusCreated)
				fmt.Fprint(w, `{"id":"one"}`)
				return
			}
			_, _ = w.Write(content[1:])
		})
		s := fileServer{process: p, uploads: "/uploads", reads: "/uploads/"}
		if _, err := s.stock(t.Context(), content); err == nil {
			t.Error("no error")
		}
	})
	t.Run("the peak of memory is at least the present one", func(t *testing.T) {
		p := testServer(t, func(http.ResponseWriter, *http.Request) {})
		must.NoError(t, p.resetPeak())
		held := make([]byte, 32*mib)
		for i := range held {
			held[i] = 1
		}
		now, err := p.resident()
		must.NoError(t, err)
		if most, err := p.peak(); err != nil || most < 32*mib || now > most+mib {
			t.Errorf("%d bytes of %d now: %v", most, now, err)
		}
	})
}

func TestSmallWrites(t *testing.T) {
	for _, kind := range []string{"memory", "new file"} {
		t.Run("of a "+kind+" are whole, and are made for every organisation", func(t *testing.T) {
			var mu sync.Mutex
			wrong, tokens, paths, writes := "", map[string]bool{}, map[string]bool{}, 0
			p := testServer(t, func(w http.ResponseWriter, r *http.Request) {
				var body struct{ Path, Content string }
				err := json.NewDecoder(r.Body).Decode(&body)
				mu.Lock()
				defer mu.Unlock()
				if err != nil || body.Content != note || r.Header.Get("Content-Type") != "application/json" {
					wrong = fmt.Sprint(err, r.Header, body)
				}
				tokens[r.Header.Get("Authorization")], paths[body.Path] = true, true
				writes++
				if kind == "new file" {
					w.WriteHeader(http.StatusCreated)
				}
				fmt.Fprint(w, `{"size":200,"version":1}`+"\n")
			})
			s := publishing{collab: &collab{process: p}, tokens: []string{"one", "two"}}
			must.NoError(t, must.ErrorOf(measure(t.Context(), p, s.workload(kind), 3, time.Millisecond, 50*time.Millisecond, nil)))
			mu.Lock()
			defer mu.Unlock()
			if wrong != "" || len(tokens) != 2 || !tokens["Bearer one"] || !tokens["Bearer two"] {
				t.Errorf("%s, for %v", wrong, tokens)
			}
			if kind == "new file" && len(paths) != writes {
				t.Errorf("%d paths in %d writes", len(paths), writes)
			}
		})
	}
}
