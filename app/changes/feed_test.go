package changes_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"collab/app/access"
	"collab/app/changes"
	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/object"
	"collab/domain/org"
	"collab/ports"
	"collab/test/must"
)

// in runs a test in a bubble with a fixture of its own.
func in(t *testing.T, name string, fn func(*fixture)) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) { fn(newFixture(t)) })
	})
}

// withFeed runs a test as in does, with a feed.
func withFeed(t *testing.T, name string, fn func(*fixture, *changes.Feed)) {
	t.Helper()
	in(t, name, func(w *fixture) { fn(w, w.feed()) })
}

func TestRecipientsOfAChange(t *testing.T) {
	withFeed(t, "every member gets shared changes from the present on", func(w *fixture, f *changes.Feed) {
		w.write(w.org, 2)
		a, b := w.listen(f, w.user(w.org, org.Member)), w.listen(f, w.user(w.org, org.Viewer))
		w.append(w.org, w.shared("x"), w.shared("y"))
		synctest.Wait()
		for _, l := range []*listener{a, b} {
			if at, lost := l.sub.Start(); at.N < 2 || lost {
				t.Errorf("it starts at %v, lost %v", at, lost)
			}
			w.same(l.got(), "1-3 file-changed x", "1-4 file-changed y")
		}
	})
	withFeed(t, "personal changes go to their owner alone, whatever role others have", func(w *fixture, f *changes.Feed) {
		mine, owner := w.user(w.org, org.Member), w.user(w.org, org.Owner)
		own, boss := w.listen(f, mine), w.listen(f, owner)
		gone := w.personal(mine, "gone")
		w.append(w.org, w.personal(mine, "x"), object.NewDeletion(gone.Object, owner, time.Now(), &object.Audience{Everyone: true}), w.shared("y"))
		synctest.Wait()
		w.same(own.got(), "1-1 file-changed x", "1-2 file-deleted gone", "1-3 file-changed y")
		w.same(boss.got(), "1-3 file-changed y")
	})
	withFeed(t, "a workspace's changes go to those who see it", func(w *fixture, f *changes.Feed) {
		maker, other, owner := w.user(w.org, org.Member), w.user(w.org, org.Member), w.user(w.org, org.Owner)
		made, space := w.workspace(maker)
		w.join(made, maker)
		a, b, c := w.listen(f, maker), w.listen(f, other), w.listen(f, owner)
		w.append(w.org, w.within(space, "x"))
		synctest.Wait()
		w.same(a.got(), "1-2 file-changed x")
		w.same(b.got())
		w.same(c.got(), "1-2 file-changed x")
	})
	withFeed(t, "a deletion goes to the audience stored with it", func(w *fixture, f *changes.Feed) {
		had, never, owner := w.user(w.org, org.Member), w.user(w.org, org.Member), w.user(w.org, org.Owner)
		a, b, c := w.listen(f, had), w.listen(f, never), w.listen(f, owner)
		gone := w.within(id.Workspace(w.ids.New()), "x").Object
		w.append(w.org, object.NewDeletion(gone, owner, time.Now(), &object.Audience{Managers: true, Users: []id.User{had}}))
		synctest.Wait()
		w.same(a.got(), "1-1 file-deleted x")
		w.same(b.got())
		w.same(c.got(), "1-1 file-deleted x")
	})
	withFeed(t, "changes of another organisation are not received", func(w *fixture, f *changes.Feed) {
		other := w.Organisation()
		a := w.listen(f, w.user(w.org, org.Owner))
		b := w.resume(f, w.actor(other, w.user(other, org.Owner)), "", false)
		w.write(other, 1)
		synctest.Wait()
		w.same(a.got())
		w.same(b.got(), "1-1 file-changed a.md")
	})
}

func TestInvisibleEntriesMoveTheCursor(t *testing.T) {
	withFeed(t, "and is reported once", func(w *fixture, f *changes.Feed) {
		me, other := w.user(w.org, org.Member), w.user(w.org, org.Member)
		sub := w.subscription(f, me)
		defer sub.Close()
		take := func() []string {
			synctest.Wait()
			var all []string
			for _, frame := range sub.Take(make([][]byte, 0, 8)) {
				all = append(all, string(frame))
			}
			return all
		}
		w.same(take())
		if at, moved := sub.TakeCursor(); moved {
			t.Errorf("nothing happened, and it moved to %v", at)
		}
		w.append(w.org, w.shared("x"), w.personal(other, "y"))
		w.same(take(), "1-1 file-changed x")
		if at, moved := sub.TakeCursor(); !moved || at.String() != "1-2" {
			t.Errorf("it moved to %v, %v", at, moved)
		}
		if at, moved := sub.TakeCursor(); moved {
			t.Errorf("it moved to %v again", at)
		}
		w.append(w.org, w.shared("z"))
		w.same(take(), "1-3 file-changed z")
		if at, moved := sub.TakeCursor(); moved {
			t.Errorf("it moved to %v, which a frame has named", at)
		}
	})
}

