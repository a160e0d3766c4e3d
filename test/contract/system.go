package contract

import (
	"bytes"
	"encoding/base64"
	"slices"
	"sync"
	"testing"
	"time"

	"collab/domain/fault"
	"collab/domain/id"
	"collab/ports"
	"collab/test/must"
)

// Clock is the suite of ports.Clock.
func Clock(t *testing.T, clock ports.Clock) {
	t.Run("the time is in UTC and whole milliseconds", func(t *testing.T) {
		now := clock.Now()
		if now.Location() != time.UTC || !now.Equal(now.Truncate(time.Millisecond)) {
			t.Fatalf("the time is %v", now)
		}
	})
	t.Run("the time does not go back", func(t *testing.T) {
		before := clock.Now()
		for range 1000 {
			now := clock.Now()
			if now.Before(before) {
				t.Fatalf("%v follows %v", now, before)
			}
			before = now
		}
	})
}

// Alarms is the suite of ports.Alarms. Pass lets a time pass, and returns when
// what that set off has been done.
func Alarms(t *testing.T, alarms ports.Alarms, pass func(time.Duration)) {
	calls := make(chan string, 10)
	set := func(name string, after time.Duration) ports.Alarm {
		return alarms.Set(after, func() { calls <- name })
	}
	called := func() (names []string) {
		for len(calls) > 0 {
			names = append(names, <-calls)
		}
		slices.Sort(names)
		return names
	}
	expect := func(when string, want ...string) {
		t.Helper()
		if got := called(); !slices.Equal(got, want) {
			t.Fatalf("%s: %v went off, want %v", when, got, want)
		}
	}
	first, second, stopped := set("first", time.Second), set("second", time.Second), set("stopped", time.Second)
	stopped.Stop()
	expect("before the time")
	pass(900 * time.Millisecond)
	second.Reset(time.Second)
	expect("just before the time")
	pass(200 * time.Millisecond)
	expect("after the time", "first")
	first.Reset(time.Second)
	stopped.Reset(time.Second)
	pass(900 * time.Millisecond)
	expect("after the time that was begun anew", "second")
	pass(time.Hour)
	expect("later")
	first.Stop()
	second.Stop()
}

// made calls next from many goroutines at once and returns what each of them
// got, in its order.
func made(next func() string) [][]string {
	const each = 200
	all := make([][]string, concurrent)
	var done sync.WaitGroup
	for i := range all {
		done.Go(func() {
			for range each {
				all[i] = append(all[i], next())
			}
		})
	}
	done.Wait()
	return all
}

// distinct ends the test if a string is there twice.
func distinct(t *testing.T, all [][]string) {
	t.Helper()
	sorted := slices.Sorted(slices.Values(slices.Concat(all...)))
	if n := len(slices.Compact(slices.Clone(sorted))); n != len(sorted) {
		t.Fatalf("of %d only %d are distinct", len(sorted), n)
	}
}

// IDs is the suite of ports.IDs.
func IDs(t *testing.T, ids ports.IDs) {
	t.Run("an id is a UUIDv7 in canonical form", func(t *testing.T) {
		for range 100 {
			s := ids.New()
			if _, ok := id.Parse[id.Task](s); !ok || s[14] != '7' || !bytes.ContainsRune([]byte("89ab"), rune(s[19])) {
				t.Fatalf("the id is %q", s)
			}
		}
	})
	t.Run("every id is greater than those before, from many goroutines too", func(t *testing.T) {
		first := ids.New()
		all := made(ids.New)
		last := ids.New()
		distinct(t, append(all, []string{first, last}))
		for _, mine := range all {
			mine = slices.Concat([]string{first}, mine, []string{last})
			if !slices.IsSorted(mine) {
				t.Fatalf("not in order: %q", mine)
			}
		}
	})
}

// Secrets is the suite of ports.Secrets.
func Secrets(t *testing.T, secrets ports.Secrets) {
	t.Run("a secret is 256 bits in the URL-safe alphabet without padding", func(t *testing.T) {
		for range 100 {
			s := secrets.Secret()
			if b, err := base64.RawURLEncoding.Strict().DecodeString(s); err != nil || len(b) != 32 {
				t.Fatalf("the secret is %q", s)
			}
		}
	})
	t.Run("no secret is made twice, from many goroutines too", func(t *testing.T) {
		distinct(t, made(secrets.Secret))
	})
}

