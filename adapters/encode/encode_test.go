package encode

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"collab/test/must"
)

func encoded(t rapid.TB, v any) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	must.NoError(t, e.Encode(v))
	return strings.TrimSuffix(b.String(), "\n")
}

// anyText is any string, with many characters that need escaping.
var anyText = rapid.OneOf(rapid.String(), rapid.StringOf(rapid.SampledFrom([]rune("a\"\\/<>&\b\f\n\r\t\x00\x1f\x7fé\u2027\u2028\u2029😀\ufffd"))))

var anyTime = rapid.Custom(func(t *rapid.T) time.Time {
	return time.UnixMilli(rapid.Int64Range(-62135596800000, 253402300799999).Draw(t, "ms")).UTC()
})

func TestAppendStringMatchesEncodingJSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.OneOf(anyText, rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) })).Draw(t, "text")
		if got, want := string(AppendString(nil, s)), encoded(t, s); got != want {
			t.Fatalf("%q is written as %s, want %s", s, got, want)
		}
	})
}

func TestAppendTimeIsUTCInMilliseconds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		at := anyTime.Draw(t, "time")
		zone := time.FixedZone("", rapid.IntRange(-50000, 50000).Draw(t, "offset"))
		if got, want := string(AppendTime(nil, at.In(zone))), `"`+at.Format("2006-01-02T15:04:05.000Z")+`"`; got != want {
			t.Fatalf("got %s, want %s", got, want)
		}
	})
}

func TestPlainLength(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := rapid.SliceOfN(rapid.OneOf(rapid.Byte(), rapid.SampledFrom([]byte(" !\"#[\\]\x1f\x7f\x80\xa2\xdc\xff"))), 0, 40).Draw(t, "bytes")
		want := slices.IndexFunc(b, func(c byte) bool { return c < 0x20 || c == '"' || c == '\\' })
		if want < 0 {
			want = len(b)
		}
		if got := PlainLength(b); got != want {
			t.Fatalf("%q begins with %d, want %d", b, got, want)
		}
	})
}
