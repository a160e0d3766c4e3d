package cluster_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"collab/test/cluster"
	"collab/test/collabd"
	"collab/test/must"
	"collab/test/postgres"
)

func TestMain(m *testing.M) { os.Exit(collabd.Run(m)) }

func TestServersBehindTheBalancerAnswerAsOne(t *testing.T) {
	if os.Getenv("COLLAB_SKIP_S3") != "" {
		t.Skip("COLLAB_SKIP_S3 is set: there is no object store")
	}
	c := must.Do(cluster.Start(t.Context(), cluster.Options{
		Servers: 3, Dir: t.TempDir(), Command: collabd.Process,
		Settings: []string{"COLLAB_RATE_LIMITS=off"}, Postgres: postgres.Options{NoSync: true},
		// Servers accept each other's tokens and webhooks although their machines' clocks differ.
		ServerSettings: func(server int) []string {
			return []string{collabd.ShiftedClock(time.Duration(server-1) * 5 * time.Minute)}
		},
	})).Or(t)
	defer func() {
		must.Succeed(t, c.Close())
	}()
	ada := (&collabd.Server{URL: c.URL}).SignIn(t, "ada@example.com", "Fleet", "owner")
	direct := func(i int) collabd.Client { return ada.At(&collabd.Server{URL: c.Servers[i].URL()}) }

	const tasks = 20
	for i := range tasks {
		ada.Must(t, 201, "POST", "/tasks", map[string]any{"title": fmt.Sprint("task ", i)}, nil)
	}
	content := strings.Repeat("one content for all servers\n", 1_000)
	ada.Must(t, 200, "PUT", "/sync/memory/user", map[string]any{"content": content}, nil)
	for i := range c.Servers {
		var list []struct{ ID string }
		direct(i).Must(t, 200, "GET", "/tasks?limit=100", nil, &list)
		if len(list) != tasks {
			t.Errorf("server %d lists %d tasks, want %d", i+1, len(list), tasks)
		}
		var memory struct{ Content string }
		if direct(i).Must(t, 200, "GET", "/sync/memory/user", nil, &memory); memory.Content != content {
			t.Errorf("server %d has %d bytes of the memory, want %d", i+1, len(memory.Content), len(content))
		}
	}

	for i := range c.Servers {
		var renewed struct{ Token string }
		direct(i).Must(t, 200, "POST", "/auth/refresh", map[string]string{"token": ada.Token}, &renewed)
		for j := range c.Servers {
			me := direct(j)
			me.Token = renewed.Token
			me.Must(t, 200, "GET", "/auth/me", nil, nil)
		}
	}

	// The last server calls the payment provider that the first one runs.
	direct(2).Must(t, 200, "POST", "/billing/checkout", map[string]string{"plan": "STANDARD"}, nil)

	must.NoError(t, c.Servers[1].Kill())
	for range 20 {
		ada.Must(t, 200, "GET", "/auth/me", nil, nil)
	}
	must.NoError(t, c.Servers[1].Start(t.Context()))
	direct(1).Must(t, 200, "GET", "/auth/me", nil, nil)
}
