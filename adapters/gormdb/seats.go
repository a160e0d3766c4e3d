package gormdb

import (
	"context"
	"time"

	"gorm.io/gorm"

	"collab/domain/id"
	"collab/domain/org"
	"collab/ports"
)

type seats struct{ *conn }

var _ ports.Seats = seats{}

// seatsRow is what one of the two tables has of an organisation.
type seatsRow struct {
	org id.Org
	org.Seats
}

func scanSeats(s scanner) (r seatsRow, err error) {
	err = s.Scan((*string)(&r.org), &r.Owners, &r.Members, &r.Pending)
	return r, err
}

// Count asks both tables in one statement, so that they answer for one moment.
func (q seats) Count(ctx context.Context, orgs []id.Org, now time.Time) (map[id.Org]org.Seats, error) {
	counted := make(map[id.Org]org.Seats, len(orgs))
	for _, o := range orgs {
		counted[o] = org.Seats{}
	}
	db, among, param, ok := q.among(orgs)
	if !ok {
		return counted, nil
	}
	return counted, each(ctx, db, "Organisation", scanSeats, func(r seatsRow) error {
		n := counted[r.org]
		counted[r.org] = org.Seats{Owners: n.Owners + r.Owners, Members: n.Members + r.Members, Pending: n.Pending + r.Pending}
		return nil
	}, "SELECT org_id, COUNT(*) FILTER (WHERE role = 'OWNER'), COUNT(*), 0 FROM memberships WHERE "+among+" AND removed_at IS NULL GROUP BY org_id"+
		" UNION ALL SELECT org_id, 0, 0, COUNT(*) FROM invitations WHERE "+among+" AND status = 'PENDING' AND expires_at > ? GROUP BY org_id",
		param, param, now.UnixMilli())
}

// among is the condition that a row is one of the organisations', with its
// parameter, on a connection that allows it; not ok when none of them can be
// there. One organisation is a condition like any other's, so that only several
// are excused.
func (c *conn) among(orgs []id.Org) (db *gorm.DB, condition, param string, ok bool) {
	switch known := ids(orgs); len(known) {
	case 0:
		return nil, "", "", false
	case 1:
		return c.read, "org_id = ?", string(known[0]), true
	default:
		return acrossOverview.on(c.read), c.dialect.in("org_id", "uuid"), list(c.dialect, known), true
	}
}
