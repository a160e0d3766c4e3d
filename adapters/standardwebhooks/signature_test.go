package standardwebhooks_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"maps"
	"strconv"
	"strings"
	"testing"
	"time"

	"collab/adapters/memory"
	"collab/adapters/standardwebhooks"
	"collab/domain/fault"
	"collab/domain/identity"
	"collab/test/must"
)

// The published vector of the scheme.
const (
	vectorSecret    = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	vectorID        = "msg_p5jXN8AQM9LWM0D4loKWxJek"
	vectorBody      = `{"test": 2432232314}`
	vectorSignature = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
	otherSecret     = "whsec_dGhpcnR5LXR3byBieXRlcyBvZiBhbm90aGVyIHNlY3JldA=="
)

var vectorTime = time.Unix(1614265330, 0)

// headers are a message's, by name.
type headers map[string]string

func (h headers) get(name string) string { return h[name] }

func signed(t testing.TB, secret, id string, at time.Time, body string) headers {
	t.Helper()
	signature := must.Do(standardwebhooks.Sign(secret, id, at, []byte(body))).Or(t)
	return headers{
		standardwebhooks.HeaderID:        id,
		standardwebhooks.HeaderTimestamp: strconv.FormatInt(at.Unix(), 10),
		standardwebhooks.HeaderSignature: signature,
	}
}

func newEvents(t testing.TB, now time.Time, secrets ...string) *standardwebhooks.Events {
	t.Helper()
	return must.Do(standardwebhooks.New(secrets, memory.NewClock(now))).Or(t)
}

// accepted reports whether the signature was accepted: the vector's body is not an event, so
// an accepted message has an error about the body.
func accepted(t *testing.T, e *standardwebhooks.Events, h headers, body string) bool {
	t.Helper()
	_, err := e.Read(h.get, []byte(body))
	switch {
	case fault.Is(err, fault.Invalid):
		return true
	case fault.Is(err, fault.Unauthenticated):
		return false
	}
	t.Fatalf("got %v", err)
	return false
}

func TestSignaturesAreThoseOfTheScheme(t *testing.T) {
	got, err := standardwebhooks.Sign(vectorSecret, vectorID, vectorTime, []byte(vectorBody))
	if err != nil || got != vectorSignature {
		t.Errorf("Sign gives %q, %v, want %q", got, err, vectorSignature)
	}
	for _, prefix := range []string{"webhook-", "svix-"} {
		h := headers{prefix + "id": vectorID, prefix + "timestamp": "1614265330", prefix + "signature": vectorSignature}
		if !accepted(t, newEvents(t, vectorTime, vectorSecret), h, vectorBody) {
			t.Errorf("the vector is refused with %s headers", prefix)
		}
	}
}

func TestUnsignedMessagesAreRefused(t *testing.T) {
	good := signed(t, vectorSecret, vectorID, vectorTime, vectorBody)
	with := func(name, value string) headers {
		h := maps.Clone(good)
		h[name] = value
		return h
	}
	mac := strings.TrimPrefix(vectorSignature, "v1,")
	for name, c := range map[string]struct {
		h    headers
		body string
	}{
		"no headers":                       {headers{}, vectorBody},
		"no id":                            {with("webhook-id", ""), vectorBody},
		"no timestamp":                     {with("webhook-timestamp", ""), vectorBody},
		"no signature":                     {with("webhook-signature", ""), vectorBody},
		"another id":                       {with("webhook-id", "msg_other"), vectorBody},
		"an id with a control character":   {with("webhook-id", vectorID+"\x00"), vectorBody},
		"another timestamp":                {with("webhook-timestamp", "1614265331"), vectorBody},
		"a timestamp in words":             {with("webhook-timestamp", "now"), vectorBody},
		"a timestamp below zero":           {with("webhook-timestamp", "-1614265330"), vectorBody},
		"a timestamp beyond any calendar":  {with("webhook-timestamp", "99999999999999999999"), vectorBody},
		"another body":                     {good, vectorBody + " "},
		"no body":                          {good, ""},
		"another version":                  {with("webhook-signature", "v1a,"+mac), vectorBody},
		"no version":                       {with("webhook-signature", mac), vectorBody},
		"a signature cut short":            {with("webhook-signature", "v1,"+mac[:20]), vectorBody},
		"an empty signature":               {with("webhook-signature", "v1,"), vectorBody},
		"a signature that is not base64":   {with("webhook-signature", "v1,!!!"), vectorBody},
		"a signature header without limit": {with("webhook-signature", strings.Repeat("v1,AAAA ", 1000)+vectorSignature), vectorBody},
		"headers of both families mixed":   {headers{"webhook-id": vectorID, "svix-timestamp": "1614265330", "svix-signature": vectorSignature}, vectorBody},
		"an id of the other family beside": {headers{"webhook-id": "msg_other", "svix-id": vectorID, "svix-timestamp": "1614265330", "svix-signature": vectorSignature}, vectorBody},
	} {
		if accepted(t, newEvents(t, vectorTime, vectorSecret), c.h, c.body) {
			t.Errorf("accepted with %s", name)
		}
	}
	for _, id := range []string{"msg\x001", "msg\n1", "msg\xff1", strings.Repeat("m", 256)} {
		if accepted(t, newEvents(t, vectorTime, vectorSecret), signed(t, vectorSecret, id, vectorTime, vectorBody), vectorBody) {
			t.Errorf("accepted with the id %q, which cannot be kept", id)
		}
	}
}

