package storm

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"collab/adapters/archive"
	domain "collab/domain/archive"
)

// exportRequest is an export that an owner has asked for.
type exportRequest struct {
	id   string
	from int64 // before the server knew of it
	to   int64 // when it was shown as ready at first; 0: it was not; guarded by mu of the tenant
}

// exportView is an export as servers show it.
type exportView struct{ ID, Status, Error, DownloadURL string }

// requestExport asks for an archive. An organisation has one at a time, and not many in a day.
func (w *worker) requestExport(do doFunc) {
	x := do(call{method: "POST", path: "/org/export", by: w.owner, key: true, expect: []int{202, 409, 429}})
	w.audit(w.owner.org, x)
	var made exportView
	if x.ok() && x.decode(&made) == nil {
		w.tenant.mu.Lock()
		defer w.tenant.mu.Unlock()
		w.exports = append(w.exports, &exportRequest{id: made.ID, from: x.attempts[0].call})
	}
}

func (w *worker) readExport(draw int, do doFunc) {
	w.tenant.mu.Lock()
	all := w.exports
	w.tenant.mu.Unlock()
	if len(all) == 0 {
		return
	}
	e := all[draw%len(all)]
	var got exportView
	if x := do(call{method: "GET", path: "/org/exports/" + e.id, by: w.owner}); x.ok() && x.decode(&got) == nil && got.Status == "READY" {
		w.tenant.mu.Lock()
		defer w.tenant.mu.Unlock()
		if e.to == 0 {
			e.to = x.last().ret
		}
	}
}

// checkExports downloads all archives, among them one that is made when the storm is over, and
// compares them with what was there. Exports may fail in a storm.
func (s *storm) checkExports(t *tenant) {
	w := &worker{client: s.server(0), tenant: t, me: t.owner}
	do := func(q call) response {
		q.kind = "set-up and checks"
		if q.expect == nil {
			q.expect = []int{200}
		}
		return w.do(s.Context(), q)
	}
	states := map[string]int{}
	finish := func() error {
		clear(states)
		for i, e := range t.exports {
			var got exportView
			s.must(s.server(i), call{method: "GET", path: "/org/exports/" + e.id, by: t.owner}, &got)
			if states[got.Status]++; got.Status == "PENDING" || got.Status == "RUNNING" {
				return fmt.Errorf("the export %s is %s", e.id, got.Status)
			}
		}
		return nil
	}
	s.await(t.name+": exports are finished", finish)
	before := len(t.exports)
	failed := states["FAILED"]
	w.requestExport(do)
	s.await(t.name+": the last export is finished", finish)
	var errs []error
	if len(t.exports) > before && states["FAILED"] > failed {
		errs = append(errs, errors.New("an export failed without faults"))
	}
	records := 0
	for i, e := range t.exports {
		var got exportView
		a := s.must(s.server(i), call{method: "GET", path: "/org/exports/" + e.id, by: t.owner}, &got)
		if got.Status != "READY" {
			continue
		}
		if e.to == 0 {
			e.to = a.last().ret
		}
		found, n, err := s.readArchive(s.Context(), got.DownloadURL, t)
		if err != nil {
			errs = append(errs, fmt.Errorf("the archive %s: %w", e.id, err))
			continue
		}
		records += n
		for kind, names := range found {
			errs = append(errs, exportErrors(kind, within(s.lifetimes[kind], t.owner.org), names, e.from, e.to)...)
		}
	}
	s.addCheck(errs, "%s: exports %v, %d records in archives", t.name, states, records)
}

// readArchive downloads and checks an archive. It returns the names of the records that clients make, by
// kind, of those kinds that an import reads, and the number of all records and contents.
func (s *storm) readArchive(ctx context.Context, address string, t *tenant) (found map[string]map[string]int, records int, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, 0, err
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, 0, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, 0, fmt.Errorf("%s: %s", address, response.Status)
	}
	org := t.owner.org + " "
	found = map[string]map[string]int{"task": {}, "file": {}, "team": {}, "workspace": {}}
	checksums := map[string]string{}
	err = archive.Archiver{}.Read(ctx, response.Body, "", func(i domain.Item) error {
		switch r := i.Record; {
		case i.Content != nil:
			sum := sha256.New()
			if _, err := io.Copy(sum, i.Content); err != nil {
				return err
			}
			if want := checksums[i.Path]; hex.EncodeToString(sum.Sum(nil)) != want {
				return fmt.Errorf("%s has another content than %s", i.Path, want)
			}
			delete(checksums, i.Path)
		case i.Manifest != nil:
			return nil
		case r.Task != nil && strings.HasPrefix(r.Task.Title, "task-made"):
			found["task"][org+r.Task.Title]++
		case r.Team != nil && strings.HasPrefix(r.Team.Name, "team-made"):
			found["team"][org+r.Team.Name]++
		case r.Workspace != nil && strings.HasPrefix(r.Workspace.Name, "workspace-made"):
			found["workspace"][org+r.Workspace.Name]++
		case r.Object != nil:
			checksums[domain.ContentPath(*r.Object)] = r.Object.Checksum
			if name := r.Object.StorageKey(); strings.HasPrefix(name, t.owner.org+"/shared/artifacts/") {
				found["file"][name]++
			}
		}
		records++
		return nil
	})
	if err == nil && len(checksums) > 0 {
		err = fmt.Errorf("it lacks the content of %d files", len(checksums))
	}
	return found, records, err
}
