package contract

import (
	"errors"
	"testing"

	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/object"
	"collab/domain/plan"
	"collab/ports"
	"collab/test/must"
)

// Storage is the suite of what ports.Storage does by itself.
func Storage(t *testing.T, open func(t *testing.T) Opened) {
	suite{
		"replace stores the object, appends the change and discards the previous blob": func(w *fixture) {
			tn := w.tenant()
			epoch := w.epoch(tn.ID)
			for n, was := range []object.Object{tn.sharedObject, tn.personalObject} {
				c := w.successor(was)
				head := must.Do(w.Storage.Replace(w.ctx, tn.ID, unlimited(c, was.Content, epoch))).Or(w)
				wantEqual(w, head, object.Head{Epoch: head.Epoch, N: int64(n + 3)})
				wantEqual(w, w.head(tn.ID), head)
				c.N, c.Object.N = head.N, head.N
				resultOf(w.Objects().Get(w.ctx, tn.ID, was.ID)).is(w, c.Object)
				resultOf(w.Objects().At(w.ctx, tn.ID, was.StorageKey())).is(w, c.Object)
				resultOf(w.Changes().List(w.ctx, tn.ID, head.N-1, 10)).is(w, []object.Change{c})
				w.wantKnown(map[string]bool{was.Blob: true, c.Object.Blob: true})
				discarded := w.dueNames(tn.ID)[n]
				wantEqual(w, discarded, object.Blob{Org: tn.ID, Name: discarded.Name, Discarded: true, At: c.At})
			}
			for _, b := range w.dueNames(tn.ID) {
				if b.Name != tn.sharedObject.Blob && b.Name != tn.personalObject.Blob {
					w.Errorf("%+v is to be removed", b)
				}
			}
		},
		"an unexpected state is a conflict and changes nothing": func(w *fixture) {
			tn, other := w.tenant(), w.tenant()
			gone := w.addObject(someObject(tn.ID, object.Place{Kind: object.Template, Scope: object.Shared}, "gone.md", tn.owner.ID))
			w.logged(tn.ID, func(s ports.Storage) ([]object.Change, error) {
				return []object.Change{object.NewDeletion(gone, tn.owner.ID, at(80), nil)}, s.Objects().Remove(w.ctx, tn.ID, []id.Object{gone.ID})
			})
			unannounced := w.successor(tn.sharedObject)
			w.ok(w.BlobNames().Forget(w.ctx, object.Blob{Org: tn.ID, Name: unannounced.Object.Blob}))
			discarded := w.successor(tn.sharedObject)
			w.ok(w.BlobNames().Discard(w.ctx, tn.ID, []string{discarded.Object.Blob}, at(81)))
			theirs := w.successor(other.sharedObject)
			stolen := w.successor(tn.sharedObject)
			stolen.Object.Blob = theirs.Object.Blob
			for about, try := range map[string]struct {
				in    id.Org
				was   object.Object
				c     object.Change
				epoch int64
			}{
				"it names another blob":                      {tn.ID, tn.personalObject, w.successor(tn.sharedObject), w.epoch(tn.ID)},
				"it is not there any more":                   {tn.ID, gone, w.successor(gone), w.epoch(tn.ID)},
				"the name is not announced":                  {tn.ID, tn.sharedObject, unannounced, w.epoch(tn.ID)},
				"the name is discarded":                      {tn.ID, tn.sharedObject, discarded, w.epoch(tn.ID)},
				"the name is another organisation's":         {tn.ID, tn.sharedObject, stolen, w.epoch(tn.ID)},
				"the object is another organisation's":       {tn.ID, other.sharedObject, theirs, w.epoch(tn.ID)},
				"the organisation is another":                {other.ID, tn.sharedObject, w.successor(tn.sharedObject), w.epoch(other.ID)},
				"there is no such organisation":              {fresh[id.Org](), tn.sharedObject, w.successor(tn.sharedObject), 0},
				"the epoch is another":                       {tn.ID, tn.sharedObject, w.successor(tn.sharedObject), w.epoch(tn.ID) + 1},
				"the epoch is past":                          {tn.ID, tn.sharedObject, w.successor(tn.sharedObject), w.epoch(tn.ID) - 1},
				"it names another blob, and the name is new": {tn.ID, tn.personalObject, unannounced, w.epoch(tn.ID)},
			} {
				was, wasTheirs, names, theirNames := w.content(tn), w.content(other), w.dueNames(tn.ID), w.dueNames(other.ID)
				head, err := w.Storage.Replace(w.ctx, try.in, unlimited(try.c, try.was.Content, try.epoch))
				if !fault.Is(err, fault.Conflict) {
					w.Errorf("%s: %+v, %v", about, head, err)
				}
				wantEqual(w, w.content(tn), was)
				wantEqual(w, w.content(other), wasTheirs)
				wantEqual(w, w.dueNames(tn.ID), names)
				wantEqual(w, w.dueNames(other.ID), theirNames)
			}
		},
		"an object that has moved is not replaced, although its content is the same": func(w *fixture) {
			tn := w.tenant()
			late := w.successor(tn.sharedObject)
			moved := w.moved(tn.sharedObject, "elsewhere.md")
			was := w.content(tn)
			resultOf(w.Storage.Replace(w.ctx, tn.ID, unlimited(late, tn.sharedObject.Content, w.epoch(tn.ID)))).wantConflict(w)
			wantEqual(w, w.content(tn), was)
			resultOf(w.Objects().Get(w.ctx, tn.ID, moved.ID)).is(w, moved)
		},
		"concurrent replacements and appends leave a log without gaps": func(w *fixture) {
			tn := w.tenant()
			epoch := w.epoch(tn.ID)
			var all []object.Object
			for i := range concurrent {
				all = append(all, w.addObject(someObject(tn.ID, object.Place{Kind: object.Template, Scope: object.Shared}, string(rune('a'+i))+".md", tn.owner.ID)))
			}
			from := w.head(tn.ID).N
			w.allOK(concurrently(2*concurrent, func(i int) error {
				if i < concurrent {
					return must.ErrorOf(w.Storage.Replace(w.ctx, tn.ID, unlimited(w.successor(all[i]), all[i].Content, epoch)))
				}
				return must.ErrorOf(w.append(tn.ID, appends(object.NewAccessChange(object.Audience{Everyone: true}, "", at(90)))))
			}))
			log := w.log(tn.ID)[from:]
			wantEqual(w, w.head(tn.ID).N, from+2*concurrent)
			wantEqual(w, len(log), 2*concurrent)
			there := folded(log, from+2*concurrent)
			for i, c := range log {
				wantEqual(w, c.N, from+int64(i)+1)
			}
			for _, v := range all {
				resultOf(w.Objects().Get(w.ctx, tn.ID, v.ID)).is(w, there[v.ID])
			}
		},
		"replace is part of a transaction": func(w *fixture) {
			tn := w.tenant()
			c, second := w.successor(tn.sharedObject), w.successor(tn.personalObject)
			was, names, epoch := w.content(tn), w.dueNames(tn.ID), w.epoch(tn.ID)
			both := func(r ports.Records) error {
				_, err := r.Storage().Replace(w.ctx, tn.ID, unlimited(c, tn.sharedObject.Content, epoch))
				_, conflict := r.Storage().Replace(w.ctx, tn.ID, unlimited(second, tn.sharedObject.Content, epoch))
				if !fault.Is(conflict, fault.Conflict) {
					w.Errorf("the second ended with %v", conflict)
				}
				_, err2 := r.Storage().Replace(w.ctx, tn.ID, unlimited(second, tn.personalObject.Content, epoch))
				return errors.Join(err, err2)
			}
			w.rolledBack(both)
			wantEqual(w, w.content(tn), was)
			wantEqual(w, w.dueNames(tn.ID), names)
			w.atomic(both)
			c.N, c.Object.N, second.N, second.Object.N = 3, 3, 4, 4
			wantEqual(w, w.log(tn.ID)[2:], []object.Change{c, second})
		},
	}.run(t, open)
}

// unlimited returns a replacement that has no limit and keeps no earlier version.
func unlimited(c object.Change, previous object.Content, epoch int64) object.Replacement {
	return object.Replacement{Change: c, Previous: previous, Epoch: epoch, Limit: plan.Unlimited}
}

// keeping returns a replacement that keeps earlier versions.
func keeping(keep object.Retention, r object.Replacement) object.Replacement {
	r.Keep = keep
	return r
}

// successor is the change to the object's next version, whose blob is announced.
func (w *fixture) successor(was object.Object) object.Change {
	w.Helper()
	next := was
	next.MimeType, next.Version, next.UpdatedBy, next.UpdatedAt = "text/x-\"next\"", was.Version+1, fresh[id.User](), at(95)
	next.Content = object.Content{Blob: was.BlobName(nextID()), Size: 7, Checksum: was.Checksum, Text: false}
	w.ok(w.BlobNames().Announce(w.ctx, was.Org, next.Blob, 0, at(94)))
	return object.NewChange(next)
}
