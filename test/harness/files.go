package harness

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"collab/adapters/memory"
	"collab/adapters/standardwebhooks"
	"collab/app/access"
	"collab/app/members"
	"collab/app/objects"
	"collab/app/onboarding"
	"collab/app/teams"
	"collab/app/upkeep"
	"collab/app/webhooks"
	"collab/app/workspaces"
	"collab/domain/id"
	"collab/domain/org"
	"collab/ports"
)

// Retention is how long the log of changes reaches back here.
const Retention = 7 * 24 * time.Hour

// MaxSize is the largest content of a file here, in bytes.
const MaxSize = 1 << 20

// Files is the part of the core that has to do with files, over a line whose
// calls fail as planned. What a test looks at, it finds behind the line.
type Files struct {
	Line  *Line
	Store *memory.Store
	Blobs ports.Blobs
	Clock *memory.Clock
	IDs   *memory.IDs

	Objects    *objects.Objects
	Upkeep     *upkeep.Upkeep
	Access     *access.Access
	Teams      *teams.Teams
	Workspaces *workspaces.Workspaces
	Members    *members.Members
	Onboarding *onboarding.Onboarding
	Webhooks   *webhooks.Webhooks

	messages int
}

// NewFiles returns an empty core whose clock stands at the time.
func NewFiles(at time.Time) (*Files, error) {
	w, err := NewWorld(at)
	if err != nil {
		return nil, err
	}
	return &Files{
		Line: w.Line, Store: w.Store, Blobs: w.Blobs, Clock: w.Clock, IDs: w.IDs, Objects: w.Objects, Upkeep: w.Upkeep, Access: w.Access, Teams: w.Teams,
		Workspaces: w.Workspaces, Members: w.Members, Onboarding: w.Onboarding, Webhooks: w.Webhooks,
	}, nil
}

// Tell delivers a message of the identity provider, a moment after all that was
// before it.
func (f *Files) Tell(ctx context.Context, kind string, data map[string]any) error {
	now := f.Clock.Advance(time.Millisecond)
	f.messages++
	message := fmt.Sprintf("msg_%06d", f.messages)
	body, err := json.Marshal(map[string]any{"object": "event", "type": kind, "timestamp": now.UnixMilli(), "data": data})
	if err != nil {
		return err
	}
	signature, err := standardwebhooks.Sign(WebhookSecret, message, now, body)
	if err != nil {
		return err
	}
	headers := map[string]string{"svix-id": message, "svix-timestamp": fmt.Sprint(now.Unix()), "svix-signature": signature}
	return f.Webhooks.Identity(ctx, func(name string) string { return headers[name] }, body)
}

// Join has the provider say that the user is a member of the organisation, and
// returns their ids. Everything is made on demand.
func (f *Files) Join(ctx context.Context, organisation, user string, role org.Role) (org.Actor, error) {
	at := f.Clock.Now().UnixMilli() + 1
	if err := f.Tell(ctx, "organizationMembership.created", map[string]any{
		"id": "orgmem_" + organisation + user, "role": "org:" + strings.ToLower(string(role)),
		"organization":     map[string]any{"id": organisation, "name": organisation, "slug": organisation, "created_at": 1, "updated_at": 1},
		"public_user_data": map[string]any{"user_id": user, "first_name": user, "last_name": nil, "identifier": user + "@example.com"},
		"created_at":       at, "updated_at": at,
	}); err != nil {
		return org.Actor{}, err
	}
	u, err := f.Store.Directory().Users().ByProvider(ctx, user)
	if err != nil {
		return org.Actor{}, err
	}
	o, err := f.Store.Directory().Organisations().ByProvider(ctx, organisation)
	if err != nil {
		return org.Actor{}, err
	}
	return f.Actor(ctx, o.ID, u.ID)
}

// Actor returns a member as a request of theirs at this moment would have them.
func (f *Files) Actor(ctx context.Context, o id.Org, u id.User) (org.Actor, error) {
	return f.Access.Reauthorize(ctx, org.Actor{Org: o, User: u})
}

// Text is an upload of a text, as clients send small ones.
func Text(text string) *objects.Upload {
	return &objects.Upload{Content: strings.NewReader(text), Size: int64(len(text))}
}

// Checksum returns the SHA-256 of a text in the form in which it is kept.
func Checksum(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// Kept returns the names of all blobs in the store.
func (f *Files) Kept(ctx context.Context) (map[string]bool, error) {
	kept := map[string]bool{}
	err := f.Blobs.List(ctx, func(name string, _ int64, _ time.Time) error {
		kept[name] = true
		return nil
	})
	return kept, err
}

// Read returns the whole content under a name.
func (f *Files) Read(ctx context.Context, name string) (string, error) {
	r, err := f.Blobs.Open(ctx, name, 0, -1)
	if err != nil {
		return "", err
	}
	defer r.Close()
	content, err := io.ReadAll(r)
	return string(content), err
}
