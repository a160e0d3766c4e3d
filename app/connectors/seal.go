package connectors

import (
	"context"
	"errors"

	"collab/domain/connector"
	"collab/domain/fault"
	"collab/domain/id"
	"collab/ports"
)

// store replaces the credentials of an instance.
func (s *Connectors) store(ctx context.Context, r ports.Records, o id.Org, i id.Connector, c connector.Credentials) (connector.Instance, error) {
	now, err := r.Connections().Connectors().Update(ctx, o, i, func(i connector.Instance) (connector.Instance, error) {
		return i.Stored(c, s.Clock.Now())
	})
	if err != nil {
		return now, err
	}
	return now, s.put(ctx, r, now, c)
}

// put seals and stores credentials under the version of the instance.
func (s *Connectors) put(ctx context.Context, r ports.Records, i connector.Instance, c connector.Credentials) error {
	kept := connector.Sealed{Instance: i.ID, Version: i.Version}
	var err error
	if kept.Entries, err = s.Sealer.Seal([]byte(c.Entries), connector.SealingContext(i.Org, i.ID, i.Version, connector.EntriesPart)); err != nil {
		return err
	}
	if c.Renewal != "" {
		if kept.Renewal, err = s.Sealer.Seal([]byte(c.Renewal), connector.SealingContext(i.Org, i.ID, i.Version, connector.RenewalPart)); err != nil {
			return err
		}
	}
	return r.Connections().Credentials().Put(ctx, i.Org, kept)
}

// open returns the credentials of an instance, whose lock r holds. Credentials that an old
// key sealed are sealed again with the present key. NotFound if there are none.
func (s *Connectors) open(ctx context.Context, r ports.Records, i connector.Instance) (connector.Credentials, error) {
	kept, err := r.Connections().Credentials().Get(ctx, i.Org, i.ID)
	if err != nil {
		return connector.Credentials{}, err
	}
	c := connector.Credentials{Renewable: i.RenewAt != nil, ExpiresAt: i.ExpiresAt}
	entries, err := s.unseal(kept.Entries, connector.SealingContext(i.Org, i.ID, i.Version, connector.EntriesPart))
	if err != nil {
		return connector.Credentials{}, err
	}
	c.Entries = string(entries)
	if len(kept.Renewal) > 0 {
		renewal, err := s.unseal(kept.Renewal, connector.SealingContext(i.Org, i.ID, i.Version, connector.RenewalPart))
		if err != nil {
			return connector.Credentials{}, err
		}
		c.Renewal = string(renewal)
	}
	if s.Sealer.OldKey(kept.Entries) || len(kept.Renewal) > 0 && s.Sealer.OldKey(kept.Renewal) {
		return c, s.put(ctx, r, i, c)
	}
	return c, nil
}

// unseal opens stored data. Its error is Internal and wraps errUnreadable, because sealed
// data is never a client's input.
func (s *Connectors) unseal(sealed, bound []byte) ([]byte, error) {
	plain, err := s.Sealer.Open(sealed, bound)
	if err != nil {
		return nil, fault.Wrap(fault.Internal, errors.Join(errUnreadable, err), "The connector's stored data cannot be decrypted")
	}
	return plain, nil
}

var errUnreadable = errors.New("sealed with a key that is not known")

// isUnreadable reports whether err is of unseal.
func isUnreadable(err error) bool { return errors.Is(err, errUnreadable) }

// locked returns an instance, locked until the transaction ends.
func locked(ctx context.Context, r ports.Records, o id.Org, i id.Connector) (connector.Instance, error) {
	return r.Connections().Connectors().Update(ctx, o, i, func(i connector.Instance) (connector.Instance, error) { return i, nil })
}

// read returns an instance with its credentials of the same version; they are zero if there
// are none.
func (s *Connectors) read(ctx context.Context, o id.Org, i id.Connector) (now connector.Instance, c connector.Credentials, err error) {
	err = s.Store.Atomic(ctx, func(r ports.Records) error {
		if now, err = locked(ctx, r, o, i); err != nil {
			return err
		}
		if c = (connector.Credentials{}); now.Version == 0 {
			return nil
		}
		c, err = s.open(ctx, r, now)
		return err
	})
	return now, c, err
}
