package standardwebhooks

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"math"
	"strconv"
	"time"

	"collab/domain/fault"
	"collab/domain/identity"
)

// envelope has the fields that all messages have.
type envelope struct {
	Type      text            `json:"type"`
	Timestamp unixTime        `json:"timestamp"`
	Data      json.RawMessage `json:"data"`
}

type emailAddress struct {
	ID         text       `json:"id"`
	Address    text       `json:"email_address"`
	Unverified unverified `json:"verification"`
}

type user struct {
	ID             text           `json:"id"`
	Emails         []emailAddress `json:"email_addresses"`
	PrimaryEmailID text           `json:"primary_email_address_id"`
	FirstName      text           `json:"first_name"`
	LastName       text           `json:"last_name"`
	Username       text           `json:"username"`
	ImageURL       text           `json:"image_url"`
	Banned         flag           `json:"banned"`
	Locked         flag           `json:"locked"`
	UpdatedAt      unixTime       `json:"updated_at"`
}

type organization struct {
	ID        text     `json:"id"`
	Name      text     `json:"name"`
	Slug      text     `json:"slug"`
	CreatedBy text     `json:"created_by"`
	UpdatedAt unixTime `json:"updated_at"`
}

type publicUser struct {
	ID         text `json:"user_id"`
	FirstName  text `json:"first_name"`
	LastName   text `json:"last_name"`
	Username   text `json:"username"`
	Identifier text `json:"identifier"` // an e-mail address, a telephone number or a user name
	ImageURL   text `json:"image_url"`
}

type membership struct {
	Role         text         `json:"role"`
	Organization organization `json:"organization"`
	User         publicUser   `json:"public_user_data"`
	CreatedAt    unixTime     `json:"created_at"`
	UpdatedAt    unixTime     `json:"updated_at"`
}

type organizationInvitation struct {
	ID             text         `json:"id"`
	Email          text         `json:"email_address"`
	Role           text         `json:"role"`
	OrganizationID text         `json:"organization_id"`
	Organization   organization `json:"public_organization_data"`
	InviterID      text         `json:"inviter_id"`
	UpdatedAt      unixTime     `json:"updated_at"`
}

// eventType says how messages of a type are translated. Read sets the event's fields from the
// data and returns the record's update time.
type eventType struct {
	kind identity.Kind
	rank int
	read func(data json.RawMessage, e *identity.Event) (time.Time, error)
}

// eventTypes are the types of messages that are translated. Others have the kind identity.Other.
var eventTypes = map[string]eventType{
	"user.created": {identity.UserChanged, identity.RankCreated, readUser},
	"user.updated": {identity.UserChanged, identity.RankUpdated, readUser},
	"user.deleted": {identity.UserDeleted, identity.RankEnded, readUser},

	"organization.created": {identity.OrgChanged, identity.RankCreated, readOrganization},
	"organization.updated": {identity.OrgChanged, identity.RankUpdated, readOrganization},
	"organization.deleted": {identity.OrgDeleted, identity.RankEnded, readOrganization},

	"organizationMembership.created": {identity.MemberChanged, identity.RankCreated, readMembership},
	"organizationMembership.updated": {identity.MemberChanged, identity.RankUpdated, readMembership},
	"organizationMembership.deleted": {identity.MemberRemoved, identity.RankEnded, readMembership},

	"organizationInvitation.created":  {identity.InvitationCreated, identity.RankCreated, readInvitation},
	"organizationInvitation.accepted": {identity.InvitationAccepted, identity.RankEnded, readInvitation},
	"organizationInvitation.revoked":  {identity.InvitationRevoked, identity.RankEnded, readInvitation},
}

// translate returns the event of a verified message.
func translate(m message, body []byte) (identity.Event, error) {
	var env envelope
	if err := decode("body", body, &env); err != nil {
		return identity.Event{}, err
	}
	e := identity.Event{Message: m.id}
	if env.Type == "" {
		return identity.Event{}, fault.Field("type", "must be a string that is not empty")
	}
	t, ok := eventTypes[string(env.Type)]
	e.Kind = t.kind
	e.Stamp = identity.Stamp{At: cmp.Or(env.Timestamp.Time, m.sent), Rank: t.rank, Message: m.id}
	if !ok {
		return e, nil
	}
	updated, err := t.read(env.Data, &e)
	if err != nil {
		return identity.Event{}, err
	}
	if e.Kind == identity.MemberRemoved {
		e.Member.EndedAt = e.Stamp.At
	}
	e.Stamp.At = cmp.Or(updated, e.Stamp.At)
	if e.Org.ProviderID != "" && e.Org.Stamp.IsZero() {
		e.Org.Stamp = e.Stamp
	}
	return e, nil
}

func readUser(data json.RawMessage, e *identity.Event) (time.Time, error) {
	var u user
	if err := decode("data", data, &u); err != nil {
		return time.Time{}, err
	}
	if err := checkID("data.id", u.ID); err != nil {
		return time.Time{}, err
	}
	var email text
	for _, a := range u.Emails {
		if !a.Unverified && (email == "" || a.ID == u.PrimaryEmailID && a.ID != "") {
			email = a.Address
		}
	}
	e.User = identity.UserData{
		ProviderID: string(u.ID),
		Name:       fullName(u.FirstName, u.LastName, u.Username),
		Email:      identity.CleanEmail(string(email)),
		AvatarURL:  identity.CleanURL(string(u.ImageURL)),
		Blocked:    bool(u.Banned || u.Locked),
	}
	return u.UpdatedAt.Time, nil
}

