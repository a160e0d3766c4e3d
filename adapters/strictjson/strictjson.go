// Package strictjson reads JSON files that people write. Unlike encoding/json it refuses
// names in other case, unknown and repeated fields, and null. Errors name the field and
// quote no value. It is a leaf: it imports the standard library alone.
package strictjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"
)

// NewDecoder returns a decoder of data, which must be UTF-8 of at most limit bytes.
func NewDecoder(data []byte, limit int) (*json.Decoder, error) {
	if len(data) > limit {
		return nil, fmt.Errorf("must be at most %d bytes", limit)
	}
	if !utf8.Valid(data) {
		return nil, errors.New("must be valid UTF-8")
	}
	return json.NewDecoder(bytes.NewReader(data)), nil
}

// End returns an error if anything follows the value that was read, which is called what.
func End(d *json.Decoder, what string) error {
	if _, err := d.Token(); err != io.EOF {
		return fmt.Errorf("must be nothing after the %s", what)
	}
	return nil
}

// Object reads an object, which is called what in errors, into pointers by field, or by
// functions that read the value themselves. It returns the fields that it has read, also
// if it fails.
func Object(d *json.Decoder, what string, fields map[string]any) (read map[string]bool, err error) {
	read = map[string]bool{}
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return read, errors.New("must be a JSON object")
	}
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return read, errors.New("must be a whole JSON object")
		}
		name, _ := t.(string)
		into, known := fields[name]
		switch {
		case !known:
			return read, fmt.Errorf("%q: is no field of %s", Shorten(name), what)
		case read[name]:
			return read, fmt.Errorf("%s: must not be given twice", name)
		}
		read[name] = true
		if err := field(d, name, into); err != nil {
			return read, err
		}
	}
	if _, err := d.Token(); err != nil {
		return read, errors.New("must be a whole JSON object")
	}
	return read, nil
}

func field(d *json.Decoder, name string, into any) error {
	if read, ok := into.(func() error); ok {
		return read()
	}
	var value json.RawMessage
	if d.Decode(&value) != nil {
		return fmt.Errorf("%s: must be valid JSON", name)
	}
	if string(value) != "null" && json.Unmarshal(value, into) == nil {
		return nil
	}
	form := "a text"
	switch into.(type) {
	case *bool:
		form = "true or false"
	case *int:
		form = "a whole number"
	case *[]string:
		form = "an array of texts"
	}
	return fmt.Errorf("%s: must be %s", name, form)
}

// Array reads an array of at most limit elements, each by a function that gets its index.
// Errors begin with the field; of an array that is the whole document, which has none, they
// say what its elements are.
func Array(d *json.Decoder, field, what string, limit int, each func(d *json.Decoder, i int) error) error {
	prefix, array := field+": ", "an array"
	if field == "" {
		prefix, array = "", "a JSON array of "+what
	}
	if t, err := d.Token(); err != nil || t != json.Delim('[') {
		return errors.New(prefix + "must be " + array)
	}
	for i := 0; d.More(); i++ {
		if i == limit {
			return fmt.Errorf("%smust be at most %d", prefix, limit)
		}
		if err := each(d, i); err != nil {
			return err
		}
	}
	if _, err := d.Token(); err != nil {
		return errors.New(prefix + "must be a whole array")
	}
	return nil
}

// Shorten returns the first 40 characters of s, for errors.
func Shorten(s string) string {
	if r := []rune(s); len(r) > 40 {
		return string(r[:40]) + "…"
	}
	return s
}