func TestResuming(t *testing.T) {
	withFeed(t, "gives missed entries and continues", func(w *fixture, f *changes.Feed) {
		me := w.actor(w.org, w.user(w.org, org.Member))
		w.write(w.org, 400) // several pages
		l := w.resume(f, me, "1-0", true)
		synctest.Wait()
		w.write(w.org, 1)
		synctest.Wait()
		got := l.got()
		if len(got) != 401 {
			t.Fatalf("it got %d of 401", len(got))
		}
		for i, frame := range got {
			if want := fmt.Sprintf("1-%d file-changed a.md", i+1); frame != want {
				t.Fatalf("event %d is %q", i, frame)
			}
		}
	})
	withFeed(t, "gives missed entries as far as they are still visible", func(w *fixture, f *changes.Feed) {
		member := w.user(w.org, org.Member)
		made, space := w.workspace(w.user(w.org, org.Owner))
		w.join(made, member)
		before := w.actor(w.org, member)
		w.append(w.org, w.within(space, "x"))
		w.leave(made, member)
		w.append(w.org, w.within(space, "y"))
		l := w.resume(f, before, "1-1", true)
		synctest.Wait()
		w.same(l.got(), "1-3 resync")
	})
	for name, from := range map[string]string{
		"a place that cannot be read":        "no place",
		"nothing where a place should be":    "",
		"a place of another log":             "2-3",
		"a place in the future":              "1-6",
		"a place before what is still there": "1-1",
	} {
		withFeed(t, name+" is answered with a resync, and then with what is new", func(w *fixture, f *changes.Feed) {
			me := w.actor(w.org, w.user(w.org, org.Member))
			w.write(w.org, 3)
			time.Sleep(time.Hour)
			w.Must(w.store.Storage().Changes().Prune(w.Context(), time.Now()))
			w.write(w.org, 2)
			l := w.resume(f, me, from, true)
			if at, lost := l.sub.Start(); at.String() != "1-5" || !lost {
				t.Errorf("it starts at %v, lost %v", at, lost)
			}
			w.write(w.org, 1)
			synctest.Wait()
			w.same(l.got(), "1-5 resync", "1-6 file-changed a.md")
			must.Is(t, 1, f.Stats().Resyncs)
		})
	}
	withFeed(t, "the oldest place that is still there goes on without", func(w *fixture, f *changes.Feed) {
		me := w.actor(w.org, w.user(w.org, org.Member))
		w.write(w.org, 3)
		time.Sleep(time.Hour)
		w.Must(w.store.Storage().Changes().Prune(w.Context(), time.Now()))
		w.write(w.org, 1)
		w.same(w.settled(w.resume(f, me, "1-3", true)), "1-4 file-changed a.md")
		w.same(w.settled(w.resume(f, me, "1-4", true)))
	})
	withFeed(t, "a resync survives another authorization", func(w *fixture, f *changes.Feed) {
		member := w.user(w.org, org.Member)
		before := w.actor(w.org, member)
		w.listen(f, w.user(w.org, org.Owner)) // the channel learns of the epoch that this moves
		w.write(w.org, 1)
		synctest.Wait()
		w.same(w.settled(w.resume(f, before, "7-7", true)), "1-1 resync")
	})
}

// settled is what a listener has once nothing moves any more.
func (w *fixture) settled(l *listener) []string {
	synctest.Wait()
	return l.got()
}

