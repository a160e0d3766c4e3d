package integration

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"

	"collab/domain/chat"
	"collab/domain/plan"
	"collab/domain/quota"
	"collab/test/contract/provider"
	"collab/test/race"
)

// chat requests once, and checks that the request is answered with the status. Of
// one that is refused nothing reaches the provider.
func (w *chatTest) chat(n int, who member, status int) {
	w.Helper()
	a := w.request(minInput, 10)
	got, body, err := who.client.At(w.servers[n%len(w.servers)]).Do("POST", "/chat", json.RawMessage(a.body(chatModels[0])))
	if err != nil || got != status {
		w.Errorf("request %d is answered with %d %s, %v; want %d", n, got, body, err, status)
	}
	if asked := a.allowed.Load() > 0; asked != (status == http.StatusOK) {
		w.Errorf("request %d, which is answered with %d, reached the provider: %t", n, got, asked)
	}
}

// TestWhatBecomesOfAMemberIsFeltByTheNextChat has one server know a member, and
// another change what they may. Nothing is left of a chat that is refused.
func TestWhatBecomesOfAMemberIsFeltByTheNextChat(t *testing.T) {
	race.Skip(t, "its requests come one after another")
	withChats(t, func(t *testing.T, w *chatTest) {
		const rounds = 5
		owner := w.member("Standing", 0)
		owner.client.Grant(t, string(plan.Free))
		all := []member{owner}
		for i := range rounds {
			who := w.member("Standing", i+1)
			all = append(all, who)
			// Each server knows the member.
			w.chat(i, who, 200)
			w.chat(i+1, who, 200)
			elsewhere := owner.client.At(w.servers[(i+1)%len(w.servers)])
			role := func(r string) {
				elsewhere.Must(t, 200, "PATCH", fmt.Sprintf("/org/members/%s/role", who.user), map[string]string{"role": r}, nil)
			}
			role("VIEWER")
			w.chat(i, who, 403)
			role("MEMBER")
			w.chat(i, who, 200)
			elsewhere.Grant(t, string(plan.None))
			w.chat(i, who, 403)
			elsewhere.Grant(t, string(plan.Free))
			w.chat(i, who, 200)
			elsewhere.Must(t, 200, "DELETE", "/org/members/"+string(who.user), nil, nil)
			w.chat(i, who, 403)
			w.chat(i+1, who, 403)
		}
		// A chat ends when what it used is kept.
		if n := w.leases(); n != 0 {
			t.Errorf("%d leases are left", n)
		}
		outcomes := map[chat.Outcome]int{}
		for _, e := range entries(t, w.database, owner.org, w.day) {
			outcomes[e.Outcome]++
		}
		if outcomes[chat.Completed] != 4*rounds || len(outcomes) != 1 {
			t.Errorf("the ledger has %v, want %d completed", outcomes, 4*rounds)
		}
		for _, who := range all[1:] {
			if a, want := account(t, w.database, who, w.day), (quota.Account{Used: 4 * (minInput + 10)}); a != want {
				t.Errorf("the account of %s is %+v, want %+v", who.user, a, want)
			}
		}
	})
}

// TestAnAnswerThatHasBegunGoesOnWhenItsSessionEnds ends the session of a chat on
// another server than the one that answers it.
func TestAnAnswerThatHasBegunGoesOnWhenItsSessionEnds(t *testing.T) {
	withChats(t, func(t *testing.T, w *chatTest) {
		who, again := w.member("Signed out", 0), w.member("Signed out", 0)
		who.client.Grant(t, string(plan.Free))
		a, ended := w.request(minInput, 10), make(chan struct{})
		a.steps = provider.Script{provider.Text("one"), provider.Hold(ended), provider.Text("two")}
		l, err := w.open(w.servers[0], chatModels[0], who, a)
		if err != nil || !l.head(t) {
			t.Fatal(err)
		}
		defer l.Close()
		if err := chunks(1)(l, nil); err != nil {
			t.Fatal(err)
		}
		again.client.At(w.servers[len(w.servers)-1]).Must(t, 200, "DELETE", "/auth/sessions", nil, nil)
		w.chat(0, who, 401)
		close(ended)
		if f, err := last(l.events); err != nil || f.Type != "done" {
			t.Errorf("the answer ends with %+v, %v", f, err)
		}
		w.chat(0, again, 200)
	})
}
