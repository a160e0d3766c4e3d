package standardwebhooks_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"collab/domain/fault"
	"collab/domain/identity"
	"collab/test/must"
)

const (
	organizationJSON = `{"object":"organization","id":"org_1","name":"Analytical Engines","slug":"engines","image_url":"https://img.example.com/o","has_image":true,
		"members_count":2,"pending_invitations_count":0,"max_allowed_memberships":5,"admin_delete_enabled":true,"public_metadata":{},"private_metadata":{},
		"created_by":"user_2","created_at":1716880000000,"updated_at":1716882000123}`
	userJSON = `{"object":"user","id":"user_1","username":null,"first_name":"Ada","last_name":"Lovelace","image_url":"https://img.example.com/u","has_image":true,
		"primary_email_address_id":"idn_2","primary_phone_number_id":null,"email_addresses":[
			{"object":"email_address","id":"idn_1","email_address":"old@example.com","verification":{"status":"verified","strategy":"email_code"},"linked_to":[]},
			{"object":"email_address","id":"idn_2","email_address":"Ada@Example.com","verification":null,"linked_to":[]}],
		"banned":false,"locked":false,"public_metadata":{},"created_at":1716881000000,"updated_at":1716883199500}`
	membershipJSON = `{"object":"organization_membership","id":"orgmem_1","role":"org:admin","role_name":"Admin","permissions":["org:sys_profile:manage"],
		"public_metadata":{},"private_metadata":{},"organization":` + organizationJSON + `,
		"public_user_data":{"user_id":"user_1","first_name":"Ada","last_name":null,"profile_image_url":"https://img.example.com/u","image_url":"https://img.example.com/u",
			"has_image":true,"identifier":"ada@example.com"},"created_at":1716881000000,"updated_at":1716883100000}`
	invitationJSON = `{"object":"organization_invitation","id":"orginv_1","email_address":"Grace@example.com","role":"org:member","role_name":"Member",
		"organization_id":"org_1","inviter_id":"user_2","status":"pending","public_metadata":{},"private_metadata":{},
		"url":"https://accounts.example.com/accept-invitation?token=abc","public_organization_data":{"id":"org_1","name":"Analytical Engines","slug":"engines"},
		"user_id":"user_3","expires_at":1719475200000,"created_at":1716883000000,"updated_at":1716883150000}`
)

const envelopeSeconds = 1716883200

func event(kind, data string) string {
	return fmt.Sprintf(`{"object":"event","type":%q,"instance_id":"ins_1","timestamp":%d,
		"event_attributes":{"http_request":{"client_ip":"192.0.2.1","user_agent":"Mozilla/5.0"}},"data":%s}`, kind, envelopeSeconds, data)
}

// read signs and reads the body shortly after the time of its envelope.
func read(t testing.TB, body string) (identity.Event, error) {
	t.Helper()
	now := time.Unix(envelopeSeconds+7, 0)
	return newEvents(t, now, vectorSecret).Read(signed(t, vectorSecret, "msg_1", now, body).get, []byte(body))
}

func milli(n int64) time.Time { return time.UnixMilli(n).UTC() }

