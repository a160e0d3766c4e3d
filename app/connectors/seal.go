package connectors

import (
	"context"
	"errors"

	"collab/domain/connector"
	"collab/domain/fault"
	"collab/domain/id"
	"collab/ports"
)

// replaceCredentials replaces the credentials of an instance.
func (s *Connectors) replaceCredentials(ctx context.Context, r ports.Records, o id.Org, i id.Connector, c connector.Credentials) (connector.Instance, error) {
	current, err := r.Connections().Connectors().Update(ctx, o, i, func(i connector.Instance) (connector.Instance, error) {
		return i.Stored(c, s.Clock.Now())
	})
	if err != nil {
		return current, err
	}
	return current, s.sealCredentials(ctx, r, current, c)
}

// sealCredentials seals and stores credentials under the version of the instance.
func (s *Connectors) sealCredentials(ctx context.Context, r ports.Records, i connector.Instance, c connector.Credentials) error {
	sealed := connector.Sealed{Instance: i.ID, Version: i.Version}
	var err error
	if sealed.Entries, err = s.Sealer.Seal([]byte(c.Entries), connector.SealingContext(i.Org, i.ID, i.Version, connector.EntriesPart)); err != nil {
		return err
	}
	if c.Renewal != "" {
		if sealed.Renewal, err = s.Sealer.Seal([]byte(c.Renewal), connector.SealingContext(i.Org, i.ID, i.Version, connector.RenewalPart)); err != nil {
			return err
		}
	}
	return r.Connections().Credentials().Put(ctx, i.Org, sealed)
}

// openCredentials returns the credentials of an instance, whose lock r holds. Credentials that an old
// key sealed are sealed again with the present key. NotFound if there are none.
func (s *Connectors) openCredentials(ctx context.Context, r ports.Records, i connector.Instance) (connector.Credentials, error) {
	sealed, err := r.Connections().Credentials().Get(ctx, i.Org, i.ID)
	if err != nil {
		return connector.Credentials{}, err
	}
	c := connector.Credentials{Renewable: i.RenewAt != nil, ExpiresAt: i.ExpiresAt}
	entries, err := s.unseal(sealed.Entries, connector.SealingContext(i.Org, i.ID, i.Version, connector.EntriesPart))
	if err != nil {
		return connector.Credentials{}, err
	}
	c.Entries = string(entries)
	if len(sealed.Renewal) > 0 {
		renewal, err := s.unseal(sealed.Renewal, connector.SealingContext(i.Org, i.ID, i.Version, connector.RenewalPart))
		if err != nil {
			return connector.Credentials{}, err
		}
		c.Renewal = string(renewal)
	}
	if s.Sealer.OldKey(sealed.Entries) || len(sealed.Renewal) > 0 && s.Sealer.OldKey(sealed.Renewal) {
		return c, s.sealCredentials(ctx, r, i, c)
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

// lockInstance returns an instance, locked until the transaction ends.
func lockInstance(ctx context.Context, r ports.Records, o id.Org, i id.Connector) (connector.Instance, error) {
	return r.Connections().Connectors().Update(ctx, o, i, func(i connector.Instance) (connector.Instance, error) { return i, nil })
}

// readInstance returns an instance with its credentials of the same version; they are zero if there
// are none.
func (s *Connectors) readInstance(ctx context.Context, o id.Org, i id.Connector) (current connector.Instance, c connector.Credentials, err error) {
	err = s.Store.Atomic(ctx, func(r ports.Records) error {
		if current, err = lockInstance(ctx, r, o, i); err != nil {
			return err
		}
		if c = (connector.Credentials{}); current.Version == 0 {
			return nil
		}
		c, err = s.openCredentials(ctx, r, current)
		return err
	})
	return current, c, err
}
