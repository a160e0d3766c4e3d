package console

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"encoding/hex"
	"io"
	"io/fs"
	"net/http"
	"path"
	"strconv"
	"strings"
	"sync"

	"collab/adapters/accept"
	"collab/domain/fault"
)

// dist has the page and, below assets, the files that it names, all compressed with gzip. Package
// bundle makes it.
//
//go:embed all:dist
var dist embed.FS

// policy returns the Content-Security-Policy of a page, whose style element it names by its digest.
func policy(page []byte) string {
	_, rest, _ := bytes.Cut(page, []byte("<style>"))
	style, _, _ := bytes.Cut(rest, []byte("</style>"))
	sum := sha256.Sum256(style)
	return "default-src 'none'; script-src 'self'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) +
		"'; img-src 'self' blob:; frame-src blob:; connect-src 'self'; " +
		"form-action 'self'; base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
}

// assets is the path below which files have a digest of their content in their name.
const assets = prefix + "/assets/"

// mediaTypes are those of files by the end of their names.
var mediaTypes = map[string]string{
	".html": "text/html; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
}

// file is one file.
type file struct {
	mediaType string
	tag       string // the entity tag without quotes
	packed    []byte // compressed with gzip

	plain func() ([]byte, error) // returns the content without compression, which is kept for all clients without gzip
}

// files are the page and the files by their path.
type files struct {
	page   file
	policy string // of the page
	assets map[string]file
}

// readFiles reads the files of the console.
func readFiles(from fs.FS) (f files, err error) {
	f.assets = map[string]file{}
	err = fs.WalkDir(from, "dist", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		packed, err := fs.ReadFile(from, name)
		if err != nil {
			return err
		}
		sum := sha256.Sum256(packed)
		plain := strings.TrimSuffix(name, ".gz")
		one := file{mediaTypes[path.Ext(plain)], hex.EncodeToString(sum[:8]), packed, sync.OnceValues(func() ([]byte, error) { return unpack(packed) })}
		if plain == "dist/index.html" {
			f.page = one
			content, err := unpack(packed)
			f.policy = policy(content)
			return err
		}
		f.assets[prefix+strings.TrimPrefix(plain, "dist")] = one
		return nil
	})
	return f, err
}

// serve replies with an asset, or with the page, whose script shows what belongs to the path. A
// missing asset is NotFound.
func (f files) serve(w http.ResponseWriter, r *http.Request) error {
	h := w.Header()
	if one, ok := f.assets[r.URL.Path]; ok {
		h.Set("Cache-Control", "public, max-age=31536000, immutable")
		return one.send(w, r)
	}
	if strings.HasPrefix(r.URL.Path, assets) || strings.HasPrefix(r.URL.Path, prefix+"/api/") ||
		r.URL.Path != prefix && !strings.HasPrefix(r.URL.Path, prefix+"/") {
		return fault.New(fault.NotFound, "There is no such file")
	}
	h.Set("Cache-Control", "no-cache")
	h.Set("Content-Security-Policy", f.policy)
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin-allow-popups") // of connectors' sign-ins
	return f.page.send(w, r)
}

// send replies with the file, compressed if the client accepts that, or 304 if it has it.
func (f file) send(w http.ResponseWriter, r *http.Request) error {
	h := w.Header()
	h.Add("Vary", "Accept-Encoding")
	compressed := accept.Gzip(r.Header["Accept-Encoding"])
	tag := `"` + f.tag + `"`
	if compressed {
		tag = `"` + f.tag + `-gzip"`
	}
	h.Set("Etag", tag)
	if r.Header.Get("If-None-Match") == tag {
		w.WriteHeader(http.StatusNotModified)
		return nil
	}
	content := f.packed
	if compressed {
		h.Set("Content-Encoding", "gzip")
	} else {
		var err error
		if content, err = f.plain(); err != nil {
			return err
		}
	}
	h.Set("Content-Type", f.mediaType)
	h.Set("Content-Length", strconv.Itoa(len(content)))
	w.WriteHeader(http.StatusOK)
	_, _ = w.Write(content) // it fails if the client closed the connection
	return nil
}

// unpack decompresses the content of a file.
func unpack(packed []byte) ([]byte, error) {
	r, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(r)
}