func TestSecretsCanBeRotated(t *testing.T) {
	both := newEvents(t, vectorTime, vectorSecret, otherSecret)
	for _, secret := range []string{vectorSecret, otherSecret} {
		if !accepted(t, both, signed(t, secret, vectorID, vectorTime, vectorBody), vectorBody) {
			t.Errorf("a message signed with %s is refused", secret)
		}
	}
	h := signed(t, otherSecret, vectorID, vectorTime, vectorBody)
	if accepted(t, newEvents(t, vectorTime, vectorSecret), h, vectorBody) {
		t.Error("a message signed with an unknown secret is accepted")
	}
	h["webhook-signature"] = "v1a,AAAA " + h["webhook-signature"] + " " + vectorSignature
	if !accepted(t, newEvents(t, vectorTime, vectorSecret), h, vectorBody) {
		t.Error("a message with several signatures, one of them right, is refused")
	}
}

func TestTimestampsAreAcceptedForFiveMinutesBothWays(t *testing.T) {
	h := signed(t, vectorSecret, vectorID, vectorTime, vectorBody)
	for _, sign := range []time.Duration{1, -1} {
		if !accepted(t, newEvents(t, vectorTime.Add(sign*5*time.Minute), vectorSecret), h, vectorBody) {
			t.Errorf("refused %v from its timestamp", sign*5*time.Minute)
		}
		if offset := sign * (5*time.Minute + time.Millisecond); accepted(t, newEvents(t, vectorTime.Add(offset), vectorSecret), h, vectorBody) {
			t.Errorf("accepted %v from its timestamp", offset)
		}
	}
}

func TestWithoutSecretsEverythingIsRefused(t *testing.T) {
	// A forged signature for a receiver that accepts an empty key.
	mac := hmac.New(sha256.New, nil)
	mac.Write([]byte(vectorID + ".1614265330." + vectorBody))
	h := headers{"webhook-id": vectorID, "webhook-timestamp": "1614265330", "webhook-signature": "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))}
	for _, secrets := range [][]string{nil, {}, {""}, {" ", ""}} {
		e := newEvents(t, vectorTime, secrets...)
		if accepted(t, e, h, vectorBody) || accepted(t, e, signed(t, vectorSecret, vectorID, vectorTime, vectorBody), vectorBody) {
			t.Errorf("accepted with the secrets %q", secrets)
		}
	}
}

func TestMalformedSecretsAreRefusedWithoutShowingThem(t *testing.T) {
	for _, secret := range []string{
		"whsec_", "whsec_dG9vIHNob3J0", "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whpk_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
		"whsec_not/base64/at/all/!!!!!!!!!!!!!!!!!", "whsec_" + base64.StdEncoding.EncodeToString(make([]byte, 23)),
	} {
		_, err := standardwebhooks.New([]string{vectorSecret, secret}, memory.NewClock(vectorTime))
		if err == nil || !strings.HasPrefix(err.Error(), "secret 2: ") {
			t.Errorf("%q gives %v", secret, err)
		}
		if err != nil && len(secret) > 8 && strings.Contains(err.Error(), secret[6:]) {
			t.Errorf("the error shows the secret: %v", err)
		}
		if _, err := standardwebhooks.Sign(secret, "m", vectorTime, nil); err == nil {
			t.Errorf("Sign takes %q", secret)
		}
	}
}

func TestAMessageSentAgainIsTheSameMessageWithItsOwnId(t *testing.T) {
	body := `{"type":"session.created","data":{}}`
	now := vectorTime.Add(time.Minute)
	for _, id := range []string{"msg_1", "msg_2"} {
		for _, at := range []time.Time{vectorTime, now} { // each attempt is signed
			got, err := newEvents(t, now, vectorSecret).Read(signed(t, vectorSecret, id, at, body).get, []byte(body))
			if err != nil || got.Message != id || got.Stamp.Message != id {
				t.Errorf("got %+v, %v", got, err)
			}
		}
	}
	// The signature covers the id: a message cannot be replayed under another.
	h := signed(t, vectorSecret, "msg_1", now, body)
	h["webhook-id"] = "msg_2"
	if e, err := newEvents(t, now, vectorSecret).Read(h.get, []byte(body)); !fault.Is(err, fault.Unauthenticated) || e != (identity.Event{}) {
		t.Errorf("got %+v, %v", e, err)
	}
}
