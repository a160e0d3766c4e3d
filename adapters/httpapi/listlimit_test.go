package httpapi

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"

	"collab/adapters/httpapi/body"
	"collab/app/access"
	"collab/domain/id"
	"collab/domain/org"
)

func TestConcurrentListsAreLimitedPerCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		running := map[id.User]int{}
		more := make(chan struct{})
		var a *api
		a = serving(t, http.MethodGet, public, func(c *call) error {
			c.caller = access.Caller{User: id.User(c.r.Header.Get("X-User"))}
			q, p, err := c.listing()
			if err != nil {
				return err
			}
			key := func(int) body.Position { return body.Position{ID: someID} }
			write := func(dst []byte, _ int) ([]byte, error) { return append(dst, '1'), nil }
			return list(a, c, q, p, key, write, func(actor org.Actor, _ func(int) error) error {
				running[actor.User]++
				<-more
				return nil
			})
		})
		ask := func(ctx context.Context, user, query string) {
			r := get("/test" + query).WithContext(ctx)
			r.Header.Set("X-User", user)
			go send(a, r)
			synctest.Wait()
		}
		for range maxLists + 1 {
			ask(t.Context(), "slow", "")
		}
		gone, leave := context.WithCancel(t.Context())
		ask(gone, "slow", "")
		leave()
		ask(t.Context(), "other", "")
		ask(t.Context(), "slow", "?limit=1")
		if running["slow"] != maxLists+1 || running["other"] != 1 {
			t.Errorf("running are %v", running)
		}
		close(more)
		synctest.Wait()
		if running["slow"] != maxLists+2 {
			t.Errorf("who waited got no turn: %v", running)
		}
	})
}
