package ports

import (
	"context"
	"time"

	"collab/domain/id"
	"collab/domain/invitation"
	"collab/domain/object"
	"collab/domain/org"
	"collab/domain/plan"
)

// Users holds the users of all organisations. The records of deleted users stay and are
// returned like others; callers check Deleted.
type Users interface {
	Get(ctx context.Context, user id.User) (org.User, error)

	// ByProvider finds the user by the identity provider's id, compared exactly.
	ByProvider(ctx context.Context, providerID string) (org.User, error)

	// Upsert finds the user with fresh.ProviderID, or takes fresh if there is none, and
	// stores and returns what fn returns for it. It locks the record until the transaction
	// ends. Fn must keep ID and ProviderID.
	Upsert(ctx context.Context, fresh org.User, fn func(org.User) (org.User, error)) (org.User, error)

	// Profile returns the user's membership in the organisation with both, all in one snapshot;
	// NotFound if there is no membership.
	Profile(ctx context.Context, o id.Org, user id.User) (org.Profile, org.Organisation, error)

	// Memberships lists the user's memberships in all organisations, removed ones
	// included, the most recently used first (UsedAt, then JoinedAt, then Org,
	// all descending).
	Memberships(ctx context.Context, user id.User) ([]org.Membership, error)

	// Former calls each with the removed members whose user id is after one, and their users, by
	// user id, at most limit; 0: all. An error of each ends the list and is returned.
	Former(ctx context.Context, o id.Org, after id.User, limit int, each func(org.Profile) error) error
}

// Organisations holds the tenants themselves.
type Organisations interface {
	Get(ctx context.Context, o id.Org) (org.Organisation, error)

	// ByProvider finds the organisation by the identity provider's id.
	ByProvider(ctx context.Context, providerID string) (org.Organisation, error)

	// Upsert is to organisations what Users.Upsert is to users.
	Upsert(ctx context.Context, fresh org.Organisation, fn func(org.Organisation) (org.Organisation, error)) (org.Organisation, error)

	// Lock locks the organisation against every other Lock until the transaction ends,
	// returns it, and increments its epoch when the transaction commits (see Epochs).
	// Every change of an organisation's members, or of what they see, takes this lock
	// first. Outside Atomic it fails.
	Lock(ctx context.Context, o id.Org) (org.Organisation, error)

	// List returns the selected organisations in the order of their ids. A search finds one by its id
	// wherever it is, and by its name among the first f.ExamineLimit.
	List(ctx context.Context, f org.Filter) ([]org.Organisation, error)

	// Erase removes records of the organisation and returns how many: its connectors, and then about limit
	// others. If no more are left, which fewer than limit say, it replaces the organisation's own by
	// org.Organisation.Erased at now. The names of its blobs stay and are discarded at now
	// unless they are discarded already.
	Erase(ctx context.Context, o id.Org, now time.Time, limit int) (int, error)
}

// Epochs reads whether cached records of organisations are current.
type Epochs interface {
	// Epochs returns the present epochs of those of the organisations that exist. It sees
	// every transaction that was committed before it was called.
	Epochs(ctx context.Context, orgs []id.Org) (map[id.Org]int64, error)
	// Marks returns the present marks of those of the organisations that exist, each read
	// in one snapshot. It sees what Epochs sees.
	Marks(ctx context.Context, orgs []id.Org) (map[id.Org]org.Mark, error)
	// Cached returns what Marks would return for an organisation, and false if that is not in memory.
	Cached(o id.Org) (org.Mark, bool)
	// Entries is Changes.List with the organisation's epoch, which includes every
	// transaction that was committed before one of the entries. NotFound for an
	// organisation that does not exist.
	Entries(ctx context.Context, o id.Org, after int64, limit int) (entries []object.Change, epoch int64, err error)
}

