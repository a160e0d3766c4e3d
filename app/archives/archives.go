// Package archives exports organisations as archives and imports them.
package archives

import (
	"context"
	"io"
	"time"

	"collab/domain/archive"
	"collab/domain/audit"
	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/object"
	"collab/domain/org"
	"collab/ports"
)

// Options has the dependencies and settings of Archives.
type Options struct {
	Store     ports.Store
	Snapshots ports.Snapshots
	Blobs     ports.Blobs
	Archiver  ports.Archiver
	Clock     ports.Clock
	IDs       ports.IDs
	Secrets   ports.Secrets
	Version   string // of the program
	Issuer    string // of the identity provider
	MaxSize   int64  // of the content of a file that is imported, in bytes

	// Exports that members ask for need these as well.
	Signed    ports.SignedBlobs // nil: the store gives out no addresses
	Retention time.Duration     // how long an archive is kept
	Locked    func(context.Context, org.Actor, func(ports.Records, org.Actor) error) error
	Origin    func(context.Context) audit.Origin
}

// Archives are the use cases of archives.
type Archives struct {
	Options
	running running
}

func New(o Options) *Archives { return &Archives{Options: o} }

// findPage is how many organisations Find reads at a time.
const findPage = 500

// Find returns the organisation with the id, or the only one with the slug, that is not closed.
func (a *Archives) Find(ctx context.Context, name string) (org.Organisation, error) {
	all := a.Store.Directory().Organisations()
	if o, ok := id.Parse[id.Org](name); ok {
		organisation, err := all.Get(ctx, o)
		if err == nil && organisation.Closed() {
			err = fault.Missing("Organisation")
		}
		return organisation, err
	}
	var found []org.Organisation
	for after := id.Org(""); ; {
		page, err := all.List(ctx, org.Filter{After: after, Limit: findPage})
		if err != nil {
			return org.Organisation{}, err
		}
		for _, o := range page {
			if o.Slug == name && !o.Closed() {
				found = append(found, o)
			}
		}
		if len(page) < findPage {
			break
		}
		after = page[len(page)-1].ID
	}
	switch len(found) {
	case 0:
		return org.Organisation{}, fault.Missing("Organisation")
	case 1:
		return found[0], nil
	}
	return org.Organisation{}, fault.New(fault.Conflict, "%d organisations have the slug %s: name the id, such as %s", len(found), name, found[0].ID)
}

// Export writes the selected records of an organisation, and the content of its files, to w.
// The content of files that are deleted or replaced meanwhile stays in the store for object.BlobGracePeriod; an
// export that takes longer may fail.
func (a *Archives) Export(ctx context.Context, o id.Org, s *archive.Selection, w io.Writer) (archive.Manifest, error) {
	return a.exportTo(ctx, o, s, w, func(archive.Record) {}, func(int64, int64) {})
}

// exportTo is Export that calls read with each record, and progress after each content.
func (a *Archives) exportTo(
	ctx context.Context, o id.Org, s *archive.Selection, w io.Writer, read func(archive.Record),
	progress func(contents, bytes int64),
) (archive.Manifest, error) {
	m := archive.Manifest{Organisation: o, CreatedAt: a.Clock.Now(), Version: a.Version, Issuer: a.Issuer, Member: s.Member()}
	records := func(each func(archive.Record) error) error {
		return a.Snapshots.Export(ctx, o, func(r archive.Record) error {
			if !s.Includes(r) {
				return nil
			}
			read(r)
			return each(r)
		})
	}
	return a.Archiver.Pack(ctx, w, m, records, func(ctx context.Context, v object.Object) (io.ReadCloser, error) {
		r, err := a.Blobs.Open(ctx, v.Blob, 0, -1)
		if fault.Is(err, fault.NotFound) {
			err = fault.Wrap(fault.Unavailable, err, "The store does not have the content of the file %s: export again", v.ID)
		}
		return r, err
	}, progress)
}
