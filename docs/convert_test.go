package docs

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"testing"

	"go.yaml.in/yaml/v3"

	"collab/test/must"
)

// shared is the key of the document's root under which nodes are defined that others
// refer to with aliases.
const shared = "x-shared"

// source returns openapi.yaml.
func source(t *testing.T) []byte {
	t.Helper()
	return must.Do(os.ReadFile("openapi.yaml")).Or(t)
}

func TestTheServedDocumentIsUpToDate(t *testing.T) {
	var root yaml.Node
	must.NoError(t, yaml.Unmarshal(source(t), &root))
	var want bytes.Buffer
	must.NoError(t, write(&want, &root))
	if *update {
		var b bytes.Buffer
		w := must.Do(gzip.NewWriterLevel(&b, gzip.BestCompression)).Or(t)
		must.Do(w.Write(want.Bytes())).Or(t)
		must.NoError(t, w.Close())
		must.NoError(t, os.WriteFile("openapi.json.gz", b.Bytes(), 0o644))
		document = b.Bytes()
	}
	if served := must.Do(JSON()).Or(t); !bytes.Equal(served, want.Bytes()) {
		t.Error("openapi.json.gz is not of openapi.yaml; run the test with -update")
	}
}

type member struct{ key, value *yaml.Node }

// members returns the keys and values of a mapping without the key shared. A mapping
// with a merge key is returned in the order of its keys, so that the statuses of
// responses are in order.
func members(n *yaml.Node) []member {
	var own, merged []member
	for i := 0; i < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		switch {
		case key.Tag != "!!merge":
			if key.Value != shared {
				own = append(own, member{key, value})
			}
		case value.Kind == yaml.SequenceNode:
			for _, item := range value.Content {
				merged = append(merged, members(item.Alias)...)
			}
		default:
			merged = append(merged, members(value.Alias)...)
		}
	}
	if merged == nil {
		return own
	}
	// The sort is stable: the mapping's own members precede those that are merged.
	order := func(a, b member) int { return cmp.Compare(a.key.Value, b.key.Value) }
	all := append(own, merged...)
	slices.SortStableFunc(all, order)
	return slices.CompactFunc(all, func(a, b member) bool { return order(a, b) == 0 })
}

func write(b *bytes.Buffer, n *yaml.Node) error {
	switch n.Kind {
	case yaml.DocumentNode:
		return write(b, n.Content[0])
	case yaml.AliasNode:
		return write(b, n.Alias)
	case yaml.MappingNode:
		b.WriteByte('{')
		for i, m := range members(n) {
			if i > 0 {
				b.WriteByte(',')
			}
			if err := value(b, m.key.Value); err != nil {
				return err
			}
			b.WriteByte(':')
			if err := write(b, m.value); err != nil {
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
	return fmt.Errorf("line %d: unknown kind of node", n.Line)
}

func value(b *bytes.Buffer, v any) error {
	text, err := json.Marshal(v)
	b.Write(text)
	return err
}