func TestEveryTypeOfEventIsTranslated(t *testing.T) {
	var (
		ada    = identity.UserData{ProviderID: "user_1", Name: "Ada Lovelace", Email: "Ada@Example.com", AvatarURL: "https://img.example.com/u"}
		member = identity.UserData{ProviderID: "user_1", Name: "Ada", Email: "ada@example.com", AvatarURL: "https://img.example.com/u"}
		stamp  = func(at int64, rank int) identity.Stamp {
			return identity.Stamp{At: milli(at), Rank: rank, Message: "msg_1"}
		}
		engines  = identity.OrgData{ProviderID: "org_1", Name: "Analytical Engines", Slug: "engines", CreatedBy: "user_2"}
		place    = identity.MemberData{Role: "org:admin", JoinedAt: milli(1716881000000)}
		invited  = identity.InvitationData{ProviderID: "orginv_1", Email: "Grace@example.com", Role: "org:member", InvitedBy: "user_2"}
		envelope = int64(envelopeSeconds * 1000)
		ended    = identity.MemberData{Role: "org:admin", JoinedAt: milli(1716881000000), EndedAt: milli(envelope)}
		seen     = func(o identity.OrgData, s identity.Stamp) identity.OrgData { o.Stamp = s; return o }
		named    = identity.OrgData{ProviderID: "org_1", Name: "Analytical Engines", Slug: "engines"}
	)
	for _, c := range []struct {
		kind, data string
		want       identity.Event
	}{
		{"user.created", userJSON, identity.Event{Kind: identity.UserChanged, Stamp: stamp(1716883199500, identity.RankCreated), User: ada}},
		{"user.updated", userJSON, identity.Event{Kind: identity.UserChanged, Stamp: stamp(1716883199500, identity.RankUpdated), User: ada}},
		{"user.deleted", `{"object":"user","id":"user_1","deleted":true}`, identity.Event{Kind: identity.UserDeleted,
			Stamp: stamp(envelope, identity.RankEnded), User: identity.UserData{ProviderID: "user_1"}}},
		{"organization.created", organizationJSON, identity.Event{Kind: identity.OrgChanged, Stamp: stamp(1716882000123, identity.RankCreated),
			Org: seen(engines, stamp(1716882000123, identity.RankCreated))}},
		{"organization.updated", organizationJSON, identity.Event{Kind: identity.OrgChanged, Stamp: stamp(1716882000123, identity.RankUpdated),
			Org: seen(engines, stamp(1716882000123, identity.RankUpdated))}},
		{"organization.deleted", `{"object":"organization","id":"org_1","slug":"engines","deleted":true}`, identity.Event{Kind: identity.OrgDeleted,
			Stamp: stamp(envelope, identity.RankEnded), Org: identity.OrgData{ProviderID: "org_1", Slug: "engines", Stamp: stamp(envelope, identity.RankEnded)}}},
		{"organizationMembership.created", membershipJSON, identity.Event{Kind: identity.MemberChanged, Stamp: stamp(1716883100000, identity.RankCreated),
			User: member, Org: seen(engines, stamp(1716882000123, 0)), Member: place}},
		{"organizationMembership.updated", membershipJSON, identity.Event{Kind: identity.MemberChanged, Stamp: stamp(1716883100000, identity.RankUpdated),
			User: member, Org: seen(engines, stamp(1716882000123, 0)), Member: place}},
		{"organizationMembership.deleted", membershipJSON, identity.Event{Kind: identity.MemberRemoved, Stamp: stamp(1716883100000, identity.RankEnded),
			User: member, Org: seen(engines, stamp(1716882000123, 0)), Member: ended}},
		{"organizationInvitation.created", invitationJSON, identity.Event{Kind: identity.InvitationCreated, Stamp: stamp(1716883150000, identity.RankCreated),
			Org: seen(named, stamp(1716883150000, identity.RankCreated)), Invitation: invited}},
		{"organizationInvitation.accepted", invitationJSON, identity.Event{Kind: identity.InvitationAccepted, Stamp: stamp(1716883150000, identity.RankEnded),
			Org: seen(named, stamp(1716883150000, identity.RankEnded)), Invitation: invited}},
		{"organizationInvitation.revoked", invitationJSON, identity.Event{Kind: identity.InvitationRevoked, Stamp: stamp(1716883150000, identity.RankEnded),
			Org: seen(named, stamp(1716883150000, identity.RankEnded)), Invitation: invited}},
		{"session.created", `{"object":"session","id":"sess_1"}`, identity.Event{Kind: identity.Other, Stamp: stamp(envelope, 0)}},
		{"organizationDomain.created", `"not even an object"`, identity.Event{Kind: identity.Other, Stamp: stamp(envelope, 0)}},
	} {
		t.Run(c.kind, func(t *testing.T) {
			c.want.Message = "msg_1"
			got := must.Do(read(t, event(c.kind, c.data))).Or(t)
			must.Equal(t, c.want, got)
		})
	}
}

