package script

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"collab/adapters/gormdb"
	"collab/test/collabd"
	"collab/test/must"
	"collab/test/postgres"
	"collab/test/previous"
	"collab/test/soak"
)

// partitioned returns the address of a database with the present schema, whose largest tables are partitioned.
var partitioned = postgres.Copies(collabd.Prepared(func(db *gormdb.DB, ctx context.Context) error {
	return errors.Join(db.Migrate(ctx), db.Partition(ctx, func(string, int64, bool) {}))
}))

func TestThePreviousReleaseOnThePresentSchema(t *testing.T) {
	if !soak.Full() {
		t.Skip("a soak runs it")
	}
	r := previous.Get(t)
	testProfile(t, profile{
		name: r.Version, root: r.Dir, database: onPostgres.database,
		serve: func(t *testing.T, settings ...string) []*collabd.Server {
			return []*collabd.Server{collabd.StartProgram(t, r.Process, settings...)}
		},
	})
}

// perServer are conversations that one server has to answer, with the reason.
var perServer = map[string]string{
	"chat_rate.txt": "each server counts for itself", "connectors_rate.txt": "the same", "proxies.txt": "the same", "rate_limits.txt": "the same",
	"updates_check.txt": "releases reach other servers within half a second", "updates_feeds.txt": "the same", "updates_rollout.txt": "the same",
}

// changed are the titles of conversations that the present release does not hold as the previous one, with the reason.
var changed = map[string]string{
	"A memory that was deleted is null again, and starts anew": "its numbers began with 1 again",
	"Ids that are none are not found":                          "it expects that files cannot be moved",
	"Another plan changes the subscription that there is":      "the previous release's development payment provider does not know how a declined payment is to be refused",
}

// shortly are the conversations with two servers, or through a pooler, that are held without a soak.
var shortly = []string{"auth.txt", "billing.txt", "chat_keys.txt", "chat_quota.txt", "conventions.txt", "invitations.txt", "sync_feed.txt", "sync_files.txt", "tasks.txt", "task_order.txt"}

func isHeldShortly(file string) bool { return soak.Full() || slices.Contains(shortly, file) }

// TestThePreviousReleaseBesideThisOne sends the requests of the previous release's conversations to two servers by
// turns; the largest tables are partitioned.
func TestThePreviousReleaseBesideThisOne(t *testing.T) {
	r := previous.Get(t)
	serve := func(t *testing.T, settings ...string) []*collabd.Server {
		first := collabd.StartProgram(t, r.Process, append(settings, "COLLAB_BLOB_URL=file://"+t.TempDir())...)
		text := must.Do(os.ReadFile(filepath.Join(first.Dir, "dev-payments.json"))).Or(t)
		var payments struct{ Key string }
		must.NoError(t, json.Unmarshal(text, &payments))
		return []*collabd.Server{first, first.Peer(t, "COLLAB_STRIPE_API_URL="+first.URL+"/dev/payments", "COLLAB_STRIPE_SECRET_KEY="+payments.Key,
			"COLLAB_STRIPE_PRICE_STANDARD=price_standard", "COLLAB_STRIPE_PRICE_PREMIUM=price_premium")}
	}
	for name, isReverse := range map[string]bool{"this release has the first request": false, "the previous release has the first request": true} {
		if isReverse && !soak.Full() {
			continue
		}
		t.Run(name, func(t *testing.T) {
			testProfile(t, profile{
				name: name, root: r.Dir, database: onServer(partitioned), serve: serve, isReverse: isReverse,
				without: changed,
				holds:   func(file string) bool { return perServer[file] == "" && isHeldShortly(file) },
			})
		})
	}
}
