package quota_test

import (
	"testing"
	"time"

	"collab/domain/fault"
	"collab/domain/quota"
	"collab/test/must"

	"pgregory.net/rapid"
)

func TestGrantsOfAnAccount(t *testing.T) {
	for _, c := range []struct {
		about   string
		account quota.Account
		limit   int64
		need    quota.Need
		want    int64
	}{
		{"all that is needed", quota.Account{}, 500, quota.Need{Input: 25, Output: 50}, 75},
		{"all that is left, exactly", quota.Account{Used: 400, Reserved: 25}, 500, quota.Need{Input: 25, Output: 50}, 75},
		{"what is left, where it is less", quota.Account{Used: 400, Reserved: 50}, 500, quota.Need{Input: 25, Output: 50}, 50},
		{"the input and one token of output", quota.Account{Used: 474}, 500, quota.Need{Input: 25, Output: 50}, 26},
		{"nothing where the input leaves no output", quota.Account{Used: 475}, 500, quota.Need{Input: 25, Output: 50}, 0},
		{"nothing where the input does not fit", quota.Account{Used: 480}, 500, quota.Need{Input: 25, Output: 50}, 0},
		{"nothing of what is reserved", quota.Account{Reserved: 500}, 500, quota.Need{Input: 0, Output: 1}, 0},
		{"nothing once the limit is passed", quota.Account{Used: 600}, 500, quota.Need{Input: 0, Output: 1}, 0},
		{"nothing of a limit that was lowered", quota.Account{Used: 10, Reserved: 20}, 0, quota.Need{Input: 0, Output: 1}, 0},
		{"the last token", quota.Account{Used: 499}, 500, quota.Need{Input: 0, Output: 100}, 1},
	} {
		t.Run(c.about, func(t *testing.T) {
			must.Is(t, c.want, c.account.Grant(c.limit, c.need))
		})
	}
}

func TestGrantsNeverPassTheLimit(t *testing.T) {
	tokens := rapid.Int64Range(0, 200)
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.Int64Range(0, 1_000).Draw(t, "limit")
		var a quota.Account
		var running []int64
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			if len(running) > 0 && rapid.Bool().Draw(t, "settles") {
				held := running[0]
				running = running[1:]
				a.Reserved -= held
				a.Used += rapid.Int64Range(0, held).Draw(t, "used")
				continue
			}
			n := quota.Need{Input: tokens.Draw(t, "input"), Output: 1 + tokens.Draw(t, "output")}
			left := limit - a.Used - a.Reserved
			g := a.Grant(limit, n)
			switch {
			case g > left:
				t.Fatalf("%d of %d left were granted", g, left)
			case g > n.Input+n.Output:
				t.Fatalf("%d were granted to %+v", g, n)
			case g != 0 && g < n.Input+1:
				t.Fatalf("%d were granted to %+v, which leave no room for output", g, n)
			case g < n.Input+n.Output && g != 0 && g != left:
				t.Fatalf("%d of %d left were granted to %+v", g, left, n)
			case g == 0 && left > n.Input:
				t.Fatalf("nothing of %d left was granted to %+v", left, n)
			}
			if g > 0 {
				a.Reserved += g
				running = append(running, g)
			}
		}
		if a.Used+a.Reserved > limit {
			t.Fatalf("%+v is over %d", a, limit)
		}
	})
}

func TestTheStatusOfAnAccount(t *testing.T) {
	resets := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		about   string
		account quota.Account
		limit   int64
		want    quota.Status
	}{
		{"nothing used", quota.Account{}, 500, quota.Status{Used: 0, Limit: 500, Remaining: 500, ResetsAt: resets}},
		{"what is reserved is not used", quota.Account{Used: 100, Reserved: 300}, 500, quota.Status{Used: 100, Limit: 500, Remaining: 400, ResetsAt: resets}},
		{"all used", quota.Account{Used: 500}, 500, quota.Status{Used: 500, Limit: 500, Remaining: 0, ResetsAt: resets}},
		{"a limit that was lowered leaves nothing, and never less", quota.Account{Used: 500}, 200, quota.Status{Used: 500, Limit: 200, Remaining: 0, ResetsAt: resets}},
	} {
		t.Run(c.about, func(t *testing.T) {
			must.Is(t, c.want, c.account.Status(c.limit, "2026-02-28"))
		})
	}
}

func TestARefusalHasARetryAfter(t *testing.T) {
	resets := time.Date(2026, 2, 1, 1, 0, 0, 0, time.FixedZone("", 3600))
	for limit, want := range map[int64]string{
		500: "The daily token quota is used up; it resets at 2026-02-01T00:00:00Z",
		0:   "The organisation's plan includes no tokens for the chat",
	} {
		if err := quota.Exceeded(limit, resets); !fault.Is(err, fault.Forbidden) || err.Error() != want {
			t.Errorf("a limit of %d: %v", limit, err)
		}
	}
}
