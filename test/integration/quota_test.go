package integration

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"collab/adapters/system"
	"collab/app/access"
	"collab/app/chats"
	"collab/domain/chat"
	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/org"
	"collab/domain/plan"
	"collab/domain/quota"
	"collab/ports"
	"collab/test/postgres"
	"collab/test/soak"
	"collab/test/tempdir"
)

// concurrent is the number of requests of a round, which are sent at the same time.
const concurrent = 64

// storedRounds is the number of rounds on each database.
var storedRounds = soak.Count(1000)

// limit is what the plan FREE gives.
const limit = 1_000_000

// asking sends a request and says what it came to. It calls answered once it is
// known whether the request was admitted.
type asking func(n int, who member, a *chatRequest, answered func(admitted bool)) (chat.Usage, error)

// manner is how the requests of a round behave.
type manner int

// The manners. What is held does not end before all are answered; what is whole
// uses all that it was allowed; what is loose uses less, or nothing.
const (
	held manner = iota
	whole
	loose
	manners
)

// round makes the requests of a round, which need more than is left.
func (b *chatRequests) round(random *rand.Rand, how manner, left int64) (requests []*chatRequest, release func()) {
	until := make(chan struct{})
	release = func() {}
	if how == held {
		release = sync.OnceFunc(func() { close(until) })
	}
	each := (2 + random.Int64N(8)) * left / concurrent // so that half of them fit at most
	for range concurrent {
		a := b.request(minInput+random.Int64N(max(1, each/2)), 1+random.Int64N(each))
		switch how {
		case held:
			a.held = until
		case loose:
			a.refused = random.IntN(8) == 0
			a.said, a.part = a.input-random.Int64N(a.input/2), random.Int64N(101)
		}
		requests = append(requests, a)
	}
	return requests, release
}

// play has somebody with so much left ask all at the same moment. It returns
// what that used, how many were admitted, and how many of those in full.
func (b *chatRequests) play(about string, how asking, who member, left int64, manner manner, requests []*chatRequest, release func()) (used int64, admitted, full int) {
	took, came := make([]bool, len(requests)), make([]chat.Usage, len(requests))
	begin := make(chan struct{})
	var answers, all sync.WaitGroup
	for i, a := range requests {
		answers.Add(1)
		all.Go(func() {
			answered := sync.OnceFunc(answers.Done)
			defer answered() // also when it fails
			<-begin
			var err error
			came[i], err = how(i, who, a, func(admitted bool) {
				took[i] = admitted
				answered()
			})
			if err != nil {
				b.Errorf("%s: request %d: %v", about, i, err)
			}
		})
	}
	close(begin)
	answers.Wait()
	if manner == held {
		for i, a := range requests {
			if took[i] && !a.saw(b) {
				break
			}
		}
	}
	release()
	all.Wait()

	var granted int64 // in sum
	turned, clamped := int64(1<<62), false
	for i, a := range requests {
		allowed := a.allowed.Load()
		if took[i] != (allowed > 0) {
			b.Errorf("%s: request %d is admitted: %t, and the provider was allowed %d", about, i, took[i], allowed)
		}
		if !took[i] {
			turned = min(turned, a.input)
			continue
		}
		admitted++
		switch {
		case allowed > a.output:
			b.Errorf("%s: %d were allowed to one who asked for %d", about, allowed, a.output)
		case allowed == a.output:
			full++
		default:
			clamped = true
		}
		granted += a.input + allowed
		used += a.uses().Total()
		if came[i] != a.uses() {
			b.Errorf("%s: request %d is told that it used %+v, want %+v", about, i, came[i], a.uses())
		}
	}
	if used > left {
		b.Errorf("%s: %d were used of %d", about, used, left)
	}
	if manner == loose {
		return used, admitted, full // what was given back could be granted again
	}
	rest := left - granted
	if rest < 0 {
		b.Errorf("%s: %d were granted of %d", about, granted, left)
	}
	if clamped && rest > 0 {
		b.Errorf("%s: somebody was granted less than they need, and %d are left", about, rest)
	}
	if rest > turned {
		b.Errorf("%s: somebody was refused who needs %d and one, and %d are left", about, turned, rest)
	}
	return used, admitted, full
}

