package gormdb

import (
	"context"
	"time"

	"collab/domain/id"
	"collab/domain/session"
	"collab/ports"
)

type deviceGrantRow struct {
	Code      string `gorm:"primaryKey"`
	Org       id.Org `gorm:"column:org_id;default:null"`
	UserCode  string `gorm:"<-:create"`
	Name      string
	Address   string
	UserAgent string
	Status    session.DeviceStatus
	User      id.User `gorm:"column:user_id;default:null"`
	PollEvery int64   // milliseconds
	PolledAt  *time.Time
	CreatedAt time.Time
	ExpiresAt time.Time
}

var deviceGrantTable = tenant[deviceGrantRow]("device_grants", "Device")

func rowOfDeviceGrant(g session.DeviceGrant) *deviceGrantRow {
	return &deviceGrantRow{
		Code: g.Code, Org: g.Org, UserCode: g.UserCode, Name: g.Name, Address: g.From.Address, UserAgent: g.From.UserAgent, Status: g.Status(),
		User: g.User, PollEvery: g.Interval.Milliseconds(), PolledAt: g.PolledAt, CreatedAt: g.CreatedAt, ExpiresAt: g.ExpiresAt,
	}
}

func (r *deviceGrantRow) grant() (session.DeviceGrant, error) {
	return session.DeviceGrant{
		Code: r.Code, Org: r.Org, UserCode: r.UserCode, Name: r.Name, From: session.Client{Address: r.Address, UserAgent: r.UserAgent},
		User: r.User, Interval: time.Duration(r.PollEvery) * time.Millisecond, PolledAt: r.PolledAt,
		CreatedAt: r.CreatedAt, ExpiresAt: r.ExpiresAt,
	}.Restore(r.Status), nil
}

type deviceGrants struct{ *conn }

func (g group) DeviceGrants() ports.DeviceGrants { return deviceGrants(g) }

func (q deviceGrants) rows() selection {
	return deviceGrantTable.crossTenant(q.write, crossTenantDeviceGrants)
}

func (q deviceGrants) Add(ctx context.Context, g session.DeviceGrant) error {
	return q.rows().add(ctx, rowOfDeviceGrant(g))
}

func (q deviceGrants) ByUserCode(ctx context.Context, digest string) (session.DeviceGrant, error) {
	return get(ctx, deviceGrantTable.crossTenant(q.read, crossTenantDeviceGrants).filter("user_code = ?", digest), (*deviceGrantRow).grant)
}

func (q deviceGrants) Update(
	ctx context.Context, digest string, fn func(session.DeviceGrant) (session.DeviceGrant, error),
) (session.DeviceGrant, error) {
	return update(ctx, q.conn, q.rows().key(digest), (*deviceGrantRow).grant, rowOfDeviceGrant, fn)
}

func (q deviceGrants) Prune(ctx context.Context, before time.Time) error {
	return q.rows().filter("expires_at < ?", before.UnixMilli()).delete(ctx)
}
