package contract

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"pgregory.net/rapid"

	"collab/domain/id"
	"collab/domain/object"
	"collab/domain/org"
	"collab/ports"
	"collab/test/must"
)

// logModel is an organisation's log as its property knows it, with what it
// comes to.
type logModel struct {
	org   id.Org
	by    id.User
	log   []object.Change
	there map[id.Object]object.Object
}

// sinceProperty grows a log at random and compares Since with what the entries
// after a number come to.
func sinceProperty(w *fixture) {
	const back = 20 // entries before the head at most, from which on it is asked
	o := w.org().ID
	c := logModel{org: o, by: w.member(o, org.Owner).ID, there: map[id.Object]object.Object{}}
	rapid.Check(w.T, func(t *rapid.T) {
		made := c.draw(t)
		head, err := w.append(c.org, func(s ports.Storage) ([]object.Change, error) { return made, c.store(w, s, made) })
		if err != nil {
			t.Fatalf("%v: %v", made, err)
		}
		c.append(made)
		if head.N != int64(len(c.log)) {
			t.Fatalf("the head is %+v after %d changes", head, len(c.log))
		}
		after := head.N - int64(rapid.IntRange(0, min(back, len(c.log))).Draw(t, "back"))
		got := must.Do(w.since(c.org, after)).Or(t)
		if d := diff(got, c.since(head, after)); d != "" {
			t.Fatalf("since %d (-want +got):\n%s", after, d)
		}
	})
}

// draw makes the changes of one transaction. The objects of some are changed by
// others of them.
func (c logModel) draw(t *rapid.T) []object.Change {
	const most = 8 // objects
	there := maps.Clone(c.there)
	var made []object.Change
	for n := range rapid.IntRange(1, 6).Draw(t, "changes") {
		ids := slices.Sorted(maps.Keys(there))
		what := rapid.IntRange(0, 4).Draw(t, "what")
		switch {
		case what == 0:
			a := object.Audience{Everyone: rapid.Bool().Draw(t, "everyone"), Users: []id.User{c.by}}
			made = append(made, object.NewAccessChange(a, c.by, at(n)))
		case what == 1 && len(ids) < most || len(ids) == 0:
			v := someObject(c.org, blobCases, string(fresh[id.Object]()), c.by)
			there[v.ID] = v
			made = append(made, object.NewChange(v))
		case what == 2:
			v := there[rapid.SampledFrom(ids).Draw(t, "replaced")]
			v = v.WithContent(object.Content{Blob: v.BlobName(nextID())}, c.by, at(n))
			there[v.ID] = v
			made = append(made, object.NewChange(v))
		case what == 3:
			was := there[rapid.SampledFrom(ids).Draw(t, "moved")]
			v := was
			v.Path = string(fresh[id.Object]())
			v.Version++
			there[v.ID] = v
			made = append(made, object.NewMove(v, was.Path))
		default:
			v := there[rapid.SampledFrom(ids).Draw(t, "removed")]
			delete(there, v.ID)
			made = append(made, object.NewDeletion(v, c.by, at(n), &object.Audience{Managers: true}))
		}
	}
	return made
}

// store does to the objects what the changes say.
func (c logModel) store(w *fixture, s ports.Storage, made []object.Change) error {
	there := maps.Clone(c.there)
	for i, m := range made {
		v := m.Object
		_, old := there[v.ID]
		var err error
		switch {
		case m.Type == object.Deleted:
			err = s.Objects().Remove(w.ctx, c.org, []id.Object{v.ID})
		case m.Type == object.Changed && old:
			err = s.Objects().Put(w.ctx, c.org, v)
		case m.Type == object.Changed:
			there[v.ID] = v
			err = s.Objects().Add(w.ctx, c.org, v)
		}
		if err != nil {
			return fmt.Errorf("change %d: %w", i, err)
		}
	}
	return nil
}

// append adds the changes to the log, once they are committed.
func (c *logModel) append(made []object.Change) {
	for _, m := range made {
		m.N = int64(len(c.log)) + 1
		switch m.Type {
		case object.Changed:
			m.Object.N = m.N
			c.there[m.Object.ID] = m.Object
		case object.Deleted:
			delete(c.there, m.Object.ID) // its entry has the object as it was given
		}
		c.log = append(c.log, m)
	}
}

// since returns what Changes.Since must return.
func (c logModel) since(head object.Head, after int64) observed {
	s := observed{Head: head}
	for _, m := range c.log[after:] {
		switch m.Type {
		case object.AccessChanged:
			s.Regrouped = append(s.Regrouped, m)
		case object.Deleted:
			s.Deleted = append(s.Deleted, m)
		}
	}
	for _, v := range c.there {
		if v.N > after {
			s.Changed = append(s.Changed, present(v))
		}
	}
	slices.SortFunc(s.Changed, func(a, b object.Change) int { return cmp.Compare(a.N, b.N) })
	return s
}