func TestASubscriberBehindTheRingReadsTheLog(t *testing.T) {
	withFeed(t, "when the ring has moved past its cursor", func(w *fixture, f *changes.Feed) {
		sub := w.subscription(f, w.user(w.org, org.Member))
		const many = 3000 // more than a ring holds
		for range many / 100 {
			w.write(w.org, 100)
			synctest.Wait()
		}
		if n := f.Stats().Reads; n != 0 {
			t.Fatalf("%d pages were read for single subscribers", n)
		}
		l := w.taking(sub)
		got := w.settled(l)
		if len(got) != many || got[0] != "1-1 file-changed a.md" || got[many-1] != fmt.Sprintf("1-%d file-changed a.md", many) {
			t.Fatalf("it got %d, from %q on", len(got), got[:1])
		}
		if n := f.Stats().Reads; n < 2 || n > many/100 {
			t.Errorf("%d pages were read", n)
		}
	})
	withFeed(t, "also past pages without visible entries", func(w *fixture, f *changes.Feed) {
		me, other := w.actor(w.org, w.user(w.org, org.Member)), w.user(w.org, org.Member)
		const many = 3000
		for range many {
			w.append(w.org, w.personal(other, "a.md"))
		}
		w.append(w.org, w.shared("b.md"))
		began := time.Now()
		l := w.resume(f, me, "1-0", true)
		w.same(w.settled(l), fmt.Sprintf("1-%d file-changed b.md", many+1))
		if waited := time.Since(began); waited > time.Second {
			t.Errorf("it waited %v", waited)
		}
	})
	withFeed(t, "when the ring is empty", func(w *fixture, f *changes.Feed) {
		sub := w.subscription(f, w.user(w.org, org.Member))
		w.write(w.org, 2)
		time.Sleep(time.Minute)
		l := w.taking(sub)
		w.same(w.settled(l), "1-1 file-changed a.md", "1-2 file-changed a.md")
		w.write(w.org, 1)
		w.same(w.settled(l)[2:], "1-3 file-changed a.md")
		must.Is(t, 1, f.Stats().Reads)
	})
	withFeed(t, "in pages of few bytes", func(w *fixture, f *changes.Feed) {
		sub := w.subscription(f, w.user(w.org, org.Member))
		defer sub.Close()
		for _, size := range []int{20 << 10, 20 << 10, 20 << 10, 20 << 10, 70 << 10, 70 << 10} {
			w.append(w.org, w.shared(strings.Repeat("a", size)))
		}
		time.Sleep(time.Minute)
		for _, want := range []int{3, 1, 1, 1} {
			sub.Take(make([][]byte, 0, 64)) // reads a page
			synctest.Wait()
			if got := sub.Take(make([][]byte, 0, 64)); len(got) != want {
				t.Errorf("a page has %d entries, want %d", len(got), want)
			}
		}
	})
	withFeed(t, "and gets a resync when the log was pruned", func(w *fixture, f *changes.Feed) {
		sub := w.subscription(f, w.user(w.org, org.Member))
		w.write(w.org, 5)
		time.Sleep(time.Minute)
		w.Must(w.store.Storage().Changes().Prune(w.Context(), time.Now()))
		l := w.taking(sub)
		w.same(w.settled(l), "1-5 resync")
	})
}

func TestSubscriptionsOfFormerMembersEnd(t *testing.T) {
	withFeed(t, "get no entry after the removal, whichever is noticed first", func(w *fixture, f *changes.Feed) {
		member, owner := w.user(w.org, org.Member), w.user(w.org, org.Owner)
		l, stays := w.listen(f, member), w.listen(f, owner)
		w.write(w.org, 1)
		synctest.Wait()
		w.remove(member)
		w.write(w.org, 1)
		synctest.Wait() // no time passes: it is the event that has it noticed
		w.same(l.got(), "1-1 file-changed a.md")
		w.same(stays.got(), "1-1 file-changed a.md", "1-2 file-changed a.md")
		w.ended(l, changes.Removed)
	})
	withFeed(t, "end within a second without a change", func(w *fixture, f *changes.Feed) {
		member := w.user(w.org, org.Member)
		l := w.listen(f, member)
		w.remove(member)
		time.Sleep(changes.PollEvery)
		w.ended(l, changes.Removed)
	})
	withFeed(t, "get no page of the log", func(w *fixture, f *changes.Feed) {
		member := w.user(w.org, org.Member)
		before := w.actor(w.org, member)
		w.write(w.org, 1)
		w.remove(member)
		l := w.resume(f, before, "1-0", true)
		w.same(w.settled(l))
		w.ended(l, changes.Removed)
	})
	withFeed(t, "end with the organisation", func(w *fixture, f *changes.Feed) {
		l := w.listen(f, w.user(w.org, org.Owner))
		w.Close(w.org)
		time.Sleep(changes.PollEvery)
		w.ended(l, changes.Removed)
	})
	in(t, "end if the organisation does not exist", func(w *fixture) {
		f := w.feed(func(o *changes.Options) { o.Epochs = noEpochs{} }, func(o *changes.Options) {
			o.Reauthorizer = func(context.Context) changes.Reauthorize {
				return func(context.Context, org.Actor) (org.Actor, error) {
					return org.Actor{}, fault.New(fault.Forbidden, "Not a member")
				}
			}
		})
		l := w.listen(f, w.user(w.org, org.Owner))
		time.Sleep(changes.PollEvery)
		w.ended(l, changes.Removed)
	})
	withFeed(t, "end as expired with the token", func(w *fixture, f *changes.Feed) {
		member := w.user(w.org, org.Member)
		request := access.NewContext(w.Context(), access.Request{Expires: time.Now().Add(time.Minute)})
		l := w.subscribe(request, f, w.actor(w.org, member), "", false)
		time.Sleep(time.Minute)
		w.user(w.org, org.Member) // moves the epoch
		w.write(w.org, 1)
		w.same(w.settled(l))
		w.ended(l, changes.Expired)
	})
}

