package ports

import "collab/domain/object"

// Bus tells every server of a deployment what has changed, as fast as it can
// and without promise: a hint may be lost, late, repeated or out of order. Who
// depends on it asks the store now and then as well.
type Bus interface {
	// Publish hands a hint over without waiting for anybody.
	Publish(h object.Hint)
	// Subscribe calls fn with the hints of all servers, this one's included, until
	// cancel was called and returned. Fn returns at once; it may be called by
	// several goroutines.
	Subscribe(fn func(object.Hint)) (cancel func(), err error)
}