func readOrganization(data json.RawMessage, e *identity.Event) (time.Time, error) {
	var o organization
	if err := decode("data", data, &o); err != nil {
		return time.Time{}, err
	}
	if err := checkID("data.id", o.ID); err != nil {
		return time.Time{}, err
	}
	e.Org = o.orgData()
	return o.UpdatedAt.Time, nil
}

func readMembership(data json.RawMessage, e *identity.Event) (time.Time, error) {
	var m membership
	if err := decode("data", data, &m); err != nil {
		return time.Time{}, err
	}
	if err := cmp.Or(checkID("data.organization.id", m.Organization.ID), checkID("data.public_user_data.user_id", m.User.ID)); err != nil {
		return time.Time{}, err
	}
	e.Org = m.Organization.orgData()
	if at := m.Organization.UpdatedAt; !at.IsZero() {
		// Rank zero: of two events at the same time the organisation's own has precedence.
		e.Org.Stamp = identity.Stamp{At: at.Time, Message: e.Message}
	}
	e.User = identity.UserData{
		ProviderID: string(m.User.ID),
		Name:       fullName(m.User.FirstName, m.User.LastName, m.User.Username),
		Email:      identity.CleanEmail(string(m.User.Identifier)),
		AvatarURL:  identity.CleanURL(string(m.User.ImageURL)),
	}
	e.Member = identity.MemberData{Role: identity.CleanName(string(m.Role)), JoinedAt: m.CreatedAt.Time}
	return m.UpdatedAt.Time, nil
}

func readInvitation(data json.RawMessage, e *identity.Event) (time.Time, error) {
	var i organizationInvitation
	if err := decode("data", data, &i); err != nil {
		return time.Time{}, err
	}
	if err := cmp.Or(checkID("data.id", i.ID), checkID("data.organization_id", i.OrganizationID)); err != nil {
		return time.Time{}, err
	}
	email := identity.CleanEmail(string(i.Email))
	if email == "" {
		return time.Time{}, fault.Field("data.email_address", "must be an e-mail address")
	}
	i.Organization.ID = i.OrganizationID
	e.Org = i.Organization.orgData()
	e.Invitation = identity.InvitationData{
		ProviderID: string(i.ID),
		Email:      email,
		Role:       identity.CleanName(string(i.Role)),
		InvitedBy:  optionalID(i.InviterID),
	}
	return i.UpdatedAt.Time, nil
}

func (o organization) orgData() identity.OrgData {
	return identity.OrgData{
		ProviderID: string(o.ID),
		Name:       identity.CleanName(string(o.Name)),
		Slug:       identity.CleanName(string(o.Slug)),
		CreatedBy:  optionalID(o.CreatedBy),
	}
}

func fullName(firstName, lastName, username text) string {
	if name := identity.CleanName(string(firstName) + " " + string(lastName)); name != "" {
		return name
	}
	return identity.CleanName(string(username))
}

func checkID(field string, s text) error {
	if !identity.ValidID(string(s)) {
		return fault.Field(field, "must be an id of 1 to %d bytes", identity.MaxID)
	}
	return nil
}

func optionalID(s text) string {
	if !identity.ValidID(string(s)) {
		return ""
	}
	return string(s)
}

// decode decodes the JSON object of a field. Its errors name the invalid field.
func decode(field string, data []byte, v any) error {
	if !bytes.HasPrefix(bytes.TrimLeft(data, " \t\r\n"), []byte("{")) {
		return fault.Field(field, "must be a JSON object")
	}
	err := json.Unmarshal(data, v)
	var mismatch *json.UnmarshalTypeError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &mismatch):
		return fault.Field(field+"."+mismatch.Field, "must not be a JSON %s", mismatch.Value)
	default:
		return fault.Field(field, "must be a JSON object")
	}
}

// text is a string. Any other JSON value decodes to "", so that optional fields never make a
// message invalid.
type text string

func (t *text) UnmarshalJSON(data []byte) error {
	if data[0] == '"' {
		return json.Unmarshal(data, (*string)(t))
	}
	return nil
}

// unverified is true for an object with another status than verified.
type unverified bool

func (u *unverified) UnmarshalJSON(data []byte) error {
	var v struct {
		Status text `json:"status"`
	}
	_ = json.Unmarshal(data, &v) // other values are not a verification
	*u = v.Status != "" && v.Status != "verified"
	return nil
}

// flag is true for the JSON value true.
type flag bool

func (f *flag) UnmarshalJSON(data []byte) error {
	*f = string(data) == "true"
	return nil
}

// unixTime is a time in seconds or milliseconds since 1970. Any other JSON value decodes to
// the zero time.
type unixTime struct{ time.Time }

const (
	minMilliseconds = 1e11            // smaller numbers are seconds, others milliseconds
	maxMilliseconds = 253402300800000 // the year 10000 in milliseconds, which RFC 3339 cannot represent
)

func (t *unixTime) UnmarshalJSON(data []byte) error {
	n, err := strconv.ParseFloat(string(data), 64)
	if err != nil {
		return nil
	}
	if n < minMilliseconds {
		n *= 1000
	}
	if n = math.Round(n); n > 0 && n < maxMilliseconds {
		t.Time = time.UnixMilli(int64(n)).UTC()
	}
	return nil
}