func TestChangesOfVisibility(t *testing.T) {
	withFeed(t, "grows and shrinks with the membership of a team", func(w *fixture, f *changes.Feed) {
		member := w.user(w.org, org.Member)
		made, space := w.workspace(w.user(w.org, org.Owner))
		l := w.listen(f, member)
		w.append(w.org, w.within(space, "before"))
		w.join(made, member)
		w.append(w.org, w.within(space, "meanwhile"))
		synctest.Wait()
		w.leave(made, member)
		w.append(w.org, w.within(space, "after"))
		got := w.settled(l)
		if len(got) > 0 && got[0] == "1-1 file-changed before" {
			got = got[1:] // they see it by the time that it is handed out
		}
		w.same(got, "1-2 resync", "1-3 file-changed meanwhile", "1-4 resync")
	})
	withFeed(t, "a batch has one resync, with an id of its own", func(w *fixture, f *changes.Feed) {
		member := w.user(w.org, org.Member)
		l := w.listen(f, member)
		again := object.NewAccessChange(object.Audience{Users: []id.User{member}}, "", time.Now())
		w.append(w.org, w.shared("a"), again, again, w.shared("b"), again)
		w.same(w.settled(l), "1-1 file-changed a", "1-2 resync", "1-4 file-changed b")
		if at, moved := l.sub.TakeCursor(); !moved || at.N != 5 {
			t.Errorf("the place is %v", at)
		}
		w.append(w.org, again)
		w.same(w.settled(l)[3:], "1-6 resync")
	})
	withFeed(t, "others get no resync", func(w *fixture, f *changes.Feed) {
		l := w.listen(f, w.user(w.org, org.Owner))
		w.append(w.org, object.NewAccessChange(object.Audience{Users: []id.User{w.user(w.org, org.Member)}}, "", time.Now()))
		w.same(w.settled(l))
	})
}

