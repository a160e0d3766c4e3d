package system_test

import (
	"encoding/base64"
	"sync"
	"testing"
	"time"

	"collab/adapters/system"
	"collab/domain/id"

	"github.com/google/uuid"
)

func TestTheClockTellsUTCInWholeMilliseconds(t *testing.T) {
	before := time.Now().Add(-time.Millisecond)
	now := system.Clock{}.Now()
	if now.Location() != time.UTC || now.Nanosecond()%int(time.Millisecond) != 0 {
		t.Errorf("got %v", now)
	}
	if now.Before(before) || now.After(time.Now()) {
		t.Errorf("got %v, which is not now", now)
	}
}

func TestIdentifiersOnlyGrowAlsoWhenManyAskAtOnce(t *testing.T) {
	const callers, each = 8, 5_000
	lists := make([][]string, callers)
	var wg sync.WaitGroup
	for i := range lists {
		wg.Go(func() {
			for range each {
				lists[i] = append(lists[i], system.IDs{}.New())
			}
		})
	}
	wg.Wait()
	seen := map[string]bool{}
	for _, list := range lists {
		last := ""
		for _, s := range list {
			u, err := uuid.Parse(s)
			if _, ok := id.Parse[id.Task](s); err != nil || !ok || u.Version() != 7 || u.Variant() != uuid.RFC4122 {
				t.Fatalf("%q is not a UUIDv7 in canonical form", s)
			}
			if s <= last {
				t.Fatalf("%s came after %s", s, last)
			}
			seen[s], last = true, s
		}
	}
	if len(seen) != callers*each {
		t.Errorf("%d identifiers are different, want %d", len(seen), callers*each)
	}
	after := system.IDs{}.New()
	for s := range seen {
		if s >= after {
			t.Fatalf("%s came after %s", after, s)
		}
	}
}

func TestSecretsAre256BitsAndNeverTheSame(t *testing.T) {
	seen := map[string]bool{}
	for range 1_000 {
		s := system.Secrets{}.Secret()
		b, err := base64.RawURLEncoding.Strict().DecodeString(s)
		if err != nil || len(b) != 32 || seen[s] {
			t.Fatalf("got %q: %d bytes, %v", s, len(b), err)
		}
		seen[s] = true
	}
}
