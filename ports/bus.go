package ports

import "collab/domain/object"

// Bus sends hints of changes to every server of a deployment. A hint may be lost, late,
// repeated or out of order, so subscribers also poll the store.
type Bus interface {
	// Publish sends a hint without waiting for its delivery.
	Publish(h object.Hint)
	// Subscribe calls fn with the hints of all servers, this one's included, until cancel
	// has returned. Fn must not block; several goroutines may call it.
	Subscribe(fn func(object.Hint)) (cancel func(), err error)
}