func TestFailuresOfStoreAndBus(t *testing.T) {
	in(t, "a lost hint costs a second at most", func(w *fixture) {
		f := w.feed(cut)
		l := w.listen(f, w.user(w.org, org.Member))
		synctest.Wait()
		w.write(w.org, 3)
		w.same(w.settled(l))
		time.Sleep(changes.PollEvery)
		w.same(w.settled(l), "1-1 file-changed a.md", "1-2 file-changed a.md", "1-3 file-changed a.md")
	})
	for about, fail := range map[string]func() error{"that fails": func() error { return errDown }, "that panics": func() error { panic(errDown) }} {
		in(t, "a store "+about+" delays entries, and is logged once", func(w *fixture) {
			by := controlledStore{fail: fail}
			f := w.feed(steer(&by))
			l := w.listen(f, w.user(w.org, org.Member))
			synctest.Wait()
			by.down.Store(true)
			w.write(w.org, 3)
			time.Sleep(10 * time.Second)
			w.same(w.settled(l))
			by.down.Store(false)
			time.Sleep(2 * changes.PollEvery)
			w.same(w.settled(l), "1-1 file-changed a.md", "1-2 file-changed a.md", "1-3 file-changed a.md")
			if log := w.events.String(); strings.Count(log, "change log read failed") != 1 || strings.Count(log, "change log readable again") != 1 {
				t.Errorf("the log is %s", log)
			}
		})
		in(t, "an authorization "+about+" is repeated before any entry is handed out", func(w *fixture) {
			var down atomic.Bool
			f := w.feed(func(o *changes.Options) {
				of := o.Reauthorizer
				o.Reauthorizer = func(request context.Context) changes.Reauthorize {
					again := of(request)
					return func(ctx context.Context, a org.Actor) (org.Actor, error) {
						if down.Load() {
							return org.Actor{}, fail()
						}
						return again(ctx, a)
					}
				}
			})
			l := w.listen(f, w.user(w.org, org.Member))
			down.Store(true)
			w.user(w.org, org.Member) // moves the epoch
			w.write(w.org, 1)
			time.Sleep(10 * time.Second)
			w.same(w.settled(l))
			down.Store(false)
			time.Sleep(changes.PollEvery)
			w.same(w.settled(l), "1-1 file-changed a.md")
		})
	}
	in(t, "another log in the place of the one that was there starts over", func(w *fixture) {
		var by controlledStore
		f := w.feed(steer(&by))
		l := w.listen(f, w.user(w.org, org.Member))
		w.write(w.org, 2)
		synctest.Wait()
		by.epoch.Store(1)
		time.Sleep(changes.PollEvery)
		synctest.Wait()
		w.write(w.org, 1)
		w.same(w.settled(l), "1-1 file-changed a.md", "1-2 file-changed a.md", "2-2 resync", "2-3 file-changed a.md")
	})
	in(t, "a subscription to another log than ours has it looked at at once", func(w *fixture) {
		var by controlledStore
		f := w.feed(steer(&by))
		w.write(w.org, 2)
		first := w.listen(f, w.user(w.org, org.Member))
		synctest.Wait()
		by.epoch.Store(1)
		second := w.resume(f, w.actor(w.org, w.user(w.org, org.Member)), "2-1", true)
		w.same(w.settled(second), "2-2 file-changed a.md")
		w.same(w.settled(first), "2-2 resync")
	})
	in(t, "an entry that is read while a subscriber looks at another log is not left behind", func(w *fixture) {
		var by controlledStore
		f := w.feed(steer(&by))
		w.write(w.org, 2)
		by.epoch.Store(1)
		sub := w.subscription(f, w.user(w.org, org.Member))
		by.epoch.Store(0)
		time.Sleep(changes.PollEvery)
		synctest.Wait() // the channel is at the older log
		by.epoch.Store(1)
		caughtUp := func() {
			time.Sleep(changes.PollEvery)
			w.write(w.org, 1)
			time.Sleep(changes.PollEvery)
		}
		by.heads.Store(&caughtUp)
		l := w.taking(sub)
		time.Sleep(3 * changes.PollEvery)
		w.same(w.settled(l), "2-3 file-changed a.md")
	})
}

func TestAThousandSubscribersOfOneOrganisation(t *testing.T) {
	in(t, "get each event once, which is read and encoded once", func(w *fixture) {
		var by controlledStore
		var encoded atomic.Int64
		f := w.feed(steer(&by), func(o *changes.Options) {
			o.Encode = func(at object.Cursor, c object.Change) []byte {
				encoded.Add(1)
				return encode(at, c)
			}
		})
		var all []*listener
		for range 20 {
			a := w.actor(w.org, w.user(w.org, org.Member))
			for range 50 {
				all = append(all, w.resume(f, a, "", false))
			}
		}
		must.Is(t, 1000, f.Stats().Subscribers)
		synctest.Wait()
		by.lists.Store(0)
		w.write(w.org, 1)
		synctest.Wait()
		for _, l := range all {
			w.same(l.got(), "1-1 file-changed a.md")
		}
		// The look whether there is more after that one is the second.
		if n := by.lists.Load(); n > 2 {
			t.Errorf("the log was read %d times", n)
		}
		must.Is(t, 1, encoded.Load())
		must.Is(t, 1000, f.Stats().Delivered)
		for _, l := range all {
			l.close()
		}
		must.Is(t, 0, f.Stats().Subscribers)
	})
}

