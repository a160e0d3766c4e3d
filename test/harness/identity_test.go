package harness_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/invitation"
	"collab/domain/org"
	"collab/ports"
	"collab/test/harness"
	"collab/test/must"
)

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

type object map[string]any

// message is one event of the provider, with the id that its copies share.
type message struct {
	id   string
	body []byte
}

const organisation = "org_1"

// anyMessage draws an event about one organisation, a few users and a few
// invitations, at one of a few instants, so that many collide.
func anyMessage(t *rapid.T, id string) message {
	at := start.Add(time.Duration(rapid.IntRange(0, 6).Draw(t, "at")) * time.Second).UnixMilli()
	user := rapid.SampledFrom([]string{"user_1", "user_2", "user_3"}).Draw(t, "user")
	name := func(label string) string { return rapid.SampledFrom([]string{"A", "B", "C"}).Draw(t, label) }
	role := rapid.SampledFrom([]string{"org:admin", "org:member", "viewer", "org:owner", "odd"}).Draw(t, "role")
	embedded := object{"id": organisation, "name": name("org"), "slug": name("slug")}
	if rapid.Bool().Draw(t, "dated") {
		embedded["updated_at"] = start.Add(time.Duration(rapid.IntRange(0, 6).Draw(t, "org at")) * time.Second).UnixMilli()
	}
	if rapid.Bool().Draw(t, "says who made it") {
		embedded["created_by"] = rapid.SampledFrom([]string{"user_1", "user_2"}).Draw(t, "maker")
	}
	kind := rapid.SampledFrom([]string{
		"user.created", "user.updated", "user.deleted",
		"organization.created", "organization.updated", "organization.deleted",
		"organizationMembership.created", "organizationMembership.updated", "organizationMembership.deleted",
		"organizationMembership.created", "organizationMembership.updated",
		"organizationInvitation.created", "organizationInvitation.accepted", "organizationInvitation.revoked",
		"session.created",
	}).Draw(t, "type")
	var data object
	switch kind {
	case "user.created", "user.updated":
		data = object{
			"id": user, "first_name": name("first"), "last_name": nil, "updated_at": at,
			"email_addresses": []object{{"id": "e", "email_address": name("email") + "@example.com"}}, "primary_email_address_id": "e",
		}
	case "user.deleted":
		data = object{"id": user, "deleted": true}
	case "organization.deleted":
		data = object{"id": organisation, "deleted": true}
	case "organization.created", "organization.updated":
		data = embedded
		data["updated_at"] = at
	case "organizationInvitation.created", "organizationInvitation.accepted", "organizationInvitation.revoked":
		i := rapid.IntRange(1, 3).Draw(t, "invitation")
		data = object{
			"id": fmt.Sprintf("orginv_%d", i), "email_address": fmt.Sprintf("guest%d@example.com", i%2), "role": "org:member",
			"organization_id": organisation, "inviter_id": "user_1", "created_at": start.UnixMilli(), "updated_at": at,
		}
	case "session.created":
		data = object{"id": "sess_1"}
	default:
		data = object{
			"id": "orgmem_" + user, "role": role, "organization": embedded, "created_at": start.UnixMilli(), "updated_at": at,
			"public_user_data": object{"user_id": user, "first_name": name("first"), "last_name": nil, "identifier": name("identifier") + "@example.com"},
		}
	}
	sent := at
	if kind == "organizationMembership.deleted" {
		sent += int64(rapid.IntRange(0, 6).Draw(t, "ended after")) * 1000
	}
	body := must.Do(json.Marshal(object{"object": "event", "type": kind, "timestamp": sent, "data": data})).Or(t)
	return message{id, body}
}

// view is what the outside can see of the organisation, by the provider's ids.
type view struct {
	Users       map[string]string
	Name, Slug  string
	Creator     string
	Closed      bool
	Members     map[string]string
	Former      map[string]time.Time
	Invitations map[string]string
}