func TestTheTimeOfAnEventIsOfTheRecordEnvelopeOrHeader(t *testing.T) {
	for name, c := range map[string]struct {
		body string
		want time.Time
	}{
		"the record's, in milliseconds":     {`{"type":"user.updated","timestamp":1716883200,"data":{"id":"u","updated_at":1716883199500}}`, milli(1716883199500)},
		"the record's, in seconds":          {`{"type":"user.updated","timestamp":1716883200,"data":{"id":"u","updated_at":1716883199}}`, milli(1716883199000)},
		"the envelope's, in seconds":        {`{"type":"user.updated","timestamp":1716883200,"data":{"id":"u"}}`, milli(1716883200000)},
		"the envelope's, in milliseconds":   {`{"type":"user.updated","timestamp":1716883200456,"data":{"id":"u","updated_at":null}}`, milli(1716883200456)},
		"the envelope's, with a fraction":   {`{"type":"user.updated","timestamp":1716883200.25,"data":{"id":"u","updated_at":0}}`, milli(1716883200250)},
		"the header's, without any":         {`{"type":"user.updated","data":{"id":"u"}}`, milli((envelopeSeconds + 7) * 1000)},
		"the header's, with senseless":      {`{"type":"user.updated","timestamp":"soon","data":{"id":"u","updated_at":-5}}`, milli((envelopeSeconds + 7) * 1000)},
		"the header's, with unwritable":     {`{"type":"user.updated","timestamp":1e300,"data":{"id":"u","updated_at":253402300800000}}`, milli((envelopeSeconds + 7) * 1000)},
		"the record's, at the calendar end": {`{"type":"user.updated","data":{"id":"u","updated_at":253402300799999}}`, milli(253402300799999)},
	} {
		got, err := read(t, c.body)
		if err != nil || got.Stamp.At != c.want {
			t.Errorf("%s: got %v, %v, want %v", name, got.Stamp.At, err, c.want)
		}
	}
}

