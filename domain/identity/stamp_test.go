package identity_test

import (
	"testing"
	"time"

	"collab/domain/identity"

	"pgregory.net/rapid"
)

func TestAnyTwoDifferentMessagesHaveOneOrder(t *testing.T) {
	anyStamp := rapid.Custom(func(t *rapid.T) identity.Stamp {
		return identity.Stamp{
			At:      time.UnixMilli(rapid.Int64Range(0, 2).Draw(t, "at")).In(rapid.SampledFrom([]*time.Location{time.UTC, time.FixedZone("east", 3600)}).Draw(t, "zone")),
			Rank:    rapid.SampledFrom([]int{identity.RankCreated, identity.RankUpdated, identity.RankEnded, identity.RankLocal}).Draw(t, "rank"),
			Message: rapid.SampledFrom([]string{"a", "b"}).Draw(t, "message"),
		}
	})
	rapid.Check(t, func(t *rapid.T) {
		a, b, c := anyStamp.Draw(t, "a"), anyStamp.Draw(t, "b"), anyStamp.Draw(t, "c")
		same := a.At.Equal(b.At) && a.Rank == b.Rank && a.Message == b.Message
		if a.Before(b) && b.Before(a) || same == (a.Before(b) || b.Before(a)) {
			t.Fatalf("%v and %v: %v, %v", a, b, a.Before(b), b.Before(a))
		}
		if a.Before(b) && b.Before(c) && !a.Before(c) {
			t.Fatalf("%v, %v and %v go in a circle", a, b, c)
		}
	})
}

func TestTheInstantCountsBeforeTheRankAndTheRankBeforeTheMessage(t *testing.T) {
	at := func(s, rank int, message string) identity.Stamp {
		return identity.Stamp{At: time.Unix(int64(s), 0), Rank: rank, Message: message}
	}
	ordered := []identity.Stamp{
		{}, at(1, identity.RankEnded, "z"), at(2, identity.RankCreated, "z"), at(2, identity.RankUpdated, "a"), at(2, identity.RankUpdated, "b"),
		at(2, identity.RankEnded, "a"), at(2, identity.RankLocal, ""), at(3, identity.RankCreated, "a"),
	}
	for i := 1; i < len(ordered); i++ {
		if !ordered[i-1].Before(ordered[i]) {
			t.Errorf("%v does not come before %v", ordered[i-1], ordered[i])
		}
	}
	if !ordered[0].IsZero() || ordered[1].IsZero() {
		t.Error("only the first has seen no message")
	}
}
