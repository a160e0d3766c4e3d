package devidp_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"collab/adapters/devidp"
	"collab/test/forms"
	"collab/test/must"
)

func TestEvents(t *testing.T) {
	withProvider(t, "a first sign-in has events of user, organisation and membership in this order", func(t *testing.T, st *fixture) {
		c := st.signedIn(t, "email", "ada@example.com", "name", "Ada  King Lovelace", "org", "Engines")
		events := st.service.Take()
		if got := forms.Types(events); got != "user.created organization.created organizationMembership.created" {
			t.Fatalf("events: %s", got)
		}
		for i, e := range events {
			if e.Content.Object != "event" || e.Content.At != st.clock.Now().UnixMilli() || !strings.HasPrefix(e.Message, "msg_") || i > 0 && e.Message <= events[i-1].Message {
				t.Errorf("%s %s %d", e.Message, e.Content.Object, e.Content.At)
			}
		}
		user, org, member := events[0].Content.Data, events[1].Content.Data, events[2].Content.Data
		address := user["email_addresses"].([]any)[0].(map[string]any)
		if user["id"] != c.Subject || user["first_name"] != "Ada" || user["last_name"] != "King Lovelace" || user["image_url"] != c.Picture ||
			address["id"] != user["primary_email_address_id"] || address["email_address"] != "ada@example.com" {
			t.Errorf("user %v", user)
		}
		if org["id"] != c.Org.ID || org["name"] != "Engines" || org["slug"] != "engines" || org["created_by"] != c.Subject {
			t.Errorf("organisation %v", org)
		}
		person, inner := member["public_user_data"].(map[string]any), member["organization"].(map[string]any)
		if member["role"] != "org:owner" || !strings.HasPrefix(member["id"].(string), "orgmem_") || inner["id"] != c.Org.ID || inner["created_by"] != c.Subject ||
			person["user_id"] != c.Subject || person["identifier"] != "ada@example.com" || person["last_name"] != "King Lovelace" {
			t.Errorf("membership %v", member)
		}
		must.Is(t, st.clock.Now().UnixMilli(), int64(member["created_at"].(float64)))
	})
	withProvider(t, "the same sign-in again has no events", func(t *testing.T, st *fixture) {
		for range 2 {
			st.signedIn(t, "email", "ada@example.com", "name", "Ada", "org", "Engines")
		}
		st.service.Expect(t, "user.created organization.created organizationMembership.created")
	})
	withProvider(t, "another name has an event with its time", func(t *testing.T, st *fixture) {
		st.signedIn(t, "email", "ada@example.com", "name", "Ada")
		st.service.Take()
		st.clock.Advance(time.Hour)
		st.signedIn(t, "email", "ada@example.com", "name", "Augusta")
		events := st.service.Take()
		if forms.Types(events) != "user.updated" {
			t.Fatalf("events: %s", forms.Types(events))
		}
		user := events[0].Content.Data
		if user["first_name"] != "Augusta" || user["last_name"] != nil || user["updated_at"].(float64)-user["created_at"].(float64) != 3600_000 {
			t.Errorf("user %v", user)
		}
	})
	withProvider(t, "another role has an event with its time", func(t *testing.T, st *fixture) {
		st.signedIn(t, "email", "ada@example.com", "org", "Engines")
		st.service.Take()
		st.clock.Advance(time.Hour)
		if c := st.signedIn(t, "email", "ada@example.com", "org", "Engines", "role", "viewer"); c.Org.Role != "viewer" {
			t.Errorf("token says %+v", c.Org)
		}
		events := st.service.Take()
		if forms.Types(events) != "organizationMembership.updated" {
			t.Fatalf("events: %s", forms.Types(events))
		}
		m := events[0].Content.Data
		if m["role"] != "org:viewer" || m["updated_at"].(float64)-m["created_at"].(float64) != 3600_000 {
			t.Errorf("membership %v", m)
		}
	})
	withProvider(t, "an account with a lower role in a new organisation is not its creator", func(t *testing.T, st *fixture) {
		st.signedIn(t, "email", "ada@example.com", "org", "Engines", "role", "viewer")
		if _, ok := st.service.Take()[1].Content.Data["created_by"]; ok {
			t.Error("created_by is said")
		}
	})
	withProvider(t, "the sign-in works while the service is down, and its events follow with the same message ids", func(t *testing.T, st *fixture) {
		st.service.SetDown(true)
		st.signedIn(t, "email", "ada@example.com", "org", "Engines")
		st.signedIn(t, "email", "bob@example.com")
		must.Is(t, 3+4, st.service.Attempts())
		st.service.SetDown(false)
		st.signedIn(t, "email", "bob@example.com")
		events := st.service.Take()
		must.Is(t, "user.created organization.created organizationMembership.created user.created", forms.Types(events))
		if events[0].Message != "msg_00000000-0000-7000-8000-000000000001" {
			t.Errorf("the first is %s now", events[0].Message)
		}
		st.signedIn(t, "email", "bob@example.com")
		st.service.Expect(t, "")
	})
	t.Run("undelivered events survive a restart", func(t *testing.T) {
		directory := t.TempDir()
		st := newFixture(t, directory)
		st.service.SetDown(true)
		st.signedIn(t, "email", "ada@example.com")
		again := newFixture(t, directory)
		again.signedIn(t, "email", "ada@example.com")
		if got := again.service.Take(); forms.Types(got) != "user.created" || got[0].Message != "msg_00000000-0000-7000-8000-000000000001" {
			t.Errorf("events: %s", forms.Types(got))
		}
	})
	withProvider(t, "an event is dropped after eight attempts", func(t *testing.T, st *fixture) {
		st.service.SetDown(true)
		for range 12 {
			st.signedIn(t, "email", "ada@example.com")
		}
		must.Is(t, 8, st.service.Attempts())
	})
}

