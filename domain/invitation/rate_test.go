package invitation_test

import (
	"errors"
	"testing"
	"time"

	"pgregory.net/rapid"

	"collab/domain/fault"
	"collab/domain/invitation"
	"collab/test/must"
)

// TestARateBoundsTheNumberInAnyInterval checks a rate against the times that it allowed.
func TestARateBoundsTheNumberInAnyInterval(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := invitation.Rate{Burst: rapid.IntRange(1, 5).Draw(t, "burst"), Every: time.Minute}
		now, spent := noon, time.Time{}
		var taken []time.Time
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(0, 90).Draw(t, "seconds")) * time.Second)
			next, err := r.Take(spent, now)
			if err == nil {
				spent, taken = next, append(taken, now)
				for i, from := range taken {
					if most := r.Burst + int(now.Sub(from)/r.Every); len(taken)-i > most {
						t.Fatalf("%d in %s, of at most %d", len(taken)-i, now.Sub(from), most)
					}
				}
				continue
			}
			var limited *fault.Error
			if !errors.As(err, &limited) || limited.Kind != fault.Limited || limited.RetryAfter < 1 {
				t.Fatalf("it is refused as %v", err)
			}
			at := now.Add(time.Duration(limited.RetryAfter) * time.Second)
			if _, err := r.Take(spent, at); err != nil {
				t.Fatalf("it is refused again after %d s", limited.RetryAfter)
			}
			if _, err := r.Take(spent, at.Add(-time.Second)); err == nil {
				t.Fatalf("it could have come back before %d s", limited.RetryAfter)
			}
		}
	})
}

func TestARateIsUnusedIfItsTimeIsTooFarAhead(t *testing.T) {
	r := invitation.Rate{Burst: 2, Every: time.Minute}
	used := noon.Add(2 * time.Minute)
	must.Fail(t, must.ErrorOf(r.Take(used, noon)), fault.Limited)
	must.Is(t, noon.Add(time.Minute), must.Do(r.Take(used.Add(time.Millisecond), noon)).Or(t))
}

func TestAnInvitationIsSentAgainAtARate(t *testing.T) {
	i := pending()
	var err error
	for range invitation.Resends.Burst {
		if i, err = i.Resent("again", noon); err != nil {
			t.Fatal(err)
		}
	}
	if same, err := i.Resent("once more", noon); !fault.Is(err, fault.Limited) || same.TokenHash != "again" {
		t.Errorf("beyond the rate: %+v, %v", same, err)
	}
	must.Do(i.Resent("later", noon.Add(invitation.Resends.Every))).Or(t)
}
