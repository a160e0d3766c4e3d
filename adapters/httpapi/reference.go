package httpapi

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"io"
	"net/http"

	template "github.com/DataDog/datadog-agent/pkg/template/html"

	"collab/adapters/accept"
	"collab/domain/fault"
)

// renderer is the script that shows OpenAPI documents, compressed with gzip. Only browsers
// read it.
//
//go:embed renderer/scalar.js.gz
var renderer []byte

// rendererSum has the script's SHA-256 before compression, and the package that it comes
// from.
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
	scriptTag string // of the uncompressed renderer
	gzipTag   string // of the compressed renderer
}

// newReference returns the page with the renderer.
func newReference() *reference {
	sum := rendererSum[:16]
	p := &reference{
		script:    "scalar-" + sum + ".js",
		scriptTag: `"` + sum + `"`,
		gzipTag:   `"` + sum + `-gzip"`,
		// The renderer adds styles to elements and attributes of the page, so no digest can
		// name them.
		policy: "default-src 'none'; script-src 'self' '" + sourceHash(referenceScript) + "'; style-src 'unsafe-inline'; " +
			"img-src 'self' data:; font-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
	}
	var b bytes.Buffer
	t := template.Must(template.New("reference").Parse(referenceSource))
	_ = t.Execute(&b, map[string]any{"Renderer": "/docs/" + p.script, "Script": template.JS(referenceScript)}) // it cannot fail
	p.page, p.tag = b.Bytes(), contentTag(b.Bytes())
	return p
}

// contentTag returns the entity tag of content that never changes while the server runs.
func contentTag(content []byte) string {
	sum := sha256.Sum256(content)
	return `"` + hex.EncodeToString(sum[:8]) + `"`
}

// readReference replies with the page. Caches must revalidate it, because it names the renderer of its version.
func (a *api) readReference(c *call) error {
	if c.notModified(a.reference.tag) {
		return nil
	}
	c.Header()["Referrer-Policy"] = noReferrer
	c.Set("Etag", a.reference.tag)
	c.html(http.StatusOK, a.reference.policy, a.reference.page)
	return nil
}

// immutable is for files with a digest of their content in their name.
var immutable = []string{"public, max-age=31536000, immutable"}

var scriptType = []string{"text/javascript; charset=utf-8"}

// unpackMemory is the memory for decompressing the renderer, in bytes.
const unpackMemory = 96 << 10

// readRenderer replies with the renderer, compressed if the client accepts that.
func (a *api) readRenderer(c *call) error {
	if c.vars["file"] != a.reference.script {
		return fault.Missing("File")
	}
	if err := c.Hold(unpackMemory); err != nil {
		return err
	}
	h := c.Header()
	c.public(immutable)
	h.Add("Vary", "Accept-Encoding")
	compressed := accept.Gzip(c.r.Header["Accept-Encoding"])
	tag := a.reference.scriptTag
	if compressed {
		tag = a.reference.gzipTag
	}
	if c.notModified(tag) {
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
		return c.ClientClosed(err)
	}
	return nil
}
