package patch_test

import (
	"testing"

	"collab/domain/patch"
)

func TestAPatchDistinguishesAbsentNullAndValue(t *testing.T) {
	old, fresh := "old", "new"
	for _, c := range []struct {
		about         string
		field         patch.Field[string]
		present, null bool
		over          *string
	}{
		{"an absent field keeps what is there", patch.Field[string]{}, false, false, &old},
		{"a null clears it", patch.Null[string](), true, true, nil},
		{"a value replaces it", patch.Value("new"), true, false, &fresh},
		{"an empty value replaces it too", patch.Value(""), true, false, new(string)},
	} {
		t.Run(c.about, func(t *testing.T) {
			if c.field.Present() != c.present || c.field.IsNull() != c.null {
				t.Errorf("present %v, null %v", c.field.Present(), c.field.IsNull())
			}
			if _, ok := c.field.Get(); ok != (c.present && !c.null) {
				t.Errorf("has a value: %v", ok)
			}
			got := c.field.Over(&old)
			if (got == nil) != (c.over == nil) || got != nil && *got != *c.over {
				t.Errorf("got %v, want %v", got, c.over)
			}
		})
	}
}

func TestAPatchedValueIsACopy(t *testing.T) {
	f := patch.Value("one")
	*f.Over(nil) = "two"
	if v, _ := f.Get(); v != "one" {
		t.Errorf("the patch now says %q", v)
	}
}
