package localmodel

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"pgregory.net/rapid"

	"collab/test/must"
)

func TestArguments(t *testing.T) {
	for name, c := range map[string]struct{ schema, message, want string }{
		"are empty without a schema":             {"", "hello", `{}`},
		"are empty for what is no object":        {`{"type":"string"}`, "hello", `{}`},
		"are empty for no JSON":                  {`{"type":`, "hello", `{}`},
		"are texts in quotes, then the message":  {`{"properties":{"a":{"type":"string"},"b":{},"c":{}}}`, "put `x y` in “z”", `{"a":"x y","b":"z","c":"put ` + "`x y`" + ` in “z”"}`},
		"have required properties first":         {`{"properties":{"a":{"type":"string"},"z":{"type":"string"}},"required":["z"]}`, `"one" of`, `{"a":"\"one\" of","z":"one"}`},
		"are numbers of the message that fit":    {`{"properties":{"a":{"type":"integer","maximum":5},"b":{"type":"number"},"c":{"type":"integer"}}}`, "take 7, 2.5 or 3", `{"a":3,"b":7,"c":1}`},
		"are numbers nearest to 1 without any":   {`{"properties":{"a":{"type":"integer","exclusiveMinimum":3},"b":{"type":"number","maximum":-2.5},"c":{"type":"integer","multipleOf":4}}}`, "", `{"a":4,"b":-2.5,"c":4}`},
		"are the option that is named":           {`{"properties":{"a":{"enum":["LOW","HIGH"]},"b":{"enum":["x",2]}}}`, "with high priority", `{"a":"HIGH","b":"x"}`},
		"are constants, defaults and examples":   {`{"properties":{"a":{"const":[1]},"b":{"type":"integer","default":12345678901234567890},"c":{"examples":["e"]}}}`, "", `{"a":[1],"b":12345678901234567890,"c":"e"}`},
		"are true, nothing and lists":            {`{"properties":{"a":{"type":"boolean"},"b":{"type":"null"},"c":{"type":["null","array"],"minItems":2,"items":{"type":"boolean"}},"d":{"type":"array","maxItems":0}}}`, "", `{"a":true,"b":null,"c":[true,true],"d":[]}`},
		"are of the schema's length":             {`{"properties":{"a":{"type":"string","maxLength":3},"b":{"type":"string","minLength":7}}}`, "öäüöä", `{"a":"öäü","b":"öäüöäxx"}`},
		"have the schema's format":               {`{"properties":{"a":{"type":"string","format":"date"},"b":{"type":"string","format":"odd"}}}`, "m", `{"a":"2026-01-31","b":"m"}`},
		"follow references":                      {`{"properties":{"a":{"$ref":"#/$defs/x~1y"},"b":{"$ref":"#/nowhere"}},"$defs":{"x/y":{"type":"boolean"}}}`, "m", `{"a":true,"b":"m"}`},
		"have the first alternative except null": {`{"properties":{"a":{"anyOf":[{"type":"null"},{"type":"boolean"},{"type":"string"}]}}}`, "m", `{"a":true}`},
		"merge all parts":                        {`{"allOf":[{"properties":{"a":{"type":"boolean"}},"required":["a"]},{"$ref":"#/$defs/x"}],"$defs":{"x":{"properties":{"b":{"type":"null"}}}}}`, "m", `{"a":true,"b":null}`},
	} {
		t.Run(name, func(t *testing.T) {
			must.Is(t, c.want, arguments(c.schema, c.message))
		})
	}
	t.Run("are limited for recursive schemas", func(t *testing.T) {
		for _, schema := range []string{
			`{"properties":{"a":{"$ref":"#"},"b":{"$ref":"#"}},"required":["a","b"]}`,
			`{"$ref":"#"}`, `{"anyOf":[{"$ref":"#"}]}`, `{"allOf":[{"$ref":"#"},{"$ref":"#"}]}`,
			`{"properties":{"a":{"type":"array","minItems":1e300,"items":{"$ref":"#/properties/a"}}}}`,
			`{"properties":{"a":{"type":"string","minLength":1e300,"maxLength":-1}}}`,
			`{"properties":{"a":{"type":"number","minimum":1e308,"multipleOf":1e-300}}}`,
		} {
			if got := arguments(schema, "m"); !json.Valid([]byte(got)) || len(got) > 20_000 {
				t.Errorf("%.200s for %s", got, schema)
			}
		}
	})
}

