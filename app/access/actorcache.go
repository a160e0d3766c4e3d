package access

import (
	"context"
	"sync"

	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/org"
	"collab/domain/team"
	"collab/ports"
)

// actorCache has, for each organisation at the latest epoch that was read, its teams and
// workspaces and the actors of its members. The members' visibilities share the structure,
// and nothing of an earlier epoch is kept. Beyond limit it evicts organisations in no order.
type actorCache struct {
	store ports.Store
	limit int // bytes

	mu      sync.Mutex
	loading map[orgEpoch]*cachedOrg // being read
	known   map[id.Org]*cachedOrg
	bytes   int // of known
}

// orgEpoch is an organisation at one of its epochs.
type orgEpoch struct {
	org   id.Org
	epoch int64
}

// cachedOrg has the structure of an organisation at an epoch, for the visibilities of all its members.
type cachedOrg struct {
	orgEpoch
	loaded chan struct{}

	// Written before loaded is closed.
	structure *org.Structure
	teams     []team.Ref // those of the structure, in its order
	err       error

	// Guarded by actorCache.mu.
	members map[id.User]cachedActor
	bytes   int
}

func newActorCache(store ports.Store, limit int) *actorCache {
	return &actorCache{store: store, limit: limit, loading: map[orgEpoch]*cachedOrg{}, known: map[id.Org]*cachedOrg{}}
}

// organisation returns the teams and workspaces of an organisation at the epoch or later;
// Forbidden if the organisation does not exist or is closed. Requests for the same epoch
// share one read, which does not end with the request that started it.
func (s *actorCache) organisation(ctx context.Context, o id.Org, epoch int64) (*cachedOrg, error) {
	key := orgEpoch{o, epoch}
	s.mu.Lock()
	found := s.known[o]
	if found == nil || found.epoch != epoch {
		found = s.loading[key]
	}
	first := found == nil
	if first {
		found = &cachedOrg{orgEpoch: key, loaded: make(chan struct{})}
		s.loading[key] = found
	}
	s.mu.Unlock()
	if first {
		s.load(context.WithoutCancel(ctx), found)
	}
	select {
	case <-found.loaded:
		return found, found.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// load reads the teams and workspaces, and caches them in place of older ones.
func (s *actorCache) load(ctx context.Context, l *cachedOrg) {
	defer close(l.loaded)
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.loading, l.orgEpoch)
		if was := s.known[l.org]; l.err != nil && !fault.Is(l.err, fault.Forbidden) || was != nil && was.epoch > l.epoch {
			return
		}
		s.forget(l.org)
		l.members = map[id.User]cachedActor{}
		s.known[l.org] = l
		bytes := 512 + 160*len(l.teams)
		if l.structure != nil {
			bytes += l.structure.Bytes()
		}
		s.grow(l, bytes)
	}()
	l.err = fault.New(fault.Unavailable, "The service cannot check memberships right now") // should the store panic
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	l.structure, l.teams, l.err = readStructure(ctx, s.store, l.org)
}

// readStructure returns the structure of an organisation and its teams, in the structure's order:
// Forbidden if the organisation does not exist or is closed.
func readStructure(ctx context.Context, r ports.Records, o id.Org) (*org.Structure, []team.Ref, error) {
	organisation, err := r.Directory().Organisations().Get(ctx, o)
	if fault.Is(err, fault.NotFound) || err == nil && organisation.Closed() {
		return nil, nil, notMember()
	}
	if err != nil {
		return nil, nil, err
	}
	teams, err := r.Work().Teams().Refs(ctx, o)
	if err != nil {
		return nil, nil, err
	}
	workspaces, err := r.Work().Workspaces().Refs(ctx, o)
	if err != nil {
		return nil, nil, err
	}
	ids := make([]id.Team, len(teams))
	for i, t := range teams {
		ids[i] = t.ID
	}
	return org.NewStructure(ids, func(yield func(id.Workspace, id.Team) bool) {
		for _, w := range workspaces {
			if !yield(w.ID, w.Team) {
				return
			}
		}
	}), teams, nil
}

// get returns the cached actor of a member.
func (s *actorCache) get(key memberKey) (cachedActor, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	in := s.known[key.org]
	if in == nil {
		return cachedActor{}, false
	}
	found, ok := in.members[key.user]
	return found, ok
}

// put caches the actor of a member, unless the cache has the organisation at another epoch.
func (s *actorCache) put(key memberKey, found cachedActor) {
	s.mu.Lock()
	defer s.mu.Unlock()
	in := s.known[key.org]
	if in == nil || in.epoch != found.epoch {
		return
	}
	bytes := found.bytes()
	if was, ok := in.members[key.user]; ok {
		bytes -= was.bytes()
	}
	in.members[key.user] = found
	s.grow(in, bytes)
}

// bytes estimates the memory that the cachedActor takes.
func (f cachedActor) bytes() int {
	if f.actor.Visibility == nil {
		return 512
	}
	return 512 + f.actor.Visibility.Bytes()
}

// grow adds bytes to the size of a cached organisation, and evicts others until the limit is
// kept; it evicts the organisation itself if it alone exceeds the limit.
func (s *actorCache) grow(in *cachedOrg, bytes int) {
	s.bytes += bytes
	in.bytes += bytes
	for o := range s.known {
		if s.bytes <= s.limit {
			return
		}
		if o != in.org {
			s.forget(o)
		}
	}
	if s.bytes > s.limit {
		s.forget(in.org)
	}
}

// forget evicts the organisation.
func (s *actorCache) forget(o id.Org) {
	if in := s.known[o]; in != nil {
		s.bytes -= in.bytes
		delete(s.known, o)
	}
}
