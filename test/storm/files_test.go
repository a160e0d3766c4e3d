package storm

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"collab/test/must"
)

// operation is one operation of a batch.
type operation struct {
	Op              string `json:"op"`
	ID              string `json:"id,omitempty"`
	Path            string `json:"path,omitempty"`
	Content         string `json:"content,omitempty"`
	ExpectedVersion int64  `json:"expectedVersion,omitempty"`

	expect []int          // statuses
	keep   func(response) // records what has become of it
}

// batch makes two files and replaces a register in one request, which also moves and deletes files of
// which others may be deleted.
func (w *worker) batch(unique string, draw int, do doFunc) {
	var all []operation
	for i := range 2 {
		path, content := fmt.Sprintf("%s-%d.txt", strings.ReplaceAll(unique, " ", "/"), i), fmt.Sprint(unique, " ", i)
		w.content(content, true)
		all = append(all, operation{Op: "put", Path: path, Content: content, expect: []int{201}, keep: func(x response) { w.keepFile(x, path, content) }})
	}
	i := draw % registers
	last := w.expectedFile(i)
	if version, err := strconv.ParseInt(last.tag, 10, 64); err == nil {
		w.content(unique, true)
		all = append(all, operation{Op: "put", ID: w.files[i], Content: unique, ExpectedVersion: version, expect: []int{200, 409}, keep: func(x response) { w.keepReplaced(x, i, last, unique, do) }})
	}
	if f, ok := w.take("file", draw); ok {
		path := strings.ReplaceAll(unique, " ", "/") + "-moved.txt"
		all = append(all, operation{Op: "move", ID: f.id, Path: path, expect: []int{200}, keep: func(x response) { w.keepMoved(x, f, path) }})
	}
	if f, ok := w.take("file", draw); ok {
		all = append(all, operation{Op: "delete", ID: f.id, expect: []int{200, 404}, keep: func(x response) { w.keepDeleted(x, f) }})
	}
	var body bytes.Buffer
	lines := json.NewEncoder(&body)
	for _, o := range all {
		if err := lines.Encode(o); err != nil {
			w.violation("an operation of a batch: %v", err)
			return
		}
	}
	x := do(call{method: "POST", path: "/sync/batch", body: body.String(), header: http.Header{"Content-Type": {"application/x-ndjson"}}, key: true})
	outcomes := json.NewDecoder(bytes.NewReader(x.body))
	for i, o := range all {
		if !x.ok() {
			o.keep(x)
			continue
		}
		var got struct {
			Index, Status int
			File          json.RawMessage
		}
		if err := outcomes.Decode(&got); err != nil || got.Index != i {
			w.violation("the request %s has no outcome of operation %d (%v): %s", x.request, i, err, x.body)
			return
		}
		part := x.part(got.Status, got.File)
		if !part.last().unknown && !slices.Contains(o.expect, got.Status) {
			w.violation("operation %d of the request %s is %d: %s", i, x.request, got.Status, x.body)
		}
		w.count("operation of a batch", fmt.Sprint(got.Status))
		o.keep(part)
	}
	if x.ok() && outcomes.More() {
		w.violation("the request %s has more outcomes than operations: %s", x.request, x.body)
	}
}

// minAppend is how many bytes a request appends to an upload at least, unless they are the last.
const minAppend = 256 << 10