func TestArgumentsAreValidBySchema(t *testing.T) {
	var schema func(t *rapid.T, depth int) map[string]any
	schema = func(t *rapid.T, depth int) map[string]any {
		kinds := []string{"string", "integer", "number", "boolean", "enum", "default"}
		if depth < 3 {
			kinds = append(kinds, "object", "array", "anyOf")
		}
		switch kind := rapid.SampledFrom(kinds).Draw(t, "kind"); kind {
		case "string":
			minimum := rapid.IntRange(0, 30).Draw(t, "minLength")
			return map[string]any{"type": kind, "minLength": minimum, "maxLength": minimum + rapid.IntRange(0, 30).Draw(t, "more")}
		case "integer", "number":
			minimum := rapid.IntRange(-50, 50).Draw(t, "minimum")
			return map[string]any{"type": kind, "minimum": minimum, "maximum": minimum + rapid.IntRange(0, 50).Draw(t, "more")}
		case "enum":
			return map[string]any{"type": "string", "enum": []string{"one", "two"}}
		case "default":
			return map[string]any{"type": "integer", "default": 5}
		case "array":
			minimum := rapid.IntRange(0, 3).Draw(t, "minItems")
			return map[string]any{"type": kind, "items": schema(t, depth+1), "minItems": minimum, "maxItems": max(minimum, 1)}
		case "anyOf":
			return map[string]any{"anyOf": []any{schema(t, depth+1), schema(t, depth+1)}}
		case "object":
			properties, required := map[string]any{}, []string{}
			for _, name := range []string{"a", "b", "c"} {
				if rapid.Bool().Draw(t, name) {
					properties[name] = schema(t, depth+1)
					if rapid.Bool().Draw(t, "required") {
						required = append(required, name)
					}
				}
			}
			return map[string]any{"type": kind, "properties": properties, "required": required, "additionalProperties": false}
		default:
			return map[string]any{"type": kind}
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		text, err := json.Marshal(map[string]any{"type": "object", "properties": map[string]any{"p": schema(t, 0), "q": schema(t, 0)}, "required": []string{"p"}})
		must.NoError(t, err)
		var parsed openapi3.Schema
		must.NoError(t, json.Unmarshal(text, &parsed))
		args := arguments(string(text), rapid.StringMatching(`(two|[a-zä ]{0,40}|-?[0-9]{1,2}| |"[a-z]{0,9}"){0,6}`).Draw(t, "message"))
		var value map[string]any
		must.NoError(t, json.Unmarshal([]byte(args), &value))
		if err := parsed.VisitJSON(value); err != nil || len(value) != 2 {
			t.Fatalf("%s for %s: %v", args, text, err)
		}
	})
}

func FuzzArguments(f *testing.F) {
	f.Add(`{"properties":{"a":{"$ref":"#"},"b":{"type":"array","items":{"$ref":"#"}}},"required":["a"]}`, `call "it" 3 times`)
	f.Add(`{"type":["object","null"],"anyOf":[{"type":"null"},{"properties":{"x":{"type":"number","multipleOf":1e-320}}}]}`, "")
	f.Fuzz(func(t *testing.T, schema, message string) {
		got := arguments(schema, strings.ToValidUTF8(message, ""))
		var value map[string]any
		if err := json.Unmarshal([]byte(got), &value); err != nil || value == nil {
			t.Fatalf("%q for %q: %v", got, schema, err)
		}
	})
}