func TestFrequentEntriesAreBatched(t *testing.T) {
	// listen has so many subscribers who were told of one entry.
	listen := func(w *fixture, many int, by *controlledStore, change ...func(*changes.Options)) (all []*listener) {
		f := w.feed(append(change, steer(by))...)
		a := w.actor(w.org, w.user(w.org, org.Member))
		for range many {
			all = append(all, w.resume(f, a, "", false))
		}
		time.Sleep(time.Second)
		w.write(w.org, 1)
		synctest.Wait()
		w.same(all[0].got(), "1-1 file-changed a.md")
		by.lists.Store(0)
		return all
	}
	in(t, "where many listen", func(w *fixture) {
		var by controlledStore
		all := listen(w, 100, &by)
		for range 10 {
			w.write(w.org, 1)
			synctest.Wait()
		}
		must.Is(t, 0, by.lists.Load())
		time.Sleep(4 * time.Millisecond)
		for _, l := range all {
			if got := w.settled(l); len(got) != 11 || got[10] != "1-11 file-changed a.md" {
				t.Fatalf("after the rest they have %q", got)
			}
		}
		if n := by.lists.Load(); n > 2 {
			t.Errorf("the log was read %d times", n)
		}
	})
	in(t, "and do not where few do", func(w *fixture) {
		var by controlledStore
		all := listen(w, 10, &by)
		w.write(w.org, 1)
		w.same(w.settled(all[0]), "1-1 file-changed a.md", "1-2 file-changed a.md")
	})
	in(t, "after the clock was set back, too", func(w *fixture) {
		var by controlledStore
		var clock movedClock
		all := listen(w, 100, &by, func(o *changes.Options) { o.Clock = &clock })
		clock.by.Store(int64(-time.Minute))
		w.write(w.org, 1)
		time.Sleep(time.Second)
		w.same(w.settled(all[0]), "1-1 file-changed a.md", "1-2 file-changed a.md")
	})
}

// movedClock is the system's clock, moved by a duration.
type movedClock struct{ by atomic.Int64 }

func (c *movedClock) Now() time.Time { return time.Now().Add(time.Duration(c.by.Load())) }

// syncBus is a bus that has delivered a hint when it is published.
type syncBus struct {
	hear func(object.Hint)
}

func (d *syncBus) Publish(h object.Hint) { d.hear(h) }

func (d *syncBus) Subscribe(fn func(object.Hint)) (func(), error) {
	d.hear = fn
	return func() {}, nil
}

func TestBusyOrganisationsDoNotDelayOthers(t *testing.T) {
	in(t, "for an entry", func(w *fixture) {
		const enough = 10_000
		var by controlledStore
		var bus syncBus
		var readings, before atomic.Int64
		var busy sync.Map // by organisation
		written := make(chan struct{})
		by.then = func(o id.Org) {
			if _, ok := busy.Load(o); !ok {
				before.CompareAndSwap(-1, readings.Load())
			} else if n := readings.Add(1); n < enough {
				if n > 100 {
					<-written
				}
				bus.Publish(object.Hint{Org: o, N: 1 << 40})
			}
		}
		f := w.feed(steer(&by), func(o *changes.Options) { o.Bus = &bus })
		listen := func(o id.Org) *listener {
			return w.resume(f, w.actor(o, w.user(o, org.Member)), "", false)
		}
		quiet := listen(w.org)
		for range 10 {
			o := w.Organisation()
			listen(o)
			busy.Store(o, true)
		}
		synctest.Wait()
		before.Store(-1)
		busy.Range(func(o, _ any) bool {
			bus.Publish(object.Hint{Org: o.(id.Org), N: 1 << 40})
			return true
		})
		synctest.Wait()
		w.write(w.org, 1)
		bus.Publish(object.Hint{Org: w.org, N: 1})
		close(written)
		w.same(w.settled(quiet), "1-1 file-changed a.md")
		if n := before.Load(); n < 0 || n > enough/2 || readings.Load() < enough {
			t.Errorf("it was read after %d of %d readings for others", n, readings.Load())
		}
	})
}

