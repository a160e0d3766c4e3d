package org

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"collab/domain/id"
	"collab/domain/identity"
)

// Retention is how long the data of a closed organisation is kept.
const Retention = 30 * 24 * time.Hour

// Organisation is a tenant, known by the identity provider's id.
type Organisation struct {
	ID         id.Org
	ProviderID string
	Name       string
	Slug       string
	CreatedAt  time.Time
	UpdatedAt  time.Time

	Full bool // as for User
	Seen identity.Stamp

	SlugIssuedAt time.Time // when the token was issued that Slug comes from; zero when it comes from elsewhere

	// CreatedBy is the provider's id of the user who made the organisation; it
	// has a stamp of its own because many messages do not say it.
	CreatedBy     string
	CreatedBySeen identity.Stamp

	ClosedAt *time.Time // set for good by the provider's deletion
	ErasedAt *time.Time // when the data of the closed organisation was erased

	EmailsUntil time.Time // when the rate of its invitation e-mails is unused again, see invitation.Emails
}

// Closed reports whether the provider has deleted the organisation.
func (o Organisation) Closed() bool { return o.ClosedAt != nil }

// Erasable reports whether a closed organisation's data is due for erasure.
func (o Organisation) Erasable(now time.Time) bool {
	return o.ClosedAt != nil && o.ErasedAt == nil && !now.Before(o.ClosedAt.Add(Retention))
}

// slugField returns the slug with the token that it comes from.
func (o *Organisation) slugField() tokenField { return tokenField{&o.Slug, &o.SlugIssuedAt} }

// Observed returns the organisation after an event about it. A slug from a later token
// stays.
func (o Organisation) Observed(f identity.OrgData, now time.Time) Organisation {
	if o.Closed() {
		return o
	}
	if !o.Full || o.Seen.Before(f.Stamp) {
		o.Name = f.Name
		o.slugField().fromEvent(f.Slug, f.Stamp.At)
		o.Full, o.Seen, o.UpdatedAt = true, f.Stamp, now
	}
	return o.withCreator(f, now)
}

// Mentioned returns the organisation after an event about something else that names it. It
// changes nothing after the first event about the organisation, and not a slug that comes
// from a token.
func (o Organisation) Mentioned(f identity.OrgData, now time.Time) Organisation {
	if o.Closed() {
		return o
	}
	if !o.Full && o.Seen.Before(f.Stamp) && (f.Name != "" || f.Slug != "") {
		if o.Seen.IsZero() {
			f.Name, f.Slug = cmp.Or(f.Name, o.Name), cmp.Or(f.Slug, o.Slug)
		}
		o.Name = f.Name
		if o.SlugIssuedAt.IsZero() {
			o.Slug = f.Slug
		}
		o.Seen, o.UpdatedAt = f.Stamp, now
	}
	return o.withCreator(f, now)
}

func (o Organisation) withCreator(f identity.OrgData, now time.Time) Organisation {
	if f.CreatedBy != "" && o.CreatedBySeen.Before(f.Stamp) {
		if o.CreatedBy != f.CreatedBy {
			o.UpdatedAt = now
		}
		o.CreatedBy, o.CreatedBySeen = f.CreatedBy, f.Stamp
	}
	return o
}

// Presented returns the organisation after a verified token of it; the caller's
// hints only fill an empty name and slug.
func (o Organisation) Presented(claims identity.Claims, name, slug string, now time.Time) Organisation {
	if o.Closed() {
		return o
	}
	was := o
	if !o.Full || claims.IssuedAt.After(o.Seen.At) {
		o.slugField().fromToken(claims.OrgSlug, claims.IssuedAt)
	}
	o.Slug = cmp.Or(o.Slug, slug)
	o.Name = cmp.Or(o.Name, name, o.Slug)
	if o != was {
		o.UpdatedAt = now
	}
	return o
}

// Erased returns the record that stays of an organisation whose data was erased: its ids
// and times.
func (o Organisation) Erased(now time.Time) Organisation {
	return Organisation{ID: o.ID, ProviderID: o.ProviderID, CreatedAt: o.CreatedAt, UpdatedAt: now, ClosedAt: o.ClosedAt, ErasedAt: &now}
}

// Close returns the organisation closed at now.
func (o Organisation) Close(now time.Time) Organisation {
	if !o.Closed() {
		o.ClosedAt, o.UpdatedAt = &now, now
	}
	return o
}

// Filter selects organisations.
type Filter struct {
	After        id.Org     // only those with a greater id, for paging
	Limit        int        // at most so many; 0: all
	IDs          []id.Org   // only those with one of these; nil: all
	ClosedBefore *time.Time // only those closed at this time or before and not erased
	Search       string     // only those that Matches reports; empty: all
	ExamineLimit int        // with a search: the text is looked for in the names of at most so many that meet the other conditions; 0: in all
}

// MaxExamined is how many organisations, or members of one, a search examines.
const MaxExamined = 100_000

// Merge returns the organisations of two lists in the order of their ids, each once, and at most Limit.
func (f Filter) Merge(a, b []Organisation) []Organisation {
	merged := slices.Concat(a, b)
	slices.SortFunc(merged, func(a, b Organisation) int { return strings.Compare(string(a.ID), string(b.ID)) })
	merged = slices.CompactFunc(merged, func(a, b Organisation) bool { return a.ID == b.ID })
	if f.Limit > 0 {
		merged = merged[:min(f.Limit, len(merged))]
	}
	return merged
}

// Matches reports whether the text is the organisation's id, or occurs in its name or slug, where
// the letters A to Z are equal to a to z.
func (o Organisation) Matches(text string) bool {
	text = foldASCII(text)
	return string(o.ID) == text || strings.Contains(foldASCII(o.Name), text) || strings.Contains(foldASCII(o.Slug), text)
}

// foldASCII returns the text with a to z for A to Z.
func foldASCII(text string) string {
	return strings.Map(func(r rune) rune {
		if 'A' <= r && r <= 'Z' {
			return r + 'a' - 'A'
		}
		return r
	}, text)
}
