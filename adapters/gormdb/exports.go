package gormdb

import (
	"context"
	"time"

	"collab/domain/export"
	"collab/domain/id"
	"collab/ports"
)

type exportRow struct {
	OrgID      id.Org    `gorm:"primaryKey"`
	ID         id.Export `gorm:"primaryKey"`
	UserID     id.User   `gorm:"<-:create"`
	Status     export.Status
	CreatedAt  time.Time `gorm:"<-:create"`
	Claim      string    `gorm:"default:null"`
	DueAt      *time.Time
	Attempts   int
	Progress   progressFields `gorm:"embedded"`
	Blob       string         `gorm:"default:null"`
	Size       int64
	FinishedAt *time.Time
	ExpiresAt  *time.Time
	Error      string
}

// progressFields are those of export.Progress.
type progressFields struct {
	Records int64
	Files   int64
	Done    int64 `gorm:"column:files_done"`
	Bytes   int64
}

var exportTable = tenant[exportRow]("exports", "Export")

func rowOfExport(e export.Export) *exportRow {
	return &exportRow{
		OrgID: e.Org, ID: e.ID, UserID: e.User, Status: e.StoredStatus(), CreatedAt: e.CreatedAt,
		Claim: e.Claim, DueAt: e.DueAt, Attempts: e.Attempts,
		Progress: progressFields(e.Progress), Blob: e.Blob, Size: e.Size, FinishedAt: e.FinishedAt, ExpiresAt: e.ExpiresAt, Error: e.Error,
	}
}

func (r *exportRow) export() (export.Export, error) {
	return export.Export{
		ID: r.ID, Org: r.OrgID, User: r.UserID, CreatedAt: r.CreatedAt, Claim: r.Claim, DueAt: r.DueAt, Attempts: r.Attempts,
		Progress: export.Progress(r.Progress), Blob: r.Blob, Size: r.Size, FinishedAt: r.FinishedAt, ExpiresAt: r.ExpiresAt, Error: r.Error,
	}.Restore(r.Status), nil
}

type exports struct{ *conn }

func (g group) Exports() ports.Exports { return exports(g) }

// Add leaves it to a unique index that one export of an organisation is open.
func (q exports) Add(ctx context.Context, o id.Org, e export.Export) error {
	return exportTable.of(q.write, o).add(ctx, rowOfExport(e))
}

func (q exports) Get(ctx context.Context, o id.Org, exportID id.Export) (export.Export, error) {
	return get(ctx, exportTable.of(q.read, o).key(string(exportID)), (*exportRow).export)
}

func (q exports) List(ctx context.Context, o id.Org) ([]export.Export, error) {
	return all(ctx, exportTable.of(q.read, o).page("created_at DESC, id DESC", 0), (*exportRow).export)
}

func (q exports) Update(
	ctx context.Context, o id.Org, exportID id.Export, fn func(export.Export) (export.Export, error),
) (export.Export, error) {
	return update(ctx, q.conn, exportTable.of(q.write, o).key(string(exportID)), (*exportRow).export, rowOfExport, fn)
}

func (q exports) Claim(ctx context.Context, now time.Time, fn func(export.Export) (export.Export, error)) (export.Export, error) {
	return atomically(ctx, q.conn, func(c *conn) (export.Export, error) {
		due, err := lockDue(ctx, exportTable.crossTenant(c.write, crossTenantDue), (*exportRow).export, now, nil)
		if err != nil {
			return due, err
		}
		return exports{c}.Update(ctx, due.Org, due.ID, fn)
	})
}

func (q exports) Prune(ctx context.Context, before time.Time) error {
	return exportTable.crossTenant(q.write, crossTenantDue).filter("due_at IS NULL AND created_at < ?", before.UnixMilli()).delete(ctx)
}
