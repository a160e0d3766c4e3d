package contract

import (
	"errors"
	"testing"

	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/object"
	"collab/ports"
)

// Storage is the suite of what ports.Storage does by itself.
func Storage(t *testing.T, open func(t *testing.T) Opened) {
	suite{
		"what is replaced is stored, logged and let go of": func(w *world) {
			tn := w.tenant()
			for n, was := range []object.Object{tn.shelf, tn.drawer} {
				c := w.successor(was)
				head := that(w.store.Storage().Replace(w.ctx, tn.ID, was.Content, c)).must(w)
				same(w, head, object.Head{Epoch: head.Epoch, N: int64(n + 3)})
				same(w, w.head(tn.ID), head)
				c.N, c.Object.N = head.N, head.N
				that(w.objects().Get(w.ctx, tn.ID, was.ID)).is(w, c.Object)
				that(w.objects().At(w.ctx, tn.ID, was.StorageKey())).is(w, c.Object)
				that(w.changes().List(w.ctx, tn.ID, head.N-1, 10)).is(w, []object.Change{c})
				w.known(map[string]bool{was.Blob: true, c.Object.Blob: true})
				same(w, w.due(tn.ID)[n], object.Blob{Org: tn.ID, Name: w.due(tn.ID)[n].Name, Discarded: true, At: c.At})
			}
			for _, b := range w.due(tn.ID) {
				if b.Name != tn.shelf.Blob && b.Name != tn.drawer.Blob {
					w.Errorf("%+v is to be removed", b)
				}
			}
		},
		"a change by nobody is stored as one": func(w *world) {
			tn := w.tenant()
			c := w.successor(tn.shelf)
			c.By = ""
			c.N = that(w.store.Storage().Replace(w.ctx, tn.ID, tn.shelf.Content, c)).must(w).N
			c.Object.N = c.N
			that(w.changes().List(w.ctx, tn.ID, c.N-1, 10)).is(w, []object.Change{c})
		},
		"what is not as it should be is a conflict and changes nothing": func(w *world) {
			tn, other := w.tenant(), w.tenant()
			gone := w.file(someObject(tn.ID, object.Place{Kind: object.Template, Scope: object.Shared}, "gone.md", tn.owner.ID))
			w.logged(tn.ID, func(s ports.Storage) ([]object.Change, error) {
				return []object.Change{object.NewDeletion(gone, tn.owner.ID, at(80), nil)}, s.Objects().Remove(w.ctx, tn.ID, []id.Object{gone.ID})
			})
			unannounced := w.successor(tn.shelf)
			w.ok(w.blobNames().Forget(w.ctx, object.Blob{Org: tn.ID, Name: unannounced.Object.Blob}))
			discarded := w.successor(tn.shelf)
			w.ok(w.blobNames().Discard(w.ctx, tn.ID, []string{discarded.Object.Blob}, at(81)))
			theirs := w.successor(other.shelf)
			stolen := w.successor(tn.shelf)
			stolen.Object.Blob = theirs.Object.Blob
			for about, try := range map[string]struct {
				in  id.Org
				was object.Object
				c   object.Change
			}{
				"it names another blob":                      {tn.ID, tn.drawer, w.successor(tn.shelf)},
				"it is not there any more":                   {tn.ID, gone, w.successor(gone)},
				"the name is not announced":                  {tn.ID, tn.shelf, unannounced},
				"the name is discarded":                      {tn.ID, tn.shelf, discarded},
				"the name is another organisation's":         {tn.ID, tn.shelf, stolen},
				"the object is another organisation's":       {tn.ID, other.shelf, theirs},
				"the organisation is another":                {other.ID, tn.shelf, w.successor(tn.shelf)},
				"there is no such organisation":              {fresh[id.Org](), tn.shelf, w.successor(tn.shelf)},
				"it names another blob, and the name is new": {tn.ID, tn.drawer, unannounced},
			} {
				was, wasTheirs, names, theirNames := w.content(tn), w.content(other), w.due(tn.ID), w.due(other.ID)
				head, err := w.store.Storage().Replace(w.ctx, try.in, try.was.Content, try.c)
				if !fault.Is(err, fault.Conflict) {
					w.Errorf("%s: %+v, %v", about, head, err)
				}
				same(w, w.content(tn), was)
				same(w, w.content(other), wasTheirs)
				same(w, w.due(tn.ID), names)
				same(w, w.due(other.ID), theirNames)
			}
		},
		"of many at once one replaces": func(w *world) {
			tn := w.tenant()
			made := make([]object.Change, concurrent)
			for i := range made {
				made[i] = w.successor(tn.shelf)
			}
			winner := w.oneWins(together(concurrent, func(i int) error {
				_, err := w.store.Storage().Replace(w.ctx, tn.ID, tn.shelf.Content, made[i])
				return err
			}), fault.Conflict)
			c := made[winner]
			c.N, c.Object.N = 3, 3
			same(w, w.log(tn.ID)[2:], []object.Change{c})
			that(w.objects().Get(w.ctx, tn.ID, tn.shelf.ID)).is(w, c.Object)
		},
		"many replace many at once, among others that append, and the log has all without gaps": func(w *world) {
			tn := w.tenant()
			var all []object.Object
			for i := range concurrent {
				all = append(all, w.file(someObject(tn.ID, object.Place{Kind: object.Template, Scope: object.Shared}, string(rune('a'+i))+".md", tn.owner.ID)))
			}
			from := w.head(tn.ID).N
			w.allOK(together(2*concurrent, func(i int) error {
				if i < concurrent {
					_, err := w.store.Storage().Replace(w.ctx, tn.ID, all[i].Content, w.successor(all[i]))
					return err
				}
				_, err := w.append(tn.ID, func(ports.Storage) ([]object.Change, error) {
					return []object.Change{object.NewAccessChange(object.Audience{Everyone: true}, "", at(90))}, nil
				})
				return err
			}))
			log := w.log(tn.ID)[from:]
			same(w, w.head(tn.ID).N, from+2*concurrent)
			same(w, len(log), 2*concurrent)
			there := folded(log, from+2*concurrent)
			for i, c := range log {
				same(w, c.N, from+int64(i)+1)
			}
			for _, v := range all {
				that(w.objects().Get(w.ctx, tn.ID, v.ID)).is(w, there[v.ID])
			}
		},
		"in a transaction it is a part of it": func(w *world) {
			tn := w.tenant()
			c, second := w.successor(tn.shelf), w.successor(tn.drawer)
			was, names := w.content(tn), w.due(tn.ID)
			both := func(r ports.Records) error {
				_, err := r.Storage().Replace(w.ctx, tn.ID, tn.shelf.Content, c)
				_, conflict := r.Storage().Replace(w.ctx, tn.ID, tn.shelf.Content, second)
				if !fault.Is(conflict, fault.Conflict) {
					w.Errorf("the second ended with %v", conflict)
				}
				_, err2 := r.Storage().Replace(w.ctx, tn.ID, tn.drawer.Content, second)
				return errors.Join(err, err2)
			}
			w.undone(both)
			same(w, w.content(tn), was)
			same(w, w.due(tn.ID), names)
			w.atomic(both)
			c.N, c.Object.N, second.N, second.Object.N = 3, 3, 4, 4
			same(w, w.log(tn.ID)[2:], []object.Change{c, second})
		},
	}.run(t, open)
}

// successor is the change to the object's next version, whose blob is announced.
func (w *world) successor(was object.Object) object.Change {
	w.Helper()
	next := was
	next.MimeType, next.Version, next.UpdatedBy, next.UpdatedAt = "text/x-\"next\"", was.Version+1, fresh[id.User](), at(95)
	next.Content = object.Content{Blob: was.BlobName(nextID()), Size: 7, Checksum: was.Checksum, Text: false}
	w.ok(w.blobNames().Announce(w.ctx, was.Org, next.Blob, at(94)))
	return object.NewChange(next)
}