func TestInvitations(t *testing.T) {
	invite := func(orgID string) devidp.Invite {
		return devidp.Invite{Email: "Bob@example.com", OrgID: orgID, OrgName: "Engines", OrgSlug: "engines", Role: "VIEWER"}
	}
	t.Run("the page shows the invitation, and acceptance has events", func(t *testing.T) {
		st, b := newFixture(t, t.TempDir()), forms.New(t)
		org := st.signedIn(t, "email", "ada@example.com", "org", "Engines").Org.ID
		st.service.Take()
		i := invite(org)
		i.ProviderID, i.InviterID = "orginv_1", "user_1"
		st.invitations["t&1"] = i
		p := b.Open(st.provider.InviteURL("t&1"))
		p.Contains(t, "Bob@example.com", "Engines", "Viewer", `value="Bob"`)
		p = b.Submit(p, url.Values{"name": {"Bob Babbage"}})
		c := st.verify(t, textOf(t, p, "token"), "")
		if c.Email != "Bob@example.com" || c.Name != "Bob Babbage" || c.Org == nil || c.Org.ID != org || c.Org.Role != "viewer" {
			t.Errorf("token says %+v %+v", c, c.Org)
		}
		events := st.service.Take()
		if got := forms.Types(events); got != "user.created organizationMembership.created organizationInvitation.accepted" {
			t.Fatalf("events: %s", got)
		}
		m, accepted := events[1].Content.Data, events[2].Content.Data
		if m["role"] != "org:viewer" {
			t.Errorf("membership %v", m)
		}
		if accepted["id"] != "orginv_1" || accepted["email_address"] != "Bob@example.com" || accepted["role"] != "org:viewer" || accepted["organization_id"] != org ||
			accepted["user_id"] != c.Subject || accepted["status"] != "accepted" || accepted["inviter_id"] != "user_1" {
			t.Errorf("invitation %v", accepted)
		}
	})
	t.Run("an unknown organisation is created from the invitation", func(t *testing.T) {
		st, b := newFixture(t, t.TempDir()), forms.New(t)
		st.invitations["1"] = invite("org_elsewhere")
		p := b.Submit(b.Open(st.provider.InviteURL("1")), url.Values{"name": {"Bob"}})
		if c := st.verify(t, textOf(t, p, "token"), ""); c.Org.ID != "org_elsewhere" || c.Org.Slug != "engines" {
			t.Errorf("token says %+v", c.Org)
		}
		events := st.service.Take()
		must.Is(t, "user.created organizationMembership.created organizationInvitation.accepted", forms.Types(events))
		if id := events[2].Content.Data["id"].(string); !strings.HasPrefix(id, "orginv_") || len(id) != len("orginv_")+27 {
			t.Errorf("the invitation's id is %s", id)
		}
		if c := st.signedIn(t, "email", "ada@example.com", "org", "Engines"); c.Org.ID != "org_elsewhere" || c.Org.Role != "member" {
			t.Errorf("later its name means %+v", c.Org)
		}
	})
	t.Run("a member gets another event with the invited role", func(t *testing.T) {
		st, b := newFixture(t, t.TempDir()), forms.New(t)
		c := st.signedIn(t, "email", "bob@example.com", "name", "Robert", "org", "Engines", "role", "viewer")
		st.service.Take()
		st.clock.Advance(time.Hour)
		st.invitations["1"] = invite(c.Org.ID)
		p := b.Open(st.provider.InviteURL("1"))
		if !strings.Contains(p.Text, "Robert") || strings.Contains(p.Text, `name="name"`) {
			t.Errorf("the page does not know the account:\n%s", p.Text)
		}
		b.Submit(p, url.Values{})
		events := st.service.Take()
		if got := forms.Types(events); got != "organizationMembership.updated organizationInvitation.accepted" {
			t.Fatalf("events: %s", got)
		}
		if m := events[0].Content.Data; m["updated_at"].(float64) != float64(st.clock.Now().UnixMilli()) || m["role"] != "org:viewer" {
			t.Errorf("membership %v", m)
		}
	})
	t.Run("an invitation that is not pending is not found, before and after the page", func(t *testing.T) {
		st, b := newFixture(t, t.TempDir()), forms.New(t)
		if p := b.Open(st.provider.InviteURL("gone")); p.StatusCode != http.StatusNotFound || !strings.Contains(p.Text, "not valid any more") {
			t.Errorf("answered %s:\n%s", p.Status, p.Text)
		}
		st.invitations["1"] = invite("org_1")
		p := b.Open(st.provider.InviteURL("1"))
		delete(st.invitations, "1")
		b.Submit(p, url.Values{}).Expect(t, http.StatusNotFound)
		st.service.Expect(t, "")
	})
	t.Run("the page shows an invalid name", func(t *testing.T) {
		st, b := newFixture(t, t.TempDir()), forms.New(t)
		st.invitations["1"] = invite("org_1")
		p := b.Submit(b.Open(st.provider.InviteURL("1")), url.Values{"name": {strings.Repeat("x", 201)}})
		if p.StatusCode != http.StatusBadRequest || !strings.Contains(p.Text, "The name must be at most 200 characters.") {
			t.Errorf("answered %s:\n%s", p.Status, p.Text)
		}
	})
}
