// Package integration tests several servers together, and servers with the systems on which they depend.
package integration

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"collab/test/collabd"
)

// TestRequestsAtOnce runs on SQLite with one server and on Postgres with two, which the tests reach by turns.
func TestRequestsAtOnce(t *testing.T) {
	onBoth(t, func(t *testing.T, d database) {
		servers := d.start(t, "COLLAB_ADMIN_SECRET="+collabd.AdminSecret)
		for name, test := range map[string]func(*testing.T, []*collabd.Server){
			"fifty seedings make one set":                      testSeedings,
			"two owners who demote each other leave one owner": testDemotions,
			"a hundred invitations stay within the limit":      testInvitations,
			"one of the sessions that end each other remains":  testEndedSessions,
		} {
			t.Run(name, func(t *testing.T) { test(t, servers) })
		}
	})
}

// atOnce runs n calls at the same moment and returns how often each status
// came.
func atOnce(t testing.TB, n int, call func(i int) (int, []byte, error)) map[int]int {
	t.Helper()
	var mu sync.Mutex
	statuses := map[int]int{}
	begin := make(chan struct{})
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			<-begin
			status, body, err := call(i)
			mu.Lock()
			defer mu.Unlock()
			statuses[status]++
			if err != nil {
				t.Errorf("call %d: %v", i, err)
			}
			if status >= 500 {
				t.Errorf("call %d is %d: %s", i, status, body)
			}
		})
	}
	close(begin)
	all.Wait()
	return statuses
}

func by(servers []*collabd.Server, i int) *collabd.Server { return servers[i%len(servers)] }

func testSeedings(t *testing.T, servers []*collabd.Server) {
	ada := servers[0].SignIn(t, "ada@example.com", "Seeds", "owner")
	var made atomic.Int32
	statuses := atOnce(t, 50, func(i int) (int, []byte, error) {
		status, body, err := ada.At(by(servers, i)).Do("POST", "/auth/seed-onboarding", nil)
		if strings.Contains(string(body), `"seeded":true`) {
			made.Add(1)
		}
		return status, body, err
	})
	if statuses[200] != 50 || made.Load() != 1 {
		t.Errorf("statuses %v, %d seedings", statuses, made.Load())
	}
	for path, want := range map[string]int{"/teams": 2, "/workspaces": 2, "/tasks": 6} {
		var list []any
		ada.Must(t, 200, "GET", path, nil, &list)
		if len(list) != want {
			t.Errorf("%s has %d, want %d", path, len(list), want)
		}
	}
}

func testDemotions(t *testing.T, servers []*collabd.Server) {
	for round := range 8 {
		name := fmt.Sprintf("Owners %d", round)
		ada := servers[0].SignIn(t, "ada@example.com", name, "owner")
		bob := servers[0].SignIn(t, "bob@example.com", name, "owner")
		statuses := atOnce(t, 2, func(i int) (int, []byte, error) {
			actor, target := ada, bob.User
			if i == 1 {
				actor, target = bob, ada.User
			}
			return actor.At(by(servers, i)).Do("PATCH", "/org/members/"+target+"/role", map[string]string{"role": "MEMBER"})
		})
		var members []struct{ Role string }
		ada.Must(t, 200, "GET", "/org/members", nil, &members)
		owners := 0
		for _, m := range members {
			if m.Role == "OWNER" {
				owners++
			}
		}
		if owners != 1 || len(members) != 2 || statuses[200] != 1 {
			t.Errorf("%d owners of %d members, statuses %v", owners, len(members), statuses)
		}
	}
}

func testInvitations(t *testing.T, servers []*collabd.Server) {
	ada := servers[0].SignIn(t, "ada@example.com", "Limits", "owner")
	to := func(i int, email string) (status int, body []byte, err error) {
		for status = 503; status == 503 && err == nil; { // a loaded server refuses requests that waited long
			status, body, err = ada.At(by(servers, i)).Do("POST", "/org/invite", map[string]string{"email": email, "role": "MEMBER"})
		}
		return status, body, err
	}
	invite := func(i int) (int, []byte, error) { return to(i, fmt.Sprintf("guest%d@example.com", i)) }
	// STANDARD has room for one member, and that is Ada.
	ada.Grant(t, "STANDARD")
	if statuses := atOnce(t, 100, invite); statuses[403] != 100 {
		t.Errorf("without room: statuses %v", statuses)
	}
	ada.Grant(t, "PREMIUM")
	same := atOnce(t, 100, func(i int) (int, []byte, error) { return to(i, "Same@example.com") })
	if same[201] != 1 || same[409] != 99 {
		t.Errorf("one address: statuses %v", same)
	}
	if statuses := atOnce(t, 100, invite); statuses[201] != 100 {
		t.Errorf("without limit: statuses %v", statuses)
	}
	var pending []any
	ada.Must(t, 200, "GET", "/org/invites", nil, &pending)
	if len(pending) != 101 {
		t.Errorf("%d pending invitations", len(pending))
	}
}

// testEndedSessions has each session of a user end all others at once: one goes on, because
// an ended session ends no other.
func testEndedSessions(t *testing.T, servers []*collabd.Server) {
	for range 5 {
		var all []collabd.Client
		for i := range 8 {
			all = append(all, servers[0].SignIn(t, "ada@example.com", "Mutual", "owner").At(by(servers, i)))
		}
		if got := atOnce(t, len(all), func(i int) (int, []byte, error) { return all[i].Do("DELETE", "/auth/sessions", nil) }); got[200] != 1 || got[401] != len(all)-1 {
			t.Errorf("statuses %v", got)
		}
		left := 0
		for _, c := range all {
			if status, _, err := c.Do("GET", "/auth/me", nil); err != nil {
				t.Error(err)
			} else if status == 200 {
				left++
			}
		}
		if left != 1 {
			t.Errorf("%d sessions go on", left)
		}
	}
}