// Sealer is the suite of ports.Sealer.
func Sealer(t *testing.T, s ports.Sealer) {
	seal := func(t *testing.T, plain, context string) []byte {
		t.Helper()
		return must.Do(s.Seal([]byte(plain), []byte(context))).Or(t)
	}
	refused := func(t *testing.T, sealed []byte, context string) {
		t.Helper()
		plain, err := s.Open(sealed, []byte(context))
		if !fault.Is(err, fault.Invalid) || len(plain) > 0 {
			t.Fatalf("Open has returned %q and %v, want an Invalid error alone", plain, err)
		}
	}
	opened := func(t *testing.T, sealed []byte, context, want string) {
		t.Helper()
		if plain, err := s.Open(sealed, []byte(context)); err != nil || string(plain) != want {
			t.Fatalf("Open has returned %q and %v, want %q", plain, err, want)
		}
	}
	t.Run("what was sealed is opened with the same context", func(t *testing.T) {
		for _, plain := range []string{"", "x", "a secret\x00\xff", string(make([]byte, 1<<16))} {
			for _, context := range []string{"", "org/1"} {
				opened(t, seal(t, plain, context), context, plain)
			}
		}
	})
	t.Run("another context opens nothing", func(t *testing.T) {
		for _, c := range [][2]string{{"org/1", "org/2"}, {"org/1", ""}, {"", "org/1"}, {"org/1", "org/1 "}} {
			refused(t, seal(t, "a secret", c[0]), c[1])
		}
	})
	t.Run("what was changed, cut or lengthened opens nothing", func(t *testing.T) {
		sealed := seal(t, "a secret", "org/1")
		for i := range sealed {
			changed := slices.Clone(sealed)
			changed[i] ^= 1
			refused(t, changed, "org/1")
			refused(t, sealed[:i], "org/1")
		}
		refused(t, append(slices.Clone(sealed), 0), "org/1")
		refused(t, nil, "org/1")
		refused(t, []byte("never sealed, but long enough to look as if it might have been"), "org/1")
		opened(t, sealed, "org/1", "a secret")
	})
	t.Run("what was sealed does not show the plain text, and twice is not the same", func(t *testing.T) {
		plain := "a rather long secret"
		a, b := seal(t, plain, "org/1"), seal(t, plain, "org/1")
		if bytes.Contains(a, []byte(plain)) || bytes.Equal(a, b) {
			t.Fatalf("sealed are %q and %q", a, b)
		}
	})
	t.Run("what was sealed just now is not old, and what nobody sealed is", func(t *testing.T) {
		for range 100 {
			if s.OldKey(seal(t, "a secret", "org/1")) {
				t.Fatal("it is old")
			}
		}
		for _, never := range [][]byte{nil, {1}, []byte("never sealed")} {
			if !s.OldKey(never) {
				t.Fatalf("%q is not old", never)
			}
		}
	})
	t.Run("what is passed in and handed out is the caller's", func(t *testing.T) {
		plain, context := []byte("a secret"), []byte("org/1")
		sealed, err := s.Seal(plain, context)
		if err != nil || string(plain) != "a secret" || string(context) != "org/1" {
			t.Fatalf("%q, %q and %v", plain, context, err)
		}
		plain[0], context[0] = 'X', 'X'
		kept := slices.Clone(sealed)
		out, err := s.Open(sealed, []byte("org/1"))
		if err != nil || string(out) != "a secret" || !bytes.Equal(sealed, kept) {
			t.Fatalf("%q and %v", out, err)
		}
		out[0] = 'X'
		opened(t, sealed, "org/1", "a secret")
	})
	mac := func(t *testing.T, data, context string) []byte {
		t.Helper()
		return must.Do(s.MAC([]byte(data), []byte(context))).Or(t)
	}
	t.Run("a code is the same for the same data and context, and verifies with them alone", func(t *testing.T) {
		made := mac(t, "data", "org/1")
		if !bytes.Equal(made, mac(t, "data", "org/1")) {
			t.Error("two codes of the same are not the same")
		}
		for _, c := range []struct {
			data, context string
			want          bool
		}{{"data", "org/1", true}, {"data ", "org/1", false}, {"", "org/1", false}, {"data", "org/2", false}, {"dat", "aorg/1", false}, {"data", "", false}} {
			if got, err := s.Verify(made, []byte(c.data), []byte(c.context)); err != nil || got != c.want {
				t.Errorf("the code of %q in %q: %t, %v", c.data, c.context, got, err)
			}
		}
	})
	t.Run("a code that was changed, cut or lengthened does not verify", func(t *testing.T) {
		made := mac(t, "data", "org/1")
		wrong := [][]byte{nil, append(slices.Clone(made), 0), seal(t, "data", "org/1")}
		for i := range made {
			changed := slices.Clone(made)
			changed[i] ^= 1
			wrong = append(wrong, changed, made[:i])
		}
		for _, w := range wrong {
			if ok, err := s.Verify(w, []byte("data"), []byte("org/1")); ok || err != nil && !fault.Is(err, fault.Invalid) {
				t.Errorf("%x: %t, %v", w, ok, err)
			}
		}
	})
	t.Run("many seal and open at once", func(t *testing.T) {
		for _, err := range concurrently(concurrent, func(i int) error {
			plain := bytes.Repeat([]byte{byte(i)}, 100)
			sealed, err := s.Seal(plain, []byte("org/1"))
			if err != nil {
				return err
			}
			out, err := s.Open(sealed, []byte("org/1"))
			if err == nil && !bytes.Equal(out, plain) {
				return fault.New(fault.Internal, "Another's secret came out")
			}
			return err
		}) {
			must.NoError(t, err)
		}
	})
}
