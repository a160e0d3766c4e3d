package body

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"collab/test/must"
)

func TestParseObjectIsStrict(t *testing.T) {
	for text, want := range map[string]string{
		``:                            "unexpected end at byte 0",
		`{`:                           "unexpected end at byte 1",
		`{"a"`:                        "unexpected end",
		`{"a":1`:                      "unexpected end",
		`{"a":1,}`:                    "a name in double quotes is missing",
		`{"a":1 "b":2}`:               "a comma or a closing brace is missing",
		`{"a" 1}`:                     "a colon is missing",
		`{a:1}`:                       "a name in double quotes is missing",
		`{"a":1}{}`:                   "something after the end",
		`{"a":1} x`:                   "something after the end",
		`[]`:                          "must be a JSON object",
		`"text"`:                      "must be a JSON object",
		`null`:                        "must be a JSON object",
		`nul`:                         "unexpected character",
		`{"a":01}`:                    "a comma or a closing brace",
		`{"a":-}`:                     "a digit is missing",
		`{"a":1.}`:                    "a digit is missing",
		`{"a":1e}`:                    "a digit is missing",
		`{"a":+1}`:                    "unexpected character",
		`{"a":NaN}`:                   "unexpected character",
		`{"a":[1,]}`:                  "unexpected character",
		`{"a":[1 2]}`:                 "a closing bracket",
		"{\"a\":\"\n\"}":              "a control character",
		"{\"a\":\"\xff\"}":            "invalid UTF-8",
		"{\"\xc3\x28\":1}":            "invalid UTF-8",
		`{"a":"\x"}`:                  "an invalid escape",
		`{"a":"\u12g4"}`:              "an invalid escape",
		`{"a":"\ud800"}`:              "half a surrogate pair",
		`{"a":"\ud800\u0041"}`:        "half a surrogate pair",
		`{"a":"\udc00\ud800"}`:        "half a surrogate pair",
		`{"a":1,"a":2}`:               "a repeated name at byte 7",
		`{"a":1,"\u0061":2}`:          "a repeated name",
		`{"m":{"x":[{"y":1,"y":1}]}}`: "a repeated name",
		"\ufeff{}":                    "unexpected character",
		`{"a":` + strings.Repeat("[", 65) + strings.Repeat("]", 65) + `}`: "nested too deeply",
	} {
		t.Run(fmt.Sprintf("%.40q", text), func(t *testing.T) {
			_, err := parseObject([]byte(text))
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("got %v, want %q", err, want)
			}
		})
	}
}

func TestParseObjectRefusesRepeatedNames(t *testing.T) {
	var b strings.Builder
	b.WriteString(`{"n0":0`)
	for i := 1; i < 1000; i++ {
		fmt.Fprintf(&b, `,"n%d":%d`, i, i)
	}
	pairs, err := parseObject([]byte(b.String() + "}"))
	if err != nil || len(pairs) != 1000 {
		t.Fatalf("%d pairs, %v", len(pairs), err)
	}
	for _, name := range []string{"n0", "n11", "n12", "n999"} {
		if _, err := parseObject([]byte(b.String() + `,"` + name + `":0}`)); err == nil {
			t.Errorf("a repeated %s is accepted", name)
		}
	}
}

// FuzzObject compares parseObject with encoding/json: accepted objects have the same values there, and refused ones
// are invalid there or refused for a rule that encoding/json does not have.
func FuzzObject(f *testing.F) {
	for _, seed := range []string{
		`{}`, ` {"a" : [1, -2.5e+3, true, false, null, "x\u00e9\ud83d\ude00"], "b": {"c": {}}} `,
		`{"a":"\"\\\/\b\f\n\r\t"}`, `{"a":1,"a":2}`, `{"é":"ü"}`, `{"a":["x",null],"b":["y"],"c":[[]]}`, `[1]`, `{"a":"` + "\xff" + `"}`, `{"a":"\ud800"}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		pairs, err := parseObject(data)
		var want map[string]json.RawMessage
		valid := json.Unmarshal(data, &want) == nil && want != nil
		if err != nil {
			if valid && !isStricter(err.Error()) {
				t.Fatalf("%q is refused: %v", data, err)
			}
			return
		}
		if !valid || !utf8.Valid(data) || len(pairs) != len(want) {
			t.Fatalf("%q is accepted with %d names, encoding/json says %v with %d", data, len(pairs), valid, len(want))
		}
		for _, p := range pairs {
			if !bytes.Equal(want[string(p.name)], p.raw) {
				t.Fatalf("%q is %q, want %q", p.name, p.raw, want[string(p.name)])
			}
			if p.raw[0] == '"' {
				var text string
				must.NoError(t, json.Unmarshal(p.raw, &text))
				if got, problem := Text(p.raw); problem != "" || got != text {
					t.Fatalf("%s is read as %q, want %q", p.raw, got, text)
				}
			}
			if text, problem := Document(p.raw); (problem == "") != (p.raw[0] == '{') || problem == "" && !json.Valid([]byte(text)) {
				t.Fatalf("%s is read as the object %q, %s", p.raw, text, problem)
			}
			if p.raw[0] == '[' {
				var parts []json.RawMessage
				must.NoError(t, json.Unmarshal(p.raw, &parts))
				var all []*string // nil for null, which Texts refuses
				isTexts := json.Unmarshal(p.raw, &all) == nil && !slices.Contains(all, nil)
				if texts, problem := Texts(p.raw); (problem == "") != isTexts {
					t.Fatalf("%s is read as the texts %q, %s", p.raw, texts, problem)
				}
				got := Elements(p.raw)
				if len(got) != len(parts) {
					t.Fatalf("%s has %d elements, want %d", p.raw, len(got), len(parts))
				}
				for i := range parts {
					if !bytes.Equal(parts[i], got[i]) {
						t.Fatalf("element %d of %s is %s", i, p.raw, got[i])
					}
				}
			}
		}
	})
}

// isStricter reports whether the message is of a rule that encoding/json does not have.
func isStricter(message string) bool {
	return slices.ContainsFunc([]string{"a repeated name", "invalid UTF-8", "surrogate", "nested too deeply"}, func(rule string) bool { return strings.Contains(message, rule) })
}