// sendInParts makes a file by a resumable upload, whose requests go to any servers. Some uploads are
// cancelled or given up after a part.
func (w *worker) sendInParts(unique string, size, draw int, do doFunc) {
	size = minAppend + 1 + size%minAppend
	content := strings.Repeat(unique+"\n", size/len(unique)+1)[:size]
	path := strings.ReplaceAll(unique, " ", "/") + ".txt"
	sum := w.content(content, true)
	var made struct{ ID string }
	x := do(call{
		method: "POST", path: "/sync/resumable-uploads?checksum=" + sum + "&path=" + url.QueryEscape(path), key: true, expect: []int{201},
		header: http.Header{"Upload-Complete": {"?0"}, "Upload-Length": {strconv.Itoa(size)}},
	})
	if !x.ok() || x.decode(&made) != nil {
		return
	}
	at, offset := "/sync/resumable-uploads/"+made.ID, 0
	for began := time.Now(); time.Since(began) < callTimeout; {
		switch n := draw % 8; {
		case offset > 0 && offset < size && n == 0:
			return
		case offset > 0 && offset < size && n == 1:
			do(call{method: "DELETE", path: at, expect: []int{200, 404}})
			return
		}
		end, complete := min(offset+minAppend, size), "?0"
		if end == size {
			complete = "?1"
		}
		x = do(call{
			method: "PATCH", path: at, body: content[offset:end], expect: []int{201, 204, 409}, once: true,
			header: http.Header{"Content-Type": {"application/partial-upload"}, "Upload-Complete": {complete}, "Upload-Offset": {strconv.Itoa(offset)}},
		})
		if x.ok() && x.status == http.StatusCreated {
			break
		}
		var got struct{ Offset int }
		if a := do(call{method: "GET", path: at}); a.ok() && a.decode(&got) == nil {
			if got.Offset < offset || x.ok() && got.Offset < end {
				w.violation("the upload %s has %d bytes after %d, and the request %s", made.ID, got.Offset, offset, x.request)
			}
			offset = got.Offset
		}
	}
	if x.ok() && x.status == http.StatusCreated {
		w.keepFile(x, path, content)
		return
	}
	w.recordOutcome("file", w.owner.org+"/shared/artifacts/"+path, indeterminate, x)
}

// restore replaces a file that no other client changes, and restores its version before. Some are then
// deleted and restored once more.
func (w *worker) restore(f record, content string, deleted bool, do doFunc) {
	at := "/sync/files/" + f.id
	read := func(path string) (got stored, ok bool) {
		x := do(call{method: "GET", path: path})
		ok = x.ok() && x.decode(&got) == nil
		if ok && must.Sum(got.Content) != got.Checksum {
			w.violation("%s is shown with other content than its checksum says in the request %s: %.300s", path, x.request, x.body)
		}
		return got, ok
	}
	first, ok := read(at)
	if !ok {
		w.put("file", f)
		return
	}
	w.content(content, true)
	x := do(call{method: "PUT", path: at + "?expectedVersion=" + fmt.Sprint(first.Version), body: content, expect: []int{200, 409}})
	if x.status == http.StatusConflict && !x.mayHaveSucceeded() {
		w.violation("the request %s did not replace %s, which nobody else changes: %s", x.request, f.name, x.body)
	}
	second := w.acknowledgeFile(x, content)
	if second.ID == "" {
		return
	}
	if got, ok := read(fmt.Sprint(at, "/versions/", first.Version)); ok && got.Checksum != first.Checksum {
		w.violation("version %d of %s is shown as %+v, and was %+v", first.Version, f.name, got, first)
	}
	x = do(call{method: "POST", path: at + "/restore", body: map[string]int64{"version": first.Version, "expectedVersion": second.Version}, key: true})
	third := w.acknowledgeFile(x, first.Content)
	if third.ID == "" {
		return
	}
	if got, ok := read(at); ok && (got.Content != first.Content || got.Version != third.Version) {
		w.violation("%s was restored and is %+v, was %+v", f.name, got, first)
	}
	if deleted {
		x = do(call{method: "DELETE", path: at, expect: []int{200, 404}})
		w.keepDeleted(x, f)
		if !x.ok() {
			return
		}
		x = do(call{method: "POST", path: at + "/restore", body: map[string]int64{"version": third.Version}, key: true})
		w.recordOutcome("file", f.name, outcomeOf(x), x)
		if w.acknowledgeFile(x, first.Content).ID == "" {
			return
		}
	}
	w.put("file", f)
}
