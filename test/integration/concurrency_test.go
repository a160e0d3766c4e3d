// Package integration is about what happens between several servers, and
// between a server and what it depends on.
package integration

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"collab/test/collabd"
)

// withServers runs a test on SQLite with one server and on Postgres with two, which
// the test reaches by turns.
func withServers(t *testing.T, test func(t *testing.T, servers []*collabd.Server)) {
	onBoth(t, func(t *testing.T, d database) {
		test(t, d.start(t, "COLLAB_ADMIN_SECRET="+collabd.AdminSecret, "COLLAB_IDENTITY_WEBHOOK_SECRETS="+collabd.WebhookSecret))
	})
}

// atOnce runs n calls at the same moment and returns how often each status
// came.
func atOnce(t *testing.T, n int, call func(i int) (int, []byte, error)) map[int]int {
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

func TestFiftySimultaneousSeedingsMakeOneSet(t *testing.T) {
	withServers(t, func(t *testing.T, servers []*collabd.Server) {
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
	})
}

func TestTwoHundredCopiesOfOneMessageHaveOneEffect(t *testing.T) {
	withServers(t, func(t *testing.T, servers []*collabd.Server) {
		ada := servers[0].SignIn(t, "ada@example.com", "Copies", "owner")
		now := time.Now()
		body := fmt.Sprintf(`{"object":"event","type":"organizationMembership.created","timestamp":%d,"data":{"id":"orgmem_g","role":"org:member",
			"organization":{"id":"org_copies_of_the_test","name":"Copies 2","slug":"copies-2","created_at":1,"updated_at":1},
			"public_user_data":{"user_id":"user_grace","first_name":"Grace","last_name":"Hopper","identifier":"grace@example.com"},
			"created_at":%d,"updated_at":%d}}`, now.UnixMilli(), now.UnixMilli(), now.UnixMilli())
		if statuses := atOnce(t, 200, func(i int) (int, []byte, error) { return by(servers, i).Deliver("msg_copies", body) }); statuses[200] != 200 {
			t.Errorf("statuses %v", statuses)
		}
		var orgs []struct {
			Name    string
			Members int
		}
		ada.Must(t, 200, "GET", "/admin/organisations", nil, &orgs, "X-Admin-Secret: "+collabd.AdminSecret)
		found := 0
		for _, o := range orgs {
			if o.Name == "Copies 2" {
				found++
				if o.Members != 1 {
					t.Errorf("the organisation has %d members", o.Members)
				}
			}
		}
		if found != 1 {
			t.Errorf("there are %d organisations of the message", found)
		}
	})
}

func TestTwoOwnersWhoDemoteEachOtherLeaveOneOwner(t *testing.T) {
	withServers(t, func(t *testing.T, servers []*collabd.Server) {
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
	})
}

func TestAHundredInvitationsStayWithinTheLimit(t *testing.T) {
	withServers(t, func(t *testing.T, servers []*collabd.Server) {
		ada := servers[0].SignIn(t, "ada@example.com", "Limits", "owner")
		invite := func(i int) (int, []byte, error) {
			return ada.At(by(servers, i)).Do("POST", "/org/invite", map[string]string{"email": fmt.Sprintf("guest%d@example.com", i), "role": "MEMBER"})
		}
		// STANDARD has room for one member, and that is Ada.
		ada.Grant(t, "STANDARD")
		if statuses := atOnce(t, 100, invite); statuses[403] != 100 {
			t.Errorf("without room: statuses %v", statuses)
		}
		ada.Grant(t, "PREMIUM")
		same := atOnce(t, 100, func(i int) (int, []byte, error) {
			return ada.At(by(servers, i)).Do("POST", "/org/invite", map[string]string{"email": "Same@example.com", "role": "MEMBER"})
		})
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
	})
}

func TestReordersAmongCreatesKeepATotalOrder(t *testing.T) {
	withServers(t, func(t *testing.T, servers []*collabd.Server) {
		ada := servers[0].SignIn(t, "ada@example.com", "Order", "owner")
		type record struct {
			ID, CreatedAt string
			SortOrder     int64
		}
		var first []string
		for i := range 20 {
			var made record
			ada.Must(t, 201, "POST", "/tasks", map[string]string{"title": fmt.Sprint("first ", i)}, &made)
			first = append(first, made.ID)
		}
		statuses := atOnce(t, 60, func(i int) (int, []byte, error) {
			c := ada.At(by(servers, i))
			if i%3 == 0 {
				rotated := append(slices.Clone(first[i%20:]), first[:i%20]...)
				return c.Do("POST", "/tasks/reorder", map[string]any{"taskIds": rotated})
			}
			return c.Do("POST", "/tasks", map[string]string{"title": fmt.Sprint("later ", i)})
		})
		if statuses[200] != 20 || statuses[201] != 40 {
			t.Errorf("statuses %v", statuses)
		}
		var all []record
		ada.Must(t, 200, "GET", "/tasks", nil, &all)
		if len(all) != 60 {
			t.Fatalf("%d tasks", len(all))
		}
		seen := map[string]bool{}
		for i, r := range all {
			if seen[r.ID] {
				t.Errorf("%s is there twice", r.ID)
			}
			seen[r.ID] = true
			if i == 0 {
				continue
			}
			before := all[i-1]
			if before.SortOrder > r.SortOrder || before.SortOrder == r.SortOrder && (before.CreatedAt > r.CreatedAt || before.CreatedAt == r.CreatedAt && before.ID >= r.ID) {
				t.Errorf("place %d: %v is before %v", i, before, r)
			}
		}
		// The last reorder won whole: the first twenty have the places 0 to 19 in a
		// rotation of their order.
		places := map[string]int64{}
		for _, r := range all {
			places[r.ID] = r.SortOrder
		}
		for i, task := range first {
			next := first[(i+1)%20]
			if d := (places[next] - places[task] + 20) % 20; d != 1 {
				t.Errorf("the reorders are mixed: %d then %d", places[task], places[next])
			}
		}
	})
}

// Each of the sessions ends all others at once: one of them goes on, as an ended one ends
// nothing any more.
func TestOfSessionsThatEndEachOtherOneGoesOn(t *testing.T) {
	withServers(t, func(t *testing.T, servers []*collabd.Server) {
		for range 5 {
			var all []collabd.Client
			for i := range 8 {
				all = append(all, servers[0].SignIn(t, "ada@example.com", "Mutual", "owner").At(by(servers, i)))
			}
			if got := atOnce(t, len(all), func(i int) (int, []byte, error) { return all[i].Do("DELETE", "/auth/sessions", nil) }); got[200] != 1 || got[401] != len(all)-1 {
				t.Errorf("they are answered %v", got)
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
	})
}
