package contract

import (
	"errors"
	"testing"
	"time"

	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/object"
	"collab/domain/upload"
	"collab/ports"
	"collab/test/must"
)

// Uploads is the suite of ports.Uploads.
func Uploads(t *testing.T, open func(t *testing.T) Opened) {
	made := func(o id.Org, user id.User, size int64) upload.Upload {
		return upload.New(upload.Upload{ID: fresh[id.Upload](), Org: o, User: user, Object: fresh[id.Object](), Size: size}, at(1))
	}
	added := func(w *fixture, size int64) upload.Upload {
		u := made(w.org().ID, fresh[id.User](), size)
		w.ok(w.Uploads().Add(w.ctx, u.Org, u))
		return u
	}
	part := func(u upload.Upload, offset, size int64) upload.Part {
		return upload.Part{Offset: offset, Size: size, Blob: someName(u.Org)}
	}
	suite{
		"an upload is returned with every field as stored": func(w *fixture) {
			bare := made(w.org().ID, fresh[id.User](), 0)
			draft := object.Draft{Path: "é/b", Kind: object.Artifact, Scope: object.Shared, Workspace: new(fresh[id.Workspace]()), Team: new(fresh[id.Team]()), MimeType: "a/b"}
			full := must.Full(upload.Upload{
				ID: fresh[id.Upload](), Org: w.org().ID, User: fresh[id.User](), Object: fresh[id.Object](), Draft: &draft, MimeType: "c/d", Expected: new(int64(3)),
				Size: 5 << 40, Checksum: "ab", Offset: 4 << 40, CreatedAt: at(1), ExpiresAt: at(9),
			}.Restore(upload.Completed))
			for _, u := range []upload.Upload{bare, full} {
				w.ok(w.Uploads().Add(w.ctx, u.Org, u))
				resultOf(w.Uploads().Get(w.ctx, u.Org, u.ID)).is(w, u)
				w.wantConflict(w.Uploads().Add(w.ctx, u.Org, u))
			}
			draft.Path = "spoilt"
			wantEqual(w, must.Do(w.Uploads().Get(w.ctx, full.Org, full.ID)).Or(w).Draft.Path, "é/b")
		},
		"parts are appended at the offset, and listed in their order": func(w *fixture) {
			u := added(w, 20)
			beside := made(u.Org, u.User, 9)
			w.ok(errors.Join(w.Uploads().Add(w.ctx, u.Org, beside), w.Uploads().Append(w.ctx, u.Org, beside.ID, part(beside, 0, 9))))
			first, second, third := part(u, 0, 9), part(u, 9, 2), part(u, 11, 9)
			for _, p := range []upload.Part{first, second, third} {
				w.wantConflict(w.Uploads().Append(w.ctx, u.Org, u.ID, part(u, p.Offset+1, 1)))
				w.ok(w.Uploads().Append(w.ctx, u.Org, u.ID, p))
				w.wantConflict(w.Uploads().Append(w.ctx, u.Org, u.ID, p))
				u = u.Appended(p.Size)
				resultOf(w.Uploads().Get(w.ctx, u.Org, u.ID)).is(w, u)
			}
			resultOf(w.Uploads().Parts(w.ctx, u.Org, u.ID, 0, 9)).is(w, []upload.Part{first, second, third})
			resultOf(w.Uploads().Parts(w.ctx, u.Org, u.ID, 0, 2)).is(w, []upload.Part{first, second})
			resultOf(w.Uploads().Parts(w.ctx, u.Org, u.ID, 9, 9)).is(w, []upload.Part{second, third})
		},
		"of concurrent parts at one offset one is appended": func(w *fixture) {
			u := added(w, 20)
			w.wantOneSuccess(concurrently(concurrent, func(i int) error { return w.Uploads().Append(w.ctx, u.Org, u.ID, part(u, 0, int64(i+1))) }), fault.Conflict)
			parts := must.Do(w.Uploads().Parts(w.ctx, u.Org, u.ID, 0, 9)).Or(w)
			u = u.Appended(parts[0].Size)
			wantEqual(w, len(parts), 1)
			resultOf(w.Uploads().Get(w.ctx, u.Org, u.ID)).is(w, u)
		},
		"nothing is appended to an upload that is not open": func(w *fixture) {
			u := added(w, 0)
			must.Do(w.Uploads().Update(w.ctx, u.Org, u.ID, upload.Upload.Complete)).Or(w)
			w.wantConflict(w.Uploads().Append(w.ctx, u.Org, u.ID, part(u, 0, 1)))
			resultOf(w.Uploads().Parts(w.ctx, u.Org, u.ID, 0, 9)).is(w, nil)
		},
		"a refused update changes nothing, and of concurrent ones one succeeds": func(w *fixture) {
			u := added(w, 0)
			failure := fault.New(fault.Conflict, "no")
			_, err := w.Uploads().Update(w.ctx, u.Org, u.ID, func(u upload.Upload) (upload.Upload, error) {
				u.Checksum = "never"
				return u, failure
			})
			w.wantSameError(err, failure)
			resultOf(w.Uploads().Get(w.ctx, u.Org, u.ID)).is(w, u)
			w.wantOneSuccess(concurrently(concurrent, func(int) error {
				return must.ErrorOf(w.Uploads().Update(w.ctx, u.Org, u.ID, upload.Upload.Complete))
			}), fault.Conflict)
		},
		"another organisation's upload is not found": func(w *fixture) {
			u, other := added(w, 9), w.org().ID
			w.ok(w.Uploads().Append(w.ctx, u.Org, u.ID, part(u, 0, 9)))
			resultOf(w.Uploads().Get(w.ctx, other, u.ID)).wantNotFound(w)
			resultOf(w.Uploads().Parts(w.ctx, other, u.ID, 0, 9)).is(w, nil)
			w.wantNotFound(w.Uploads().Append(w.ctx, other, u.ID, part(u, 9, 1)))
			resultOf(w.Uploads().Update(w.ctx, other, u.ID, upload.Upload.Complete)).wantNotFound(w)
		},
		"the open uploads of a user are listed by id, without others' and those of other organisations": func(w *fixture) {
			u := added(w, 9)
			listed := func(want ...upload.Upload) {
				w.Helper()
				resultOf(w.Storage.OpenUploads(w.ctx, u.Org, u.User, at(2))).is(w, want)
			}
			second, done := made(u.Org, u.User, 1), made(u.Org, u.User, 0)
			for _, other := range []upload.Upload{second, done, made(u.Org, fresh[id.User](), 9), made(w.org().ID, u.User, 9)} {
				w.ok(w.Uploads().Add(w.ctx, other.Org, other))
			}
			listed(u, second, done)
			must.Do(w.Uploads().Update(w.ctx, u.Org, done.ID, upload.Upload.Complete)).Or(w)
			listed(u, second)
			must.Do(w.Uploads().Update(w.ctx, u.Org, u.ID, func(u upload.Upload) (upload.Upload, error) { return u.Cancel(at(2)) })).Or(w)
			listed(second)
			resultOf(w.Storage.OpenUploads(w.ctx, u.Org, u.User, second.ExpiresAt)).is(w, nil)
		},
		"a member has a bounded number of open uploads": func(w *fixture) {
			o, user := w.org().ID, fresh[id.User]()
			var last upload.Upload
			for range upload.MaxOpen {
				last = made(o, user, 0)
				w.ok(w.Uploads().Add(w.ctx, o, last))
			}
			w.wantConflict(w.Uploads().Add(w.ctx, o, made(o, user, 0)))
			w.ok(w.Uploads().Add(w.ctx, o, made(o, fresh[id.User](), 0)))
			must.Do(w.Uploads().Update(w.ctx, o, last.ID, upload.Upload.Complete)).Or(w)
			w.ok(w.Uploads().Add(w.ctx, o, made(o, user, 0)))
			later := upload.New(made(o, user, 0), last.ExpiresAt.Add(-time.Millisecond))
			w.wantConflict(w.Uploads().Add(w.ctx, o, later))
			w.ok(w.Uploads().Add(w.ctx, o, upload.New(later, last.ExpiresAt)))
		},
		"the sizes of open uploads are counted as announced": func(w *fixture) {
			announced := func(o id.Org, want int64) {
				w.Helper()
				_, size, err := w.Storage.Announced(w.ctx, o)
				w.ok(err)
				wantEqual(w, size, want)
			}
			u := added(w, 5<<40)
			announced(w.org().ID, 0)
			w.ok(w.BlobNames().Announce(w.ctx, u.Org, someName(u.Org), 7, at(1)))
			w.ok(w.Uploads().Add(w.ctx, u.Org, made(u.Org, u.User, 1)))
			announced(u.Org, 5<<40+8)
			must.Do(w.Uploads().Update(w.ctx, u.Org, u.ID, func(u upload.Upload) (upload.Upload, error) { return u.Cancel(at(2)) })).Or(w)
			announced(u.Org, 8)
		},
		"a user's open uploads are cancelled, and the names of their parts discarded": func(w *fixture) {
			u := added(w, 9)
			done, other := made(u.Org, u.User, 0), made(u.Org, fresh[id.User](), 9)
			w.ok(w.Uploads().Add(w.ctx, u.Org, done))
			done = must.Do(w.Uploads().Update(w.ctx, u.Org, done.ID, upload.Upload.Complete)).Or(w)
			w.ok(w.Uploads().Add(w.ctx, u.Org, other))
			var names []string
			for _, of := range []upload.Upload{u, other} {
				p := part(of, 0, 9)
				w.ok(w.Uploads().Append(w.ctx, u.Org, of.ID, p))
				w.ok(w.BlobNames().Discard(w.ctx, u.Org, []string{p.Blob}, at(900)))
				names = append(names, p.Blob)
			}
			other = other.Appended(9)
			cancelled := must.Do(u.Appended(9).Cancel(at(3))).Or(w)
			w.ok(w.Storage.CancelUploads(w.ctx, w.org().ID, u.User, at(3)))
			for range 2 {
				w.ok(w.Storage.CancelUploads(w.ctx, u.Org, u.User, at(3)))
			}
			resultOf(w.Uploads().Get(w.ctx, u.Org, u.ID)).is(w, cancelled)
			for _, left := range []upload.Upload{done, other} {
				resultOf(w.Uploads().Get(w.ctx, u.Org, left.ID)).is(w, left)
			}
			want := map[string]time.Time{names[0]: at(3), names[1]: at(900)}
			for _, b := range w.dueNames(u.Org) {
				wantEqual(w, b, object.Blob{Org: u.Org, Name: b.Name, Discarded: true, At: want[b.Name]})
			}
		},
		"a rollback undoes a part": func(w *fixture) {
			u := added(w, 9)
			w.rolledBack(func(r ports.Records) error { return r.Journal().Uploads().Append(w.ctx, u.Org, u.ID, part(u, 0, 9)) })
			resultOf(w.Uploads().Get(w.ctx, u.Org, u.ID)).is(w, u)
			resultOf(w.Uploads().Parts(w.ctx, u.Org, u.ID, 0, 9)).is(w, nil)
		},
		"expired uploads are removed with their parts, and those of an erased organisation": func(w *fixture) {
			before := longAgo(0)
			var uploads [3]upload.Upload
			for i := range uploads {
				u := made(w.org().ID, fresh[id.User](), 9)
				u.CreatedAt = before.Add(-upload.Lifetime - time.Millisecond)
				if i == 2 {
					u.CreatedAt = before.Add(-upload.Lifetime)
				}
				w.ok(w.Uploads().Add(w.ctx, u.Org, u))
				w.ok(w.Uploads().Append(w.ctx, u.Org, u.ID, part(u, 0, 9)))
				uploads[i] = u
			}
			for _, swept := range []int{1, 1, 0} {
				resultOf(w.Uploads().Sweep(w.ctx, before, 1)).is(w, swept)
			}
			for _, u := range uploads[:2] {
				resultOf(w.Uploads().Get(w.ctx, u.Org, u.ID)).wantNotFound(w)
				resultOf(w.Uploads().Parts(w.ctx, u.Org, u.ID, 0, 9)).is(w, nil)
			}
			late := uploads[2]
			name := object.Blob{Org: late.Org, Name: someName(late.Org), Discarded: true, At: at(900)}
			w.ok(w.BlobNames().Discard(w.ctx, late.Org, []string{name.Name}, name.At))
			w.erase(late.Org, at(300))
			resultOf(w.Uploads().Get(w.ctx, late.Org, late.ID)).wantNotFound(w)
			resultOf(w.Uploads().Parts(w.ctx, late.Org, late.ID, 0, 9)).is(w, nil)
			name.At = at(300)
			wantEqual(w, w.dueNames(late.Org), []object.Blob{name})
		},
	}.run(t, open)
}
