package httpapi

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"strings"

	template "github.com/DataDog/datadog-agent/pkg/template/html"
	"github.com/gorilla/mux"

	"collab/domain/fault"
)

// renderer is the script that shows OpenAPI documents, compressed with gzip. It
// is read only when a browser asks for it.
//
//go:embed renderer/scalar.js.gz
var renderer []byte

// rendererSum names the script: its SHA-256 before it was compressed, and where
// in which package it comes from.
//
//go:embed renderer/scalar.txt
var rendererSum string

//go:embed reference.html
var referenceSource string

//go:embed reference.js
var referenceScript string

// reference is the page of the OpenAPI document.
type reference struct {
	page   []byte
	tag    string // of the page
	policy string // its content security policy

	script    string // the name of the renderer below /docs
	scriptTag string // of the renderer as it is
	gzipTag   string // of the renderer compressed
}

// newReference makes the page around the renderer.
func newReference() (*reference, error) {
	sum, _, ok := strings.Cut(rendererSum, " ")
	if raw, err := hex.DecodeString(sum); !ok || err != nil || len(raw) != sha256.Size {
		return nil, fmt.Errorf("httpapi: the renderer's checksum is %q", sum)
	}
	p := &reference{
		script:    "scalar-" + sum[:16] + ".js",
		scriptTag: `"` + sum[:16] + `"`,
		gzipTag:   `"` + sum[:16] + `-gzip"`,
		// The renderer writes its style into elements and attributes of the page, as it
		// needs them, so that no digest can name them.
		policy: "default-src 'none'; script-src 'self' '" + sourceHash(referenceScript) + "'; style-src 'unsafe-inline'; " +
			"img-src 'self' data:; font-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
	}
	t, err := template.New("reference").Parse(referenceSource)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	if err := t.Execute(&b, map[string]any{"Renderer": "/docs/" + p.script, "Script": template.JS(referenceScript)}); err != nil {
		return nil, err
	}
	p.page, p.tag = b.Bytes(), tagOf(b.Bytes())
	return p, nil
}

// tagOf is the entity tag of what never changes while the server runs.
func tagOf(content []byte) string {
	sum := sha256.Sum256(content)
	return `"` + hex.EncodeToString(sum[:8]) + `"`
}

// readReference answers with the page. It is asked for anew every time, as it
// names the renderer of its own version.
func (a *api) readReference(c *call) error {
	c.Header()["Referrer-Policy"] = noReferrer
	if c.unchanged(a.reference.tag) {
		return nil
	}
	c.Set("Etag", a.reference.tag)
	c.html(http.StatusOK, a.reference.policy, a.reference.page)
	return nil
}

// immutable is for what has a digest of its content in its name.
var immutable = []string{"public, max-age=31536000, immutable"}

var scriptType = []string{"text/javascript; charset=utf-8"}

// unpackMemory is the memory that unpacking the renderer takes, in bytes.
const unpackMemory = 96 << 10

// readRenderer answers with the renderer, compressed where the client takes that.
func (a *api) readRenderer(c *call) error {
	if mux.Vars(c.r)["file"] != a.reference.script {
		return fault.Missing("File")
	}
	if err := c.Hold(unpackMemory); err != nil {
		return err
	}
	h := c.Header()
	c.public(immutable)
	h.Add("Vary", "Accept-Encoding")
	compressed := takesGzip(c.r.Header["Accept-Encoding"])
	tag := a.reference.scriptTag
	if compressed {
		tag = a.reference.gzipTag
	}
	if c.unchanged(tag) {
		return nil
	}
	c.Set("Etag", tag)
	if compressed {
		c.Set("Content-Encoding", "gzip")
		c.sendAs(scriptType, http.StatusOK, renderer)
		return nil
	}
	h["Content-Type"] = scriptType
	if c.r.Method == http.MethodHead {
		c.WriteHeader(http.StatusOK)
		return nil
	}
	script, err := gzip.NewReader(bytes.NewReader(renderer))
	if err != nil {
		return err
	}
	if _, err := io.Copy(writerFunc(func(b []byte) (int, error) {
		c.ExtendFor(len(b))
		return c.Write(b)
	}), script); err != nil {
		return c.Gone(err)
	}
	return nil
}

// takesGzip reports whether a client takes answers that are compressed with gzip.
func takesGzip(header []string) (takes bool) {
	for coding, weight := range weights(header) {
		switch coding {
		case "gzip", "x-gzip":
			return weight > 0
		case "*":
			takes = weight > 0
		}
	}
	return takes
}
