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

	"collab/app/objects"
	"collab/domain/id"
	"collab/domain/org"
)

// Retention is how long the log of changes is kept in the harness.
const Retention = 7 * 24 * time.Hour

// MaxSize is the limit of a file's content in the harness, in bytes.
const MaxSize = 1 << 20

// PartSize and MinAppend are those of resumable uploads here, in bytes.
const (
	PartSize  = 1000
	MinAppend = 100
)

// SendIdentityEvent delivers a message of the identity provider, a millisecond after all that
// was before it.
func (w *Deployment) SendIdentityEvent(ctx context.Context, kind string, data map[string]any) error {
	now := w.Clock.Advance(time.Millisecond)
	w.messages++
	message := fmt.Sprintf("msg_%06d", w.messages)
	body, err := json.Marshal(map[string]any{"object": "event", "type": kind, "timestamp": now.UnixMilli(), "data": data})
	if err != nil {
		return err
	}
	return w.Receive(ctx, message, body)
}

// Join sends the messages of the identity provider that make the user a member of the organisation, and returns the
// actor. It creates both on demand.
func (w *Deployment) Join(ctx context.Context, organisation, user string, role org.Role) (org.Actor, error) {
	at := w.Clock.Now().UnixMilli() + 1
	if err := w.SendIdentityEvent(ctx, "organizationMembership.created", map[string]any{
		"id": "orgmem_" + organisation + user, "role": "org:" + strings.ToLower(string(role)),
		"organization":     map[string]any{"id": organisation, "name": organisation, "slug": organisation, "created_at": 1, "updated_at": 1},
		"public_user_data": map[string]any{"user_id": user, "first_name": user, "last_name": nil, "identifier": user + "@example.com"},
		"created_at":       at, "updated_at": at,
	}); err != nil {
		return org.Actor{}, err
	}
	u, err := w.Store.Directory().Users().ByProvider(ctx, user)
	if err != nil {
		return org.Actor{}, err
	}
	o, err := w.Store.Directory().Organisations().ByProvider(ctx, organisation)
	if err != nil {
		return org.Actor{}, err
	}
	return w.Actor(ctx, o.ID, u.ID)
}

// Actor returns the actor of a member's request.
func (w *Deployment) Actor(ctx context.Context, o id.Org, u id.User) (org.Actor, error) {
	return w.Access.Reauthorize(ctx, org.Actor{Org: o, User: u})
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

// BlobNames returns the names of all blobs in the store.
func (w *Deployment) BlobNames(ctx context.Context) (map[string]bool, error) {
	kept := map[string]bool{}
	err := w.Blobs.List(ctx, func(name string, _ int64, _ time.Time) error {
		kept[name] = true
		return nil
	})
	return kept, err
}

// Read returns the whole content under a name.
func (w *Deployment) Read(ctx context.Context, name string) (string, error) {
	r, err := w.Blobs.Open(ctx, name, 0, -1)
	if err != nil {
		return "", err
	}
	defer r.Close()
	content, err := io.ReadAll(r)
	return string(content), err
}