func look(t *rapid.T, c *harness.Deployment) view {
	ctx := context.Background()
	dir := c.Store.Directory()
	v := view{Users: map[string]string{}, Members: map[string]string{}, Former: map[string]time.Time{}, Invitations: map[string]string{}}
	for _, p := range []string{"user_1", "user_2", "user_3"} {
		u, err := dir.Users().ByProvider(ctx, p)
		switch {
		case fault.Is(err, fault.NotFound):
		case err != nil:
			t.Fatal(err)
		default:
			v.Users[p] = fmt.Sprintf("%s <%s> deleted=%v", u.Name, u.Email, u.Deleted())
		}
	}
	o, err := dir.Organisations().ByProvider(ctx, organisation)
	if fault.Is(err, fault.NotFound) {
		return v
	}
	must.NoError(t, err)
	if v.Closed = o.Closed(); v.Closed {
		return v // which has no members and no invitations
	}
	v.Name, v.Slug, v.Creator = o.Name, o.Slug, o.CreatedBy
	must.NoError(t, dir.Members().List(ctx, o.ID, org.MemberFilter{}, func(p org.Profile) error {
		v.Members[p.Person.ProviderID] = fmt.Sprint(p.Role, p.JoinedAt)
		return nil
	}))
	must.NoError(t, dir.Users().Former(ctx, o.ID, "", 0, func(p org.Profile) error {
		if !p.Person.Deleted() { // whose later messages are ignored
			v.Former[p.Person.ProviderID] = *p.RemovedAt
		}
		return nil
	}))
	for i := 1; i <= 3; i++ {
		provider := fmt.Sprintf("orginv_%d", i)
		found, err := dir.Invitations().ByProvider(ctx, o.ID, provider)
		switch {
		case fault.Is(err, fault.NotFound):
		case err != nil:
			t.Fatal(err)
		case found.Status(c.Clock.Now()) != invitation.Revoked:
			v.Invitations[provider] = fmt.Sprint(found.Email, found.Role, found.Status(c.Clock.Now()))
		}
	}
	return v
}

// deliver sends the messages in an order of their own, some of them several
// times.
func deliver(t *rapid.T, label string, messages []message) view {
	c := must.Do(harness.NewDeployment(start.Add(time.Hour))).Or(t)
	sent := append([]message(nil), messages...)
	for range rapid.IntRange(0, 4).Draw(t, label+" copies") {
		sent = append(sent, rapid.SampledFrom(messages).Draw(t, label+" copy"))
	}
	for _, m := range rapid.Permutation(sent).Draw(t, label) {
		if err := c.Receive(context.Background(), m.id, m.body); err != nil {
			t.Fatalf("%s: %v", m.body, err)
		}
	}
	return look(t, c)
}

func TestIdentityEventsInAnyOrderEndInOneState(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var messages []message
		for i := range rapid.IntRange(1, 12).Draw(t, "messages") {
			messages = append(messages, anyMessage(t, fmt.Sprintf("msg_%02d", i)))
		}
		must.Equal(t, deliver(t, "one order", messages), deliver(t, "another order", messages))
	})
}

func TestTheCreatorOfAnOrganisationIsAnOwner(t *testing.T) {
	c, ctx := core(t), t.Context()
	first := must.Do(c.Join(ctx, "org_office", "user_first", org.Member)).Or(t)
	second := must.Do(c.Join(ctx, "org_office", "user_second", org.Member)).Or(t)
	for _, of := range []struct{ creator, first, second string }{{"user_first", "OWNER", "MEMBER"}, {"user_second", "MEMBER", "OWNER"}, {"nobody", "MEMBER", "MEMBER"}} {
		must.NoError(t, c.SendIdentityEvent(ctx, "organization.updated", object{"id": "org_office", "created_by": of.creator, "updated_at": c.Clock.Now().UnixMilli() + 1}))
		for user, want := range map[id.User]string{first.User: of.first, second.User: of.second} {
			must.Equal(t, org.Role(want), must.Do(c.Actor(ctx, first.Org, user)).Or(t).Role)
		}
	}
}

