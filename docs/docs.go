// Package docs holds the OpenAPI document that the server serves.
package docs

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"

	"go.yaml.in/yaml/v3"
)

//go:embed openapi.yaml
var openAPI []byte

// JSON returns the OpenAPI document as JSON, in the order in which it is
// written.
func JSON() ([]byte, error) {
	var root yaml.Node
	if err := yaml.Unmarshal(openAPI, &root); err != nil {
		return nil, err
	}
	var b bytes.Buffer
	if err := write(&b, &root); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

func write(b *bytes.Buffer, n *yaml.Node) error {
	switch n.Kind {
	case yaml.DocumentNode:
		return write(b, n.Content[0])
	case yaml.MappingNode:
		b.WriteByte('{')
		for i := 0; i < len(n.Content); i += 2 {
			if i > 0 {
				b.WriteByte(',')
			}
			if err := value(b, n.Content[i].Value); err != nil {
				return err
			}
			b.WriteByte(':')
			if err := write(b, n.Content[i+1]); err != nil {
				return err
			}
		}
		b.WriteByte('}')
		return nil
	case yaml.SequenceNode:
		b.WriteByte('[')
		for i, item := range n.Content {
			if i > 0 {
				b.WriteByte(',')
			}
			if err := write(b, item); err != nil {
				return err
			}
		}
		b.WriteByte(']')
		return nil
	case yaml.ScalarNode:
		if n.ShortTag() == "!!str" || n.ShortTag() == "!!timestamp" {
			return value(b, n.Value)
		}
		var v any
		if err := n.Decode(&v); err != nil {
			return err
		}
		return value(b, v)
	}
	return fmt.Errorf("line %d: only plain mappings, sequences and scalars are allowed here", n.Line)
}

func value(b *bytes.Buffer, v any) error {
	text, err := json.Marshal(v)
	b.Write(text)
	return err
}
