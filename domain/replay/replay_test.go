package replay_test

import (
	"testing"
	"time"

	"collab/domain/id"
	"collab/domain/replay"
)

func TestAttemptsOfARequestMakeOneRecord(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	first := replay.RecordID([]byte("one"), now)
	if _, ok := id.Parse[id.Task](first); !ok || first[14] != '7' {
		t.Errorf("%s is no UUIDv7", first)
	}
	if again := replay.RecordID([]byte("one"), now.Add(replay.Retention)); again != first {
		t.Errorf("a later attempt makes %s, the first one made %s", again, first)
	}
	if other := replay.RecordID([]byte("two"), now); other == first {
		t.Errorf("another request makes %s too", other)
	}
}