// exactly has somebody ask for exactly what is left, which is admitted, and then
// for the least, which is not. It returns what that used.
func (b *chatRequests) exactly(about string, how asking, random *rand.Rand, who member, left int64) (used int64, admitted int) {
	one := func(input, output int64) (ok bool) {
		a := b.request(input, output)
		u, err := how(random.IntN(4), who, a, func(admitted bool) { ok = admitted })
		if err != nil || ok && (a.allowed.Load() != output || u.Total() != input+output) {
			b.Errorf("%s: of %d, %d and %d were needed: %d allowed, %+v used, %v", about, left, input, output, a.allowed.Load(), u, err)
		}
		return ok
	}
	if left > minInput {
		input := minInput + random.Int64N(left-minInput)
		if !one(input, left-input) {
			b.Errorf("%s: exactly the %d that are left were refused", about, left)
			return 0, 0
		}
		used, admitted = left, 1
	}
	if left-used <= minInput && one(minInput, 1) {
		b.Errorf("%s: with %d left the least was admitted", about, left-used)
	}
	return used, admitted
}

// share is what each of several needs of what is left.
type share struct{ left, input, output int64 }

// twenties are shares of which six fit. The rest is too little for another in
// the first, where it is less than any input, and not in the second.
var twenties = []share{{500, 73, 2}, {50_000, 2_500, 5_000}}

// twenty has twenty ask at once.
func (b *chatRequests) twenty(t *testing.T, how asking, who member, s share) {
	t.Helper()
	until := make(chan struct{})
	var requests []*chatRequest
	for range 20 {
		a := b.request(s.input, s.output)
		a.held = until
		requests = append(requests, a)
	}
	used, admitted, full := b.play("twenty at once", how, who, s.left, held, requests, func() { close(until) })
	// What is left for a seventh is granted where its input leaves room.
	rest, want := s.left-6*(s.input+s.output), 6
	if rest > s.input {
		rest, want = 0, 7
	}
	if full != 6 || admitted != want || used != s.left-rest {
		t.Errorf("of %d left, %d each were needed by 20: %d were admitted, %d of them in full, and used %d", s.left, s.input+s.output, admitted, full, used)
	}
}

func TestOfTwentyThatNeed75Of500SixAreAdmittedInFull(t *testing.T) {
	withChats(t, func(t *testing.T, w *chatTest) {
		var all []member
		for i, c := range twenties {
			who := w.member(fmt.Sprintf("Twenty %d", i), 0)
			who.client.Grant(t, string(plan.Free))
			if spend(w, w.database, who, w.day, (system.IDs{}).New(), limit-c.left) {
				w.twenty(t, w.over, who, c)
			}
			all = append(all, who)
		}
		w.settled(all...)
	})
}

// heard is a client of calls without servers.
type heard struct{ last chat.Chunk }

func (s *heard) Chunk(c chat.Chunk) error {
	s.last = c
	return nil
}
func (s *heard) Alive()      {}
func (s *heard) Wait() error { return nil }

// counted counts what calls came to.
type counted struct{ calls atomic.Int64 }

func (c *counted) Record(chat.Generation) { c.calls.Add(1) }

// TestConcurrentCallsShareAnAccount sends thousands of rounds to the use cases
// and a database, without servers between them.
func TestConcurrentCallsShareAnAccount(t *testing.T) {
	seed := seeded(t)
	t.Run("on SQLite", func(t *testing.T) {
		shareAnAccount(t, seed, "sqlite://"+filepath.Join(tempdir.New(t), "collab.db"), 1)
	})
	t.Run("on Postgres with two servers", func(t *testing.T) {
		shareAnAccount(t, seed, postgres.URL(t), 2)
	})
}

