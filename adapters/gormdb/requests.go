package gormdb

import (
	"context"
	"time"

	"collab/domain/id"
	"collab/ports"
)

type requestsRow struct {
	Org      id.Org    `gorm:"column:org_id;primaryKey"`
	Minute   time.Time `gorm:"primaryKey"`
	Requests int64
}

var requestsTable = tenant[requestsRow]("request_counts", "Requests")

var addRequests = requestsTable.insertRow + requestsTable.onConflictAdd("requests") + " RETURNING requests"

type requests struct{ *conn }

func (g group) Requests() ports.Requests { return requests(g) }

// Add is one statement, which does not wait for the disk on SQLite.
func (q requests) Add(ctx context.Context, o id.Org, minute time.Time, n int64) (sum int64, err error) {
	err = q.oneAsync(ctx, func(c *conn) error {
		row, s := requestsRow{Org: o, Minute: minute, Requests: n}, requestsTable.of(c.write, o)
		_, err := oneRow(ctx, c.write, s.what, s.newCommand(addRequests, bind(&row, s.table.fields, nil)), &sum)
		return err
	})
	return sum, err
}

func (q requests) Prune(ctx context.Context, before time.Time) error {
	return requestsTable.crossTenant(q.write, crossTenantRequests).filter("minute < ?", before.UnixMilli()).delete(ctx)
}
