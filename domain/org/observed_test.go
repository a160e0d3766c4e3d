package org_test

import (
	"testing"
	"time"

	"collab/domain/identity"
	"collab/domain/org"
)

func named(name string) identity.UserData {
	return identity.UserData{Name: name, Email: name + "@example.com"}
}

func TestAUserFollowsTheLatestEventAboutThem(t *testing.T) {
	u := org.User{ID: "u", ProviderID: "p"}.Observed(named("second"), stamp(2, identity.RankUpdated), noon)
	for about, got := range map[string]org.User{
		"an older event":                 u.Observed(named("first"), stamp(1, identity.RankUpdated), later(9)),
		"the same event":                 u.Observed(named("again"), stamp(2, identity.RankUpdated), later(9)),
		"a mention, however late":        u.Mentioned(named("mention"), stamp(9, identity.RankUpdated), later(9)),
		"a token older than the event":   u.Presented(identity.Claims{Name: "token", IssuedAt: later(1)}, identity.UserData{}, later(9)),
		"what the caller says of theirs": u.Presented(identity.Claims{IssuedAt: later(9)}, named("hint"), later(9)),
	} {
		if got != u {
			t.Errorf("%s makes it %+v", about, got)
		}
	}
	if got := u.Observed(named("third"), stamp(3, identity.RankCreated), later(9)); got.Name != "third" || !got.UpdatedAt.Equal(later(9)) {
		t.Errorf("a later event makes it %+v", got)
	}
	if got := u.Presented(identity.Claims{Name: "token", IssuedAt: later(3)}, identity.UserData{}, later(9)); got.Name != "token" || got.Email != u.Email {
		t.Errorf("a newer token makes it %+v", got)
	}
}

func TestAMentionCountsUntilTheFirstEventAboutTheUserAndNotOverTokens(t *testing.T) {
	u := org.User{ID: "u", ProviderID: "p"}.Presented(identity.Claims{Name: "token", IssuedAt: noon}, identity.UserData{AvatarURL: "https://a"}, noon)
	u = u.Mentioned(identity.UserData{Name: "mention", Email: "mention@example.com"}, stamp(1, identity.RankCreated), noon)
	if u.Name != "token" || u.Email != "mention@example.com" || u.AvatarURL != "https://a" || u.Full {
		t.Fatalf("got %+v", u)
	}
	if got := u.Mentioned(named("older"), stamp(0, identity.RankCreated), noon); got != u {
		t.Errorf("an older mention makes it %+v", got)
	}
	if got := u.Observed(named("event"), stamp(0, identity.RankCreated), noon); got.Name != "event" || got.Email != "event@example.com" || !got.Full {
		t.Errorf("an event, even one older than the mention, makes it %+v", got)
	}
}

func TestADeletedUserStaysDeletedAndEmpty(t *testing.T) {
	u := org.User{ID: "u", ProviderID: "p", CreatedAt: noon}.Observed(named("ada"), stamp(1, identity.RankCreated), noon).Erased(later(2))
	if !u.Deleted() || u.ID != "u" || u.ProviderID != "p" || u.Name+u.Email+u.AvatarURL != "" {
		t.Fatalf("got %+v", u)
	}
	for about, got := range map[string]org.User{
		"an event":         u.Observed(named("back"), stamp(9, identity.RankEnded), later(9)),
		"a mention":        u.Mentioned(named("back"), stamp(9, identity.RankEnded), later(9)),
		"a token":          u.Presented(identity.Claims{Name: "back", IssuedAt: later(9)}, named("back"), later(9)),
		"another deletion": u.Erased(later(9)),
	} {
		if got != u {
			t.Errorf("%s makes it %+v", about, got)
		}
	}
}

func facts(name, creator string, minutes int) identity.OrgData {
	return identity.OrgData{Name: name, Slug: name, CreatedBy: creator, Stamp: stamp(minutes, identity.RankUpdated)}
}

func TestAnOrganisationFollowsTheLatestEventAboutIt(t *testing.T) {
	o := org.Organisation{ID: "o", ProviderID: "p"}.Mentioned(facts("mention", "", 5), noon)
	if o.Name != "mention" || o.Full {
		t.Fatalf("got %+v", o)
	}
	o = o.Observed(facts("event", "", 2), noon)
	if o.Name != "event" || !o.Full {
		t.Fatalf("an event, even one older than a mention, makes it %+v", o)
	}
	for about, got := range map[string]org.Organisation{
		"an older event":          o.Observed(facts("older", "", 1), later(9)),
		"a mention, however late": o.Mentioned(facts("mention", "", 9), later(9)),
		"what the caller says":    o.Presented(identity.Claims{IssuedAt: later(9)}, "hint", "hint", later(9)),
	} {
		if got != o {
			t.Errorf("%s makes it %+v", about, got)
		}
	}
	if got := o.Presented(identity.Claims{OrgSlug: "token", IssuedAt: later(9)}, "", "", later(9)); got.Slug != "token" || got.Name != "event" {
		t.Errorf("a newer token makes it %+v", got)
	}
}

func TestAnOrganisationKnownFromATokenAloneHasAName(t *testing.T) {
	o := org.Organisation{ID: "o", ProviderID: "p"}
	if got := o.Presented(identity.Claims{OrgSlug: "acme", IssuedAt: noon}, "", "", noon); got.Name != "acme" || got.Slug != "acme" {
		t.Errorf("got %+v", got)
	}
	if got := o.Presented(identity.Claims{OrgSlug: "acme", IssuedAt: noon}, "Acme Ltd", "ignored", noon); got.Name != "Acme Ltd" || got.Slug != "acme" {
		t.Errorf("got %+v", got)
	}
}

func TestTheCreatorIsWhomTheLatestMessageNamesThatNamesOne(t *testing.T) {
	o := org.Organisation{ID: "o"}.Observed(facts("a", "ada", 3), noon).Observed(facts("b", "", 4), noon)
	if o.CreatedBy != "ada" || o.Name != "b" {
		t.Fatalf("got %+v", o)
	}
	if got := o.Mentioned(facts("", "ben", 2), noon); got.CreatedBy != "ada" {
		t.Errorf("an older mention makes the creator %s", got.CreatedBy)
	}
	if got := o.Mentioned(facts("", "ben", 5), noon); got.CreatedBy != "ben" || got.Name != "b" {
		t.Errorf("a later mention makes it %+v", got)
	}
}

func TestAClosedOrganisationStaysClosedAndIsErasedAfterThirtyDays(t *testing.T) {
	open := org.Organisation{ID: "o", ProviderID: "p", Name: "Acme", CreatedAt: noon}
	o := open.Close(later(1))
	if !o.Closed() || o.Close(later(2)) != o {
		t.Fatalf("got %+v", o)
	}
	for about, got := range map[string]org.Organisation{
		"an event":  o.Observed(facts("back", "ada", 9), later(9)),
		"a mention": o.Mentioned(facts("back", "ada", 9), later(9)),
		"a token":   o.Presented(identity.Claims{OrgSlug: "back", IssuedAt: later(9)}, "back", "back", later(9)),
	} {
		if got != o {
			t.Errorf("%s makes it %+v", about, got)
		}
	}
	due := later(1).Add(30 * 24 * time.Hour)
	if o.Erasable(due.Add(-time.Millisecond)) || !o.Erasable(due) || open.Erasable(due) {
		t.Error("it is not erased exactly when 30 days have passed")
	}
	gone := o.Erased(due)
	if gone.Erasable(due) || gone.Name != "" || gone.ID != "o" || gone.ProviderID != "p" || !gone.Closed() {
		t.Errorf("what is kept is %+v", gone)
	}
}
