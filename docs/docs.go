// Package docs holds the OpenAPI document that the server serves.
package docs

import (
	"bytes"
	"compress/gzip"
	_ "embed"
	"io"
)

// document is openapi.yaml as JSON, which its test generates: reading YAML takes time at every start.
//
//go:embed openapi.json.gz
var document []byte

// JSON returns the OpenAPI document as JSON, in the order of openapi.yaml, with aliases
// and merge keys resolved.
func JSON() ([]byte, error) {
	r, err := gzip.NewReader(bytes.NewReader(document))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(r)
}
