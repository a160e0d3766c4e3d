package gormdb

import (
	"context"

	"collab/domain/fault"
)

// upserted says how a kind of record is found by the provider's id and stored.
type upserted[R any] struct {
	what  string
	scan  func(scanner) (R, error)
	query string // finds the record by key
	key   string
	row   func(R) any
	where func(R) string // the record's id
	copy  func(R) R
}

// upsert finds the record by its key, or adds fresh, and stores what fn makes
// of it. Inside c, a transaction, the record is held against others.
func upsert[R any](ctx context.Context, c *conn, k upserted[R], fresh R, fn func(R) (R, error)) (R, error) {
	var none R
	there, found, err := row(ctx, c.write, k.what, k.scan, k.query+c.dialect.held(), k.key)
	if err != nil {
		return none, err
	}
	if !found {
		made, err := fn(k.copy(fresh))
		if err != nil {
			return none, err
		}
		tx := c.write.WithContext(ctx).Clauses(nothing).Create(k.row(made))
		if err := failed(ctx, tx.Error, k.what); err != nil {
			return none, err
		}
		if tx.RowsAffected == 1 {
			return k.copy(made), nil
		}
		// Another was faster, or the id is taken under another key.
		there, found, err = row(ctx, c.write, k.what, k.scan, k.query+c.dialect.held(), k.key)
		if err != nil {
			return none, err
		}
		if !found {
			return none, fault.New(fault.Conflict, "%s is there already", k.what)
		}
	}
	next, err := fn(k.copy(there))
	if err != nil {
		return none, err
	}
	tx := c.write.WithContext(ctx).Model(k.row(none)).Where("id = ?", k.where(there)).Select("*").Omit("id", "provider_id").Updates(k.row(next))
	if err := failed(ctx, tx.Error, k.what); err != nil {
		return none, err
	}
	return k.copy(next), nil
}