func TestAMembershipWithoutAnOrganisationTimeHasTheEventTime(t *testing.T) {
	got, err := read(t, event("organizationMembership.updated", strings.Replace(membershipJSON, `,"updated_at":1716882000123`, "", 1)))
	if err != nil || got.Org.Stamp != got.Stamp || got.Stamp.At != milli(1716883100000) {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestNamesOfUsers(t *testing.T) {
	for name, c := range map[string]struct {
		data string
		want identity.UserData
	}{
		"both names":                      {`{"id":"u","first_name":"Ada","last_name":"Lovelace","username":"ada"}`, identity.UserData{Name: "Ada Lovelace"}},
		"the last name alone":             {`{"id":"u","first_name":null,"last_name":"Lovelace"}`, identity.UserData{Name: "Lovelace"}},
		"the user name":                   {`{"id":"u","first_name":"","username":"ada"}`, identity.UserData{Name: "ada"}},
		"nothing":                         {`{"id":"u"}`, identity.UserData{}},
		"the first address without main":  {`{"id":"u","primary_email_address_id":null,"email_addresses":[{"email_address":"a@x.org"},{"email_address":"b@x.org"}]}`, identity.UserData{Email: "a@x.org"}},
		"the first address, main unknown": {`{"id":"u","primary_email_address_id":"c","email_addresses":[{"id":"a","email_address":"a@x.org"},{"id":"b","email_address":"b@x.org"}]}`, identity.UserData{Email: "a@x.org"}},
		"an address without verification": {`{"id":"u","primary_email_address_id":"a","email_addresses":[{"id":"a","email_address":"a@x.org","verification":{"status":"expired"}},{"id":"b","email_address":"b@x.org","verification":"?"},{"id":"c","email_address":"c@x.org"}]}`, identity.UserData{Email: "b@x.org"}},
		"no address":                      {`{"id":"u","primary_email_address_id":"a","email_addresses":[]}`, identity.UserData{}},
	} {
		c.want.ProviderID = "u"
		got, err := read(t, event("user.updated", c.data))
		if err != nil || got.User != c.want {
			t.Errorf("%s: got %+v, %v, want %+v", name, got.User, err, c.want)
		}
	}
}

func TestNamesOfMembers(t *testing.T) {
	for data, want := range map[string]identity.UserData{
		`{"user_id":"u","identifier":"ada@x.org"}`:                     {ProviderID: "u", Email: "ada@x.org"},
		`{"user_id":"u","identifier":"+441234567"}`:                    {ProviderID: "u"},
		`{"user_id":"u","identifier":"ada","username":"ada"}`:          {ProviderID: "u", Name: "ada"},
		`{"user_id":"u","identifier":null,"first_name":"Ada"}`:         {ProviderID: "u", Name: "Ada"},
		`{"user_id":"u","image_url":"javascript:alert(1)","banned":1}`: {ProviderID: "u"},
	} {
		got, err := read(t, event("organizationMembership.created", `{"organization":{"id":"o"},"public_user_data":`+data+`}`))
		if err != nil || got.User != want {
			t.Errorf("%s gives %+v, %v, want %+v", data, got.User, err, want)
		}
	}
}

func TestUnexpectedTextsDoNotFailAnEvent(t *testing.T) {
	got, err := read(t, event("user.updated", `{"id":"u","first_name":"A\u0000d\na\ud800","last_name":"`+strings.Repeat("é", 500)+`","username":17,
		"image_url":{},"email_addresses":[{"id":["x"],"email_address":"`+strings.Repeat("a", 300)+`@x.org"}]}`))
	must.NoError(t, err)
	if want := "A d a\ufffd " + strings.Repeat("é", 193); got.User != (identity.UserData{ProviderID: "u", Name: want}) {
		t.Errorf("got %+v", got.User)
	}
	got, err = read(t, event("organization.updated", `{"id":"o","name":"\t","slug":null,"created_by":"`+strings.Repeat("u", 300)+`"}`))
	if err != nil || got.Org.Name != "" || got.Org.CreatedBy != "" {
		t.Errorf("got %+v, %v", got.Org, err)
	}
	got, err = read(t, event("organizationInvitation.created", `{"id":"i","organization_id":"o","email_address":"a@x.org","role":null,"inviter_id":false}`))
	if err != nil || got.Invitation != (identity.InvitationData{ProviderID: "i", Email: "a@x.org"}) {
		t.Errorf("got %+v, %v", got.Invitation, err)
	}
}

func TestErrorsOfInvalidBodiesNameTheField(t *testing.T) {
	for body, field := range map[string]string{
		``:                                  "body",
		`null`:                              "body",
		`[]`:                                "body",
		`{"type":"user.created"`:            "body",
		`{"data":{}}`:                       "type",
		`{"type":7,"data":{}}`:              "type",
		`{"type":"user.created"}`:           "data",
		`{"type":"user.created","data":[]}`: "data",
		event("user.created", `{}`):         "data.id",
		event("user.created", `{"id":7}`):   "data.id",
		event("user.deleted", `{"object":"user","deleted":true}`):                                                              "data.id",
		event("user.created", `{"id":"u","email_addresses":"a@x.org"}`):                                                        "data.email_addresses",
		event("organization.created", `{"id":""}`):                                                                             "data.id",
		event("organization.created", `{"id":"a\u0000b"}`):                                                                     "data.id",
		event("organizationMembership.created", `{"public_user_data":{"user_id":"u"}}`):                                        "data.organization.id",
		event("organizationMembership.deleted", `{"organization":{"id":"o"},"public_user_data":null}`):                         "data.public_user_data.user_id",
		event("organizationMembership.created", `{"organization":"o","public_user_data":{"user_id":"u"}}`):                     "data.organization",
		event("organizationInvitation.created", `{"organization_id":"o","email_address":"a@x.org"}`):                           "data.id",
		event("organizationInvitation.accepted", `{"id":"i","email_address":"a@x.org","public_organization_data":{"id":"o"}}`): "data.organization_id",
		event("organizationInvitation.revoked", `{"id":"i","organization_id":"o","email_address":"nobody"}`):                   "data.email_address",
	} {
		_, err := read(t, body)
		if !fault.Is(err, fault.Invalid) || !strings.HasPrefix(err.Error(), field+" must") {
			t.Errorf("%s gives %v, want a complaint about %s", body, err, field)
		}
	}
}

// FuzzRead reads a body with its signature and with another.
func FuzzRead(f *testing.F) {
	bodies, err := filepath.Glob("testdata/events/*.json")
	if err != nil || len(bodies) == 0 {
		f.Fatal("no example events", err)
	}
	for _, name := range bodies {
		body := must.Do(os.ReadFile(name)).Or(f)
		f.Add("msg_1", "v1,"+strings.Repeat("A", 43)+"=", body)
	}
	f.Fuzz(func(t *testing.T, id, signature string, body []byte) {
		now := time.Unix(envelopeSeconds, 0)
		e := newEvents(t, now, vectorSecret)
		h := signed(t, vectorSecret, id, now, string(body))
		right := h["webhook-signature"]
		got, err := e.Read(h.get, body)
		switch {
		case err == nil:
			if got.Message != id || got.Stamp.At.IsZero() {
				t.Errorf("got %+v", got)
			}
			if got.Kind >= identity.MemberChanged && !identity.ValidID(got.Org.ProviderID) {
				t.Errorf("got %+v", got)
			}
		case fault.Is(err, fault.Unauthenticated):
			if identity.ValidID(id) {
				t.Errorf("refused what is signed: %v", err)
			}
		case !fault.Is(err, fault.Invalid):
			t.Errorf("got %v", err)
		}
		h["webhook-signature"] = signature
		if _, err := e.Read(h.get, body); !strings.Contains(signature, strings.TrimPrefix(right, "v1,")) && !fault.Is(err, fault.Unauthenticated) {
			t.Errorf("the signature %q is accepted: %v", signature, err)
		}
	})
}
