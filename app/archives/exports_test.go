package archives_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"maps"
	"testing"
	"testing/synctest"
	"time"

	"collab/app/archives"
	"collab/domain/archive"
	"collab/domain/export"
	"collab/domain/id"
	"collab/domain/object"
	"collab/domain/org"
	"collab/ports"
	"collab/test/harness"
	"collab/test/must"
)

func TestADeletedMembersArchivesAreDiscarded(t *testing.T) {
	d, ctx := must.Do(harness.NewDeployment(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))).Or(t), t.Context()
	d.Archives.Retention = 30 * 24 * time.Hour
	ada := must.Do(d.Join(ctx, "org_yard", "user_ada", org.Owner)).Or(t)
	ben := must.Do(d.Join(ctx, "org_yard", "user_ben", org.Owner)).Or(t)
	want, kept := map[id.Export]export.Status{}, map[string]bool{}
	start := func(actor org.Actor, then export.Status) id.Export {
		e := must.Do(d.Archives.Start(ctx, actor)).Or(t)
		want[e.ID] = then
		return e.ID
	}
	start(ada, export.Expired)
	must.NoError(t, d.Archives.MakeDue(ctx))
	others := start(ben, export.Ready)
	must.NoError(t, d.Archives.MakeDue(ctx))
	kept[must.Do(d.Store.Journal().Exports().Get(ctx, ben.Org, others)).Or(t).Blob] = true
	start(ada, export.Failed)

	must.NoError(t, d.SendIdentityEvent(ctx, "user.deleted", map[string]any{"id": "user_ada", "deleted": true}))
	must.NoError(t, d.Archives.MakeDue(ctx))
	is := map[id.Export]export.Status{}
	for _, e := range must.Do(d.Store.Journal().Exports().List(ctx, ada.Org)).Or(t) {
		is[e.ID] = e.Status(d.Clock.Now())
	}
	must.Equal(t, want, is)
	d.Clock.Advance(object.BlobGracePeriod + time.Millisecond)
	must.NoError(t, d.Upkeep.Run(ctx))
	if names := must.Do(d.BlobNames(ctx)).Or(t); !maps.Equal(names, kept) {
		t.Errorf("the store has %v, want %v", names, kept)
	}
}

// silentStore does not answer updates of exports while silent is set, until their contexts end.
type silentStore struct {
	ports.Store
	silent bool
}

func (s *silentStore) Journal() ports.Journal { return silentJournal{s.Store.Journal(), s} }

type silentJournal struct {
	ports.Journal
	of *silentStore
}

func (j silentJournal) Exports() ports.Exports { return silentExports{j.Journal.Exports(), j.of} }

type silentExports struct {
	ports.Exports
	of *silentStore
}

func (e silentExports) Update(ctx context.Context, o id.Org, of id.Export, fn func(export.Export) (export.Export, error)) (export.Export, error) {
	if e.of.silent {
		<-ctx.Done()
		return export.Export{}, ctx.Err()
	}
	return e.Exports.Update(ctx, o, of, fn)
}

// duringPut calls a function before each content is stored.
type duringPut struct {
	ports.Blobs
	call func()
}

func (b duringPut) Put(ctx context.Context, name, mimeType string, size int64, from io.Reader) error {
	b.call()
	return b.Blobs.Put(ctx, name, mimeType, size, from)
}

func TestAnExtensionWithoutAResponseEndsBeforeTheClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, ctx := must.Do(harness.NewDeployment(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))).Or(t), t.Context()
		ada := must.Do(d.Join(ctx, "org_yard", "user_ada", org.Owner)).Or(t)
		must.Do(d.Archives.Start(ctx, ada)).Or(t)
		store, extended := &silentStore{Store: d.Archives.Store}, false
		d.Archives.Store = store
		d.Archives.Blobs = duringPut{d.Archives.Blobs, func() {
			began := time.Now()
			store.silent = true
			if err := d.Archives.ExtendClaim(ctx); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) > export.ExtendEvery {
				t.Errorf("it ends after %v, error %v", time.Since(began), err)
			}
			store.silent, extended = false, true
		}}
		must.NoError(t, d.Archives.MakeDue(ctx))
		if !extended {
			t.Error("the claim was not extended")
		}
	})
}

// manyRecords reads archives with more records that are not imported.
type manyRecords struct {
	ports.Archiver
	more int
}

func (m manyRecords) Read(ctx context.Context, r io.Reader, only archive.Kind, each func(archive.Item) error) error {
	return m.Archiver.Read(ctx, r, only, func(i archive.Item) error {
		for n := 0; i.Record.Member != nil && n < m.more; n++ {
			if err := each(archive.Item{Location: archive.Location{Kind: archive.Usage, Line: int64(n + 1)}}); err != nil {
				return err
			}
		}
		return each(i)
	})
}

// lookups counts the uses of the directory in transactions.
type lookups struct {
	ports.Store
	n int
}

func (l *lookups) Atomic(ctx context.Context, fn func(ports.Records) error) error {
	return l.Store.Atomic(ctx, func(r ports.Records) error { return fn(countedRecords{r, l}) })
}

type countedRecords struct {
	ports.Records
	to *lookups
}

func (r countedRecords) Directory() ports.Directory {
	r.to.n++
	return r.Records.Directory()
}

func TestTheTransactionOfAnImportHasStatementsWhileItStoresNothing(t *testing.T) {
	d, ctx := must.Do(harness.NewDeployment(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))).Or(t), t.Context()
	ada := must.Do(d.Join(ctx, "org_yard", "user_ada", org.Owner)).Or(t)
	var file bytes.Buffer
	must.Do(d.Archives.Export(ctx, ada.Org, archive.All(), &file)).Or(t)
	counted, archiver := &lookups{Store: d.Archives.Store}, d.Archives.Archiver
	d.Archives.Store, d.Archives.Issuer = counted, "x"
	open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(file.Bytes())), nil }
	var used []int
	for _, name := range []string{"few", "many"} {
		counted.n = 0
		d.Archives.Archiver = manyRecords{archiver, map[string]int{"many": 5000}[name]}
		must.Do(d.Archives.Import(ctx, archives.Import{Open: open, Name: name, Slug: name, Users: map[id.User]string{ada.User: string(ada.User)}})).Or(t)
		used = append(used, counted.n)
	}
	must.Is(t, used[0]+10, used[1])
}