// TestNothingIsMissedOrRepeatedAcrossServers has writers append while subscribers leave and come back at random,
// at two servers, one of which gets no hints and polls.
func TestNothingIsMissedOrRepeatedAcrossServers(t *testing.T) {
	in(t, "while writers append", func(w *fixture) {
		feeds := []*changes.Feed{w.feed(), w.feed(cut)}
		const writers, each, clients = 4, 200, 12
		var done sync.WaitGroup
		for range writers {
			done.Go(func() {
				for range each {
					w.write(w.org, 1)
					time.Sleep(time.Duration(rand.IntN(20)) * time.Millisecond)
				}
			})
		}
		got := make([][]string, clients)
		for i := range got {
			a := w.actor(w.org, w.user(w.org, org.Member))
			done.Go(func() {
				last := "1-0"
				for len(got[i]) < writers*each {
					l := w.resume(feeds[rand.IntN(2)], a, last, true)
					time.Sleep(time.Duration(rand.IntN(1500)) * time.Millisecond)
					l.close()
					if all := l.got(); len(all) > 0 {
						got[i] = append(got[i], all...)
						last = l.last()
					}
				}
			})
		}
		done.Wait()
		for i, all := range got {
			for n, frame := range all {
				if want := fmt.Sprintf("1-%d file-changed a.md", n+1); frame != want {
					t.Fatalf("client %d: event %d is %q", i, n, frame)
				}
			}
			if len(all) != writers*each {
				t.Errorf("client %d got %d", i, len(all))
			}
		}
	})
}

func TestEndsOfSubscriptions(t *testing.T) {
	withFeed(t, "comes to all at once, and to later subscribers", func(w *fixture, f *changes.Feed) {
		a := w.actor(w.org, w.user(w.org, org.Member))
		l := w.resume(f, a, "", false)
		ended := make(chan struct{})
		l.sub.OnEnd(func() { close(ended) })
		synctest.Wait()
		f.Drain()
		<-ended
		<-l.done
		w.ended(l, changes.Drained)
		must.Fail(t, must.ErrorOf(f.Subscribe(w.Context(), a, "", false)), fault.Unavailable) // the feed is draining
		w.Must(f.Close(w.Context()))
	})
	withFeed(t, "waits for open subscriptions until its context ends", func(w *fixture, f *changes.Feed) {
		sub := w.subscription(f, w.user(w.org, org.Member))
		short, cancel := context.WithTimeout(w.Context(), time.Second)
		defer cancel()
		must.FailIs(t, f.Close(short), context.DeadlineExceeded)
		called := false
		sub.OnEnd(func() { called = true })
		if !called {
			t.Error("OnEnd after the end does not call")
		}
		sub.Close()
		w.Must(f.Close(w.Context()))
	})
	in(t, "takes no time without subscribers", func(w *fixture) {
		none, cancel := context.WithCancel(w.Context())
		cancel()
		for range 50 {
			w.Must(w.feed().Close(none))
		}
	})
	withFeed(t, "does not call OnEnd of a closed subscription", func(w *fixture, f *changes.Feed) {
		sub := w.subscription(f, w.user(w.org, org.Member))
		sub.OnEnd(func() { t.Error("it was called") })
		sub.Close()
		f.Drain()
	})
	withFeed(t, "of one subscription makes room for another of the same user", func(w *fixture, f *changes.Feed) {
		a := w.actor(w.org, w.user(w.org, org.Member))
		var open []*listener
		for range 100 {
			open = append(open, w.resume(f, a, "", false))
		}
		must.Fail(t, must.ErrorOf(f.Subscribe(w.Context(), a, "", false)), fault.Limited) // one too many
		for _, l := range open {
			if !l.sub.ShouldProbe() || l.sub.ShouldProbe() {
				t.Error("a subscription is not told once that its client may be gone")
			}
		}
		w.listen(f, w.user(w.org, org.Member))
		open[0].close()
		w.resume(f, a, "", false)
	})
	in(t, "of the last subscription has the log left alone", func(w *fixture) {
		var by controlledStore
		f := w.feed(steer(&by))
		l := w.listen(f, w.user(w.org, org.Member))
		synctest.Wait()
		l.close()
		by.lists.Store(0)
		w.write(w.org, 3)
		time.Sleep(10 * time.Second)
		must.Is(t, 0, by.lists.Load())
	})
}

func TestStartFailsIfTheBusCannotBeSubscribed(t *testing.T) {
	f := changes.New(changes.Options{Store: newFixture(t).store, Bus: lossyBus{}})
	must.FailIs(t, f.Start(nil), errDown)
	must.NoError(t, f.Close(t.Context()))
}

type lossyBus struct{ ports.Bus }

func (lossyBus) Subscribe(func(object.Hint)) (func(), error) { return nil, errDown }

// noEpochs is Epochs where there are no organisations.
type noEpochs struct{ epochs }

func (noEpochs) Epochs(context.Context, []id.Org) (map[id.Org]int64, error) { return nil, nil }

func (noEpochs) Entries(context.Context, id.Org, int64, int) ([]object.Change, int64, error) {
	return nil, 0, fault.Missing("Organisation")
}