// Members holds memberships. The records of removed ones stay and are returned by Get and Users.Former only.
type Members interface {
	Get(ctx context.Context, o id.Org, user id.User) (org.Membership, error)

	// GetLocked is Get that inside Atomic locks the membership until the transaction ends.
	GetLocked(ctx context.Context, o id.Org, user id.User) (org.Membership, error)

	// Put adds or replaces the membership. The caller holds the organisation's Lock,
	// unless it changes only UsedAt or the end of onboarding.
	Put(ctx context.Context, o id.Org, m org.Membership) error

	// List calls each with the active members that f selects and their users, by JoinedAt, then
	// user id. Members with the words are read in several parts, each as it is then; a list with
	// words must not be asked of the collections that Store.At returned. An error of each ends the
	// list and is returned.
	List(ctx context.Context, o id.Org, f org.MemberFilter, each func(org.Profile) error) error

	// ByEmail reports whether an active member has the address, compared without
	// regard to case.
	ByEmail(ctx context.Context, o id.Org, email string) (bool, error)

	// Epoch returns the organisation's epoch (see Epochs) as the transaction sees it, which
	// is one greater if the transaction holds the organisation's Lock. Without the Lock it
	// sees every transaction that was committed before it was called.
	Epoch(ctx context.Context, o id.Org) (int64, error)
}

// Seats counts members and invitations of organisations.
type Seats interface {
	// Count returns the seats of each of the organisations, with the invitations that are
	// pending and not expired at now; all zero for one that does not exist. The numbers of
	// an organisation are read in one snapshot. A caller that decides by them holds its
	// Lock.
	Count(ctx context.Context, orgs []id.Org, now time.Time) (map[id.Org]org.Seats, error)
}

// Invitations holds invitations in every state, revoked ones included.
type Invitations interface {
	Get(ctx context.Context, o id.Org, i id.Invitation) (invitation.Invitation, error)

	// ByProvider finds an invitation by the identity provider's id.
	ByProvider(ctx context.Context, o id.Org, providerID string) (invitation.Invitation, error)

	// ByToken finds the invitation, of any organisation, by the SHA-256 of its token,
	// because an invited person presents nothing else.
	ByToken(ctx context.Context, tokenHash string) (invitation.Invitation, error)

	// List calls each with the invitations that are pending and not expired at now, by
	// CreatedAt, then id; after and limit page it, zero values mean from the start and
	// all. An error of each ends the list and is returned.
	List(ctx context.Context, o id.Org, now time.Time, after id.Position[id.Invitation], limit int, each func(invitation.Invitation) error) error

	// Pending returns those of List that are for the address, compared without regard
	// to case.
	Pending(ctx context.Context, o id.Org, email string, now time.Time) ([]invitation.Invitation, error)

	// Put adds or replaces the invitation, under the organisation's Lock.
	// Conflict when ProviderID is set and another invitation has it.
	Put(ctx context.Context, o id.Org, i invitation.Invitation) error
}

// InvitationSets changes invitations that are over.
type InvitationSets interface {
	// Forget removes an address, compared without regard to case, from the organisation's accepted
	// invitations. The caller holds the organisation's Lock.
	Forget(ctx context.Context, o id.Org, email string) error

	// Sweep removes at most limit invitations of all organisations, in any state, that expired
	// before the time and whose Seen is from before it, and returns how many.
	Sweep(ctx context.Context, before time.Time, limit int) (int, error)
}

// Subscriptions holds each organisation's subscription.
type Subscriptions interface {
	// Get returns plan.Unsubscribed for an organisation that never had one.
	Get(ctx context.Context, o id.Org) (plan.Subscription, error)

	// Of is Get for each of the organisations.
	Of(ctx context.Context, orgs []id.Org) (map[id.Org]plan.Subscription, error)

	// Put adds or replaces the subscription, under the organisation's Lock, with a
	// Revision one greater than that of s. Conflict when the Customer is another
	// organisation's.
	Put(ctx context.Context, o id.Org, s plan.Subscription) error

	// ByCustomer finds the organisation by its id at the payment provider.
	ByCustomer(ctx context.Context, customer string) (id.Org, error)

	// Due returns at most limit organisations whose subscription is due at now (see
	// plan.Subscription.Due), those due for longest first.
	Due(ctx context.Context, now time.Time, limit int) ([]id.Org, error)
}