func shareAnAccount(t *testing.T, seed uint64, url string, servers int) {
	const orgs, workers = 8, 3
	began := time.Now()
	b := &chatRequests{TB: t, requests: map[string]*chatRequest{}}
	registry, err := chat.NewRegistry([]chat.Model{{
		ID: "m", DisplayName: "M", Provider: "p", Tier: "standard", ContextWindow: 1_000_000, MaxOutputTokens: 128_000,
	}}, "", func(string) bool { return true })
	if err != nil {
		t.Fatal(err)
	}
	var generations counted
	var all []*chats.Chats
	var store ports.Store
	for range servers {
		db := opened(t, url)
		if err := db.Migrate(t.Context()); err != nil {
			t.Fatal(err)
		}
		store = db
		all = append(all, chats.New(chats.Options{
			Store: db, Registry: registry, Providers: map[string]ports.Models{"p": b}, Generations: &generations,
			Clock: system.Clock{}, Alarms: system.Alarms{}, IDs: system.IDs{}, Log: slog.New(slog.NewTextHandler(io.Discard, nil)), Origin: access.Origin,
			Pause: func(ctx context.Context, _ int) error { return ctx.Err() },
		}))
	}
	day := today(t)
	tenants := make([]id.Org, orgs+1) // the last one is the twenties'
	for i := range tenants {
		o := id.Org((system.IDs{}).New())
		tenants[i] = o
		if _, err := store.Directory().Organisations().Upsert(t.Context(), org.Organisation{ID: o, ProviderID: string(o)}, func(o org.Organisation) (org.Organisation, error) { return o, nil }); err != nil {
			t.Fatal(err)
		}
		free, err := plan.Unsubscribed(o).Granted(plan.Grant{Plan: plan.Free}, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		err = store.Atomic(t.Context(), func(r ports.Records) error {
			if _, err := r.Directory().Organisations().Lock(t.Context(), o); err != nil {
				return err
			}
			return r.Directory().Subscriptions().Put(t.Context(), o, free)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	how := func(n int, who member, a *chatRequest, answered func(bool)) (chat.Usage, error) {
		output := int(a.output)
		actor := org.Actor{User: who.user, Org: who.org, Role: org.Member}
		call, err := all[n%len(all)].Admit(t.Context(), actor, chat.Request{Message: a.text, MaxTokens: &output})
		if fault.Is(err, fault.Forbidden) {
			answered(false)
			return chat.Usage{}, nil
		}
		if err != nil {
			return chat.Usage{}, err
		}
		answered(true)
		var to heard
		call.Run(t.Context(), &to)
		return to.last.Usage, nil
	}
	for _, c := range twenties {
		who := member{org: tenants[orgs], user: id.User((system.IDs{}).New())}
		if spend(t, store, who, day, (system.IDs{}).New(), limit-c.left) {
			b.twenty(t, how, who, c)
		}
	}
	counts := generations.calls.Load()
	var mu sync.Mutex
	sums := map[id.Org]int64{}  // what was used; guarded by mu
	wrote := map[id.Org]int64{} // how many entries; guarded by mu
	var rounds, calls atomic.Int64
	var working sync.WaitGroup
	for n := range workers {
		working.Go(func() {
			random := rand.New(rand.NewPCG(seed, uint64(n)))
			for rounds.Add(1) <= int64(storedRounds) && !t.Failed() {
				who := member{org: tenants[random.IntN(orgs)], user: id.User((system.IDs{}).New())}
				left, manner := 1000+random.Int64N(50_000), manner(random.IntN(int(manners)))
				about := fmt.Sprintf("worker %d, %d left, manner %d", n, left, manner)
				if !spend(t, store, who, day, (system.IDs{}).New(), limit-left) {
					return
				}
				requests, release := b.round(random, manner, left)
				spent, admitted, _ := b.play(about, how, who, left, manner, requests, release)
				more, one := b.exactly(about, how, random, who, left-spent)
				want := quota.Account{Used: limit - left + spent + more}
				if a := account(t, store, who, day); a != want || a.Used > limit {
					t.Errorf("%s: the account is %+v, want %+v", about, a, want)
				}
				calls.Add(int64(admitted + one))
				mu.Lock()
				sums[who.org] += want.Used
				wrote[who.org] += int64(1 + admitted + one)
				mu.Unlock()
			}
		})
	}
	working.Wait()
	for _, o := range tenants[:orgs] {
		var used int64
		of := entries(t, store, o, day)
		for _, e := range of {
			used += e.Tokens.Total()
		}
		if used != sums[o] || int64(len(of)) != wrote[o] {
			t.Errorf("%s has %d entries that come to %d, want %d and %d", o, len(of), used, wrote[o], sums[o])
		}
	}
	if n := generations.calls.Load() - counts; n != calls.Load() {
		t.Errorf("%d calls were admitted, analytics have %d", calls.Load(), n)
	}
	t.Logf("%d rounds of %d in %s, %d calls", storedRounds, concurrent, time.Since(began).Round(time.Millisecond), calls.Load())
}
