package idempotency

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"collab/adapters/memory"
	"collab/domain/fault"
	"collab/ports"
	"collab/test/must"
)

// sealer is a keyset of one key, whose number everything that it makes begins with.
type sealer struct {
	ports.Sealer // of which keys use what is below
	key          byte
}

var errKey = errors.New("the key is not known")

func (s sealer) Seal(plain, _ []byte) ([]byte, error) {
	sealed := []byte{s.key}
	for _, b := range plain {
		sealed = append(sealed, b^0xff)
	}
	return sealed, nil
}

func (s sealer) Open(sealed, context []byte) ([]byte, error) {
	if len(sealed) == 0 || sealed[0] != s.key {
		return nil, errKey
	}
	plain, err := s.Seal(sealed[1:], context)
	return plain[1:], err
}

func (s sealer) MAC(data, context []byte) ([]byte, error) {
	sum := sha256.Sum256(slices.Concat([]byte{s.key}, context, data))
	return append([]byte{s.key}, sum[:]...), nil
}

func (s sealer) Verify(mac, data, context []byte) (bool, error) {
	if len(mac) != 1+sha256.Size || mac[0] != s.key {
		return false, errKey
	}
	want, err := s.MAC(data, context)
	return bytes.Equal(mac, want), err
}

func TestRecordsHaveNeitherPlainResponsesNorPlainFingerprints(t *testing.T) {
	store, clock, claims := memory.NewStore(), memory.NewClock(time.Unix(1_800_000_000, 0)), &memory.Secrets{}
	s := New(store, sealer{key: 1}, clock, claims)
	request, response := sha256.Sum256([]byte(`{"password":"hunter2"}`)), []byte("the answer")
	begin := func(s *Idempotency, request [32]byte) (*Attempt, error) {
		return s.Begin(t.Context(), "caller", "POST /test", "key", request)
	}
	first, err := begin(s, request)
	if err == nil {
		err = first.Finish(t.Context(), response)
	}
	must.NoError(t, err)
	again := must.Do(begin(s, request)).Or(t)
	if got, done := again.Response(); !done || !bytes.Equal(got, response) {
		t.Errorf("the answer is %q, %v", got, done)
	}
	if r := again.record; strings.Contains(r.Fingerprint, hex.EncodeToString(request[:])) || bytes.Contains(r.Answer, response) {
		t.Errorf("stored is %+v", r)
	}
	must.Fail(t, must.ErrorOf(begin(s, sha256.Sum256([]byte(`{"password":"hunter3"}`)))), fault.Mismatch) // another request
	must.Fail(t, must.ErrorOf(begin(New(store, sealer{key: 2}, clock, claims), request)), fault.Conflict) // without the key of the first
	for _, earlier := range []string{strings.Repeat("0", 64), "no digest"} {
		r := again.record
		r.Fingerprint = earlier
		must.NoError(t, store.Journal().Replays().Finish(t.Context(), r))
		if _, err := begin(s, request); !fault.Is(err, fault.Conflict) {
			t.Errorf("with the fingerprint %s: %v", earlier, err)
		}
	}
}