func TestAcceptedInvitationsForgetADeletedUser(t *testing.T) {
	c, ctx := core(t), t.Context()
	ada := newOrganisation(t, c)
	invitations := c.Store.Directory().Invitations()
	accept := func(providerID, email string) {
		must.NoError(t, c.SendIdentityEvent(ctx, "organizationInvitation.accepted", object{
			"id": providerID, "email_address": email, "role": "org:member", "organization_id": "org_office", "updated_at": c.Clock.Now().UnixMilli(),
		}))
	}
	accept("orginv_grace", "Grace@example.com")
	accept("orginv_other", "other@example.com")
	must.Do(c.Join(ctx, "org_office", "user_grace", org.Member)).Or(t)
	must.NoError(t, c.SendIdentityEvent(ctx, "user.updated", object{
		"id": "user_grace", "email_addresses": []object{{"id": "e", "email_address": "grace@example.com"}}, "primary_email_address_id": "e", "updated_at": c.Clock.Now().UnixMilli(),
	}))
	must.NoError(t, c.SendIdentityEvent(ctx, "user.deleted", object{"id": "user_grace", "deleted": true}))
	for providerID, want := range map[string]string{"orginv_grace": "", "orginv_other": "other@example.com"} {
		i := must.Do(invitations.ByProvider(ctx, ada.Org, providerID)).Or(t)
		if i.Email != want || i.StoredStatus() != invitation.Accepted {
			t.Errorf("%s is %s of %q, want %q", providerID, i.StoredStatus(), i.Email, want)
		}
	}
}

// lockingStore records which organisations its transactions lock, in their order.
type (
	lockingStore struct {
		ports.Store
		locked *[]id.Org
	}
	lockingRecords struct {
		ports.Records
		locked *[]id.Org
	}
	lockingDirectory struct {
		ports.Directory
		locked *[]id.Org
	}
	lockingOrganisations struct {
		ports.Organisations
		locked *[]id.Org
	}
)

func (s lockingStore) Atomic(ctx context.Context, fn func(ports.Records) error) error {
	return s.Store.Atomic(ctx, func(r ports.Records) error { return fn(lockingRecords{r, s.locked}) })
}

func (r lockingRecords) Directory() ports.Directory {
	return lockingDirectory{r.Records.Directory(), r.locked}
}

func (d lockingDirectory) Organisations() ports.Organisations {
	return lockingOrganisations{d.Directory.Organisations(), d.locked}
}

func (o lockingOrganisations) Lock(ctx context.Context, of id.Org) (org.Organisation, error) {
	if !slices.Contains(*o.locked, of) {
		*o.locked = append(*o.locked, of)
	}
	return o.Organisations.Lock(ctx, of)
}

func TestADeletedUsersOrganisationsAreLockedInOrder(t *testing.T) {
	c, ctx := core(t), t.Context()
	first := must.Do(c.Join(ctx, "org_first", "user_grace", org.Member)).Or(t)
	second := must.Do(c.Join(ctx, "org_second", "user_grace", org.Member)).Or(t)
	must.NoError(t, c.SendIdentityEvent(ctx, "organizationMembership.deleted", object{
		"organization": object{"id": "org_first"}, "public_user_data": object{"user_id": "user_grace"},
	}))
	var locked []id.Org
	c.Webhooks.Store = lockingStore{c.Webhooks.Store, &locked}
	must.NoError(t, c.SendIdentityEvent(ctx, "user.deleted", object{"id": "user_grace", "deleted": true}))
	must.Equal(t, []id.Org{first.Org, second.Org}, locked)
}

// TestTheEndOfAnEarlierInvitationIsKept has the end of an invitation arrive before its creation, beside a later one of the
// address.
func TestTheEndOfAnEarlierInvitationIsKept(t *testing.T) {
	c, ctx := core(t), t.Context()
	ada := newOrganisation(t, c)
	created := c.Clock.Now()
	tell := func(kind string, at time.Time) {
		must.NoError(t, c.SendIdentityEvent(ctx, "organizationInvitation."+kind, object{
			"id": "orginv_grace", "email_address": "grace@example.com", "role": "org:member", "organization_id": "org_office",
			"created_at": created.UnixMilli(), "updated_at": at.UnixMilli(),
		}))
	}
	c.Clock.Advance(time.Hour)
	later := must.Do(c.Members.Invite(ctx, ada, "grace@example.com", "MEMBER")).Or(t)
	tell("revoked", created.Add(time.Minute))
	must.NoError(t, c.Members.DeleteInvitation(ctx, ada, later.ID))
	tell("created", created)
	must.Equal(t, invitation.Revoked, must.Do(c.Store.Directory().Invitations().ByProvider(ctx, ada.Org, "orginv_grace")).Or(t).StoredStatus())
}
