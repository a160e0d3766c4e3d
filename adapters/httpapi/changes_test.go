package httpapi

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httputil"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"collab/domain/id"
	"collab/domain/object"
	"collab/test/must"
)

func TestLastEventIDComesFromHeaderOrQuery(t *testing.T) {
	for name, c := range map[string]struct {
		header []string
		query  string
		from   string
		given  bool
	}{
		"neither":                       {},
		"header":                        {header: []string{"1-2"}, from: "1-2", given: true},
		"header before query":           {header: []string{"1-2"}, query: "lastEventId=1-3", from: "1-2", given: true},
		"lastEventId":                   {query: "lastEventId=1-3", from: "1-3", given: true},
		"last_event_id":                 {query: "x=y&last_event_id=1-4", from: "1-4", given: true},
		"empty header and query":        {header: []string{""}, query: "lastEventId=1-3", from: "1-3", given: true},
		"empty parameter and the other": {query: "lastEventId=&last_event_id=1-4", from: "1-4", given: true},
		"empty parameter":               {query: "lastEventId="},
		"other parameter":               {query: "_=1700000000"},
		"two headers":                   {header: []string{"1-2", "1-3"}, from: "1-2,1-3", given: true},
		"repeated parameter":            {query: "lastEventId=1-2&lastEventId=1-3", from: "1-2,1-3", given: true},
		"malformed parameter":           {query: "lastEventId=%zz", given: true},
		"other malformed parameter":     {query: "x=%zz&lastEventId=1-2", from: "1-2", given: true},
	} {
		t.Run(name, func(t *testing.T) {
			from, given := lastEventID(http.Header{"Last-Event-Id": c.header}, c.query)
			if from != c.from || given != c.given {
				t.Errorf("got %q, %v; want %q, %v", from, given, c.from, c.given)
			}
		})
	}
}

// frameText returns the text of a frame.
func frameText(f []byte) []byte { return f[len("00000000\r\n") : len(f)-len("\r\n")] }

func TestChangeFrameIsOneEventInOneChunk(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.String(), rapid.StringMatching("[\\r\\n\u2028\u0085 :\"\\\\data]*"))
		c := object.Change{Type: object.Changed, By: id.User(text.Draw(t, "by")), At: time.UnixMilli(rapid.Int64Range(0, 4e12).Draw(t, "at"))}
		c.Object = object.Object{
			Org: id.Org(text.Draw(t, "org")), Path: strings.Repeat(text.Draw(t, "path"), rapid.IntRange(0, 200).Draw(t, "times")), Version: rapid.Int64().Draw(t, "version"),
			Content: object.Content{Checksum: text.Draw(t, "checksum")},
		}
		at := object.Cursor{Epoch: rapid.Int64Min(0).Draw(t, "epoch"), N: rapid.Int64Min(0).Draw(t, "n")}
		frame := EncodeChange(at, c)
		chunk, err := io.ReadAll(httputil.NewChunkedReader(strings.NewReader(string(frame) + "0\r\n\r\n")))
		if err != nil || string(chunk) != string(frameText(frame)) {
			t.Fatalf("the chunk is %q, %v", chunk, err)
		}
		lines := strings.Split(string(frameText(frame)), "\n")
		if len(lines) != 4 || lines[0] != "id: "+at.String() || lines[2] != "" || lines[3] != "" || strings.ContainsRune(lines[1], '\r') {
			t.Fatalf("the lines are %q", lines)
		}
		var event struct {
			Path      string
			Version   int64
			ChangedBy *string
		}
		data, ok := strings.CutPrefix(lines[1], "data: ")
		if err := json.Unmarshal([]byte(data), &event); !ok || err != nil || event.Version != c.Object.Version || event.Path != strings.ToValidUTF8(c.Object.Path, "\ufffd") && !strings.Contains(event.Path, "\ufffd") {
			t.Fatalf("the data is %q: %v", lines[1], err)
		}
		must.Is(t, c.By != "", event.ChangedBy != nil)
	})
}
