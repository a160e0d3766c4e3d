package storm

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"collab/adapters/bucket"
	"collab/adapters/gormdb"
	"collab/adapters/system"
	"collab/app/chats"
	"collab/app/upkeep"
	"collab/domain/calendar"
	"collab/domain/id"
	"collab/domain/object"
	"collab/domain/upload"
	"collab/domain/usage"
	"collab/test/feed"
	"collab/test/must"
)

// shiftedClock is a clock that is ahead by a duration.
type shiftedClock time.Duration

func (l shiftedClock) Now() time.Time { return system.Clock{}.Now().Add(time.Duration(l)) }

// check checks the invariants of a system without load and faults.
func (s *storm) check(idle []load) {
	// A provider waits for minutes after several failures, and for a second after its start.
	s.providers.Stop(s)
	must.NoError(s, s.providers.Restart())
	s.await("webhooks are accepted", func() error {
		if n := s.relay.waiting(); n > 0 {
			return fmt.Errorf("%d deliveries are not accepted", n)
		}
		return nil
	})
	db := must.Do(gormdb.Open(s.Context(), gormdb.Options{URL: s.cluster.Database})).Or(s)
	defer db.Close()
	for _, t := range s.tenants {
		s.checkFeed(t, db)
		s.checkRecords(t)
		s.checkAudit(t)
		s.checkContent(t)
		s.checkExports(t)
	}
	s.checkRegisters()
	s.checkQuotas(db)
	s.checkHistories()
	s.checkSubscriptions()
	s.checkNewcomers()
	s.checkStore(db)
	s.checkIdle(idle)
}

// addCheck reports the errors of a check as violations, and adds its line to the report.
func (s *storm) addCheck(errs []error, format string, a ...any) {
	for _, err := range errs {
		s.violation("%v", err)
	}
	s.checks = append(s.checks, fmt.Sprintf(format, a...)+fmt.Sprintf(": %d wrong", len(errs)))
}

// await waits until check returns nil, for at most recovery.
func (s *storm) await(what string, check func() error) {
	for began := time.Now(); ; pause(s.Context(), retryDelay) {
		err := check()
		if err != nil && time.Since(began) < recovery {
			continue
		}
		var errs []error
		if err != nil {
			errs = []error{fmt.Errorf("after %v: %w", recovery, err)}
		}
		s.addCheck(errs, "%s after %v", what, time.Since(began).Round(time.Millisecond))
		return
	}
}

// server returns a client of one of the servers, by turns.
func (s *storm) server(n int) *client { return s.clientAt(s.cluster.Servers[n%servers].URL()) }

// checkFeed compares what followers received, the log, and what was acknowledged.
func (s *storm) checkFeed(t *tenant, db *gormdb.DB) {
	org := id.Org(t.owner.org)
	log := must.Do(feed.Log(s.Context(), db.Storage().Changes(), org)).Or(s)
	exist, _, errs := feed.Replay(org, log, s.written[t.owner.org], &t.received)
	errs = append(errs, sentErrors(log, s.contents)...)
	events := 0
	for _, f := range s.followers {
		if f.tenant != t {
			continue
		}
		last := feed.Last(log, f.sees)
		f.end(last)
		select {
		case <-f.done:
		case <-time.After(recovery):
			errs = append(errs, fmt.Errorf("a follower has %d and not %d", f.Last, last))
			f.stop()
			<-f.done
		}
		if err := f.Compare(log, f.sees); err != nil {
			errs = append(errs, err)
		}
		events, s.resumes = events+len(f.Events), s.resumes+f.connections
	}
	s.events += events
	var manifest []stored
	s.must(s.server(0), call{method: "GET", path: "/sync/manifest", by: t.owner}, &manifest)
	shown := map[string]feed.Content{}
	for _, f := range manifest {
		shown[f.StorageKey] = feed.Content{Version: f.Version, Checksum: f.Checksum}
	}
	if !maps.Equal(shown, exist) {
		errs = append(errs, fmt.Errorf("%d files are shown, %d exist by the log", len(shown), len(exist)))
	}
	s.addCheck(errs, "%s: %d entries of the log, %d acknowledged writes of files, %d events to followers", t.name, len(log), len(s.written[t.owner.org]), events)
}

// checkRecords compares what was made and deleted with what is there.
func (s *storm) checkRecords(t *tenant) {
	c, org := s.server(1), t.owner.org
	found := map[string]map[string]int{"task": {}, "invitation": {}, "connector": {}, "file": {}, "team": {}, "workspace": {}}
	var tasks []struct{ Title string }
	s.must(c, call{method: "GET", path: "/tasks", by: t.owner}, &tasks)
	for _, x := range tasks {
		if strings.HasPrefix(x.Title, "task-made") {
			found["task"][org+" "+x.Title]++
		}
	}
	var invitations []struct{ Email string }
	s.must(c, call{method: "GET", path: "/org/invites", by: t.owner}, &invitations)
	for _, x := range invitations {
		found["invitation"][org+" "+x.Email]++
	}
	var connectors []struct {
		ID   string
		Name *string
	}
	s.must(c, call{method: "GET", path: "/connectors", by: t.owner}, &connectors)
	for _, x := range connectors {
		if x.Name != nil {
			found["connector"][org+" "+*x.Name]++
		}
	}
	var files []stored
	s.must(c, call{method: "GET", path: "/sync/files?kind=ARTIFACT", by: t.owner}, &files)
	for _, x := range files {
		found["file"][x.StorageKey]++
	}
	for _, kind := range []string{"team", "workspace"} {
		var all []struct{ Name string }
		s.must(c, call{method: "GET", path: "/" + kind + "s", by: t.owner}, &all)
		for _, x := range all {
			if strings.HasPrefix(x.Name, kind+"-made") {
				found[kind][org+" "+x.Name]++
			}
		}
	}
	for _, kind := range slices.Sorted(maps.Keys(found)) {
		made := within(s.made[kind], org)
		s.addCheck(recordErrors(kind, made, found[kind]), "%s: %d of the kind %s were made, %d are there", t.name, len(made), kind, len(found[kind]))
	}
}

// within returns the records of an organisation.
func within[T any](all map[string]T, org string) map[string]T {
	own := maps.Clone(all)
	maps.DeleteFunc(own, func(name string, _ T) bool { return !strings.HasPrefix(name, org) })
	return own
}

// checkAudit compares the requests that belong into the audit log with its entries.
func (s *storm) checkAudit(t *tenant) {
	var entries []struct{ RequestID *string }
	s.must(s.server(2), call{method: "GET", path: "/org/audit", by: t.owner}, &entries)
	var requests []string
	for _, e := range entries {
		if e.RequestID != nil && strings.HasPrefix(*e.RequestID, "storm-") && !strings.HasPrefix(*e.RequestID, "storm--") {
			requests = append(requests, *e.RequestID)
		}
	}
	sent := s.audited[t.owner.org]
	s.addCheck(auditErrors(sent, requests), "%s: %d requests that may belong into the audit log, %d entries", t.name, len(sent), len(requests))
}

// checkContent reads every file, and its earlier versions.
func (s *storm) checkContent(t *tenant) {
	var manifest []stored
	s.must(s.server(0), call{method: "GET", path: "/sync/manifest", by: t.owner}, &manifest)
	var errs []error
	read := 0
	for i, f := range manifest {
		var versions []stored
		s.must(s.server(i+1), call{method: "GET", path: "/sync/files/" + f.ID + "/versions", by: t.owner}, &versions)
		if len(versions) == 0 || versions[0].Version != f.Version || versions[0].Checksum != f.Checksum {
			errs = append(errs, fmt.Errorf("the versions of %s do not begin with %d: %.300v", f.StorageKey, f.Version, versions))
		}
		for _, v := range versions {
			path := "/sync/files/" + f.ID
			if v.Version != f.Version {
				path += "/versions/" + fmt.Sprint(v.Version)
			}
			a := s.server(i).do(s.Context(), call{kind: "set-up and checks", method: "GET", path: path + "?raw=1", by: t.owner, expect: []int{200}})
			if !a.ok() || must.Sum(string(a.body)) != v.Checksum {
				errs = append(errs, fmt.Errorf("the content of version %d of %s is %d %.100q", v.Version, v.StorageKey, a.status, a.body))
			}
			read++
		}
	}
	s.addCheck(errs, "%s: %d versions of %d files read", t.name, read, len(manifest))
}

// checkRegisters reads all registers at all servers, as the ends of their histories.
func (s *storm) checkRegisters() {
	for i := range servers {
		for _, t := range s.tenants {
			w := &worker{client: s.server(i), tenant: t, me: t.owner, release: s.release}
			do := func(q call) response {
				q.kind, q.expect = "set-up and checks", []int{200}
				if q.by == nil {
					q.by = t.owner
				}
				return w.do(s.Context(), q)
			}
			for n := range registers {
				w.readTask(n, do)
				w.readFile(n, do)
			}
			for n := range 3 {
				w.readMemory(n, do)
			}
			w.readOrder(do)
			w.readRoles(do)
			w.readCredentials(do)
			w.readTeam(do)
			w.readMembership(do)
			w.readWorkspace(do)
			for _, p := range t.people {
				(&worker{client: w.client, tenant: t, me: p}).readWorkspaces(func(q call) response {
					q.by = p
					return do(q)
				})
			}
			if t == s.tenants[0] {
				w.readRollout(do)
			}
		}
	}
	s.await("all servers answer update checks alike", func() error {
		for device := range 20 {
			var first []byte
			for i := range servers {
				a := s.must(s.server(i), call{method: "GET", path: fmt.Sprintf("/updates/check?version=0.9.0&platform=linux&arch=x64&clientId=device-%d", device)}, nil)
				if i == 0 {
					first = a.body
				} else if string(first) != string(a.body) {
					return fmt.Errorf("server 0 says %s, server %d %s", first, i, a.body)
				}
			}
		}
		return nil
	})
}

// checkQuotas compares accounts, ledger and what is shown of them. Leases of servers that were
// killed are swept before, as they are after some minutes.
func (s *storm) checkQuotas(db *gormdb.DB) {
	must.NoError(s, chats.New(chats.Options{Store: db, Clock: shiftedClock(time.Hour), Log: slog.New(slog.DiscardHandler)}).ExtendLeases(s.Context()))
	day := calendar.DayOf(time.Now())
	if !s.isOneDay() {
		s.checks = append(s.checks, "quotas are not checked: their day begins or ends")
		return
	}
	var errs []error
	members, entries := 0, 0
	for _, t := range s.tenants {
		sums := map[string]int64{}
		must.NoError(s, db.Usage().Ledger().Entries(s.Context(), id.Org(t.owner.org), usage.Period{Start: day.Start(), End: day.End()}, func(e usage.Entry) error {
			sums[string(e.User)] += e.Tokens.Total()
			entries++
			return nil
		}))
		for i, p := range t.people {
			account := must.Do(db.Usage().Quotas().Account(s.Context(), id.Org(p.org), id.User(p.user), day)).Or(s)
			var shown struct{ Used, Limit int64 }
			w := &worker{client: s.server(i), tenant: t, me: p}
			w.readQuota(s.must(w.client, call{method: "GET", path: "/metering/quota", by: p}, &shown), shown.Used, shown.Limit)
			var summary struct{ TotalTokens int64 }
			s.must(s.server(i+1), call{method: "GET", path: "/metering/user", by: p}, &summary)
			if err := balanceError(balance{account.Used, account.Reserved, shown.Used, sums[p.user], summary.TotalTokens, shown.Limit}); err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", p.user, err))
			}
			members++
		}
	}
	s.addCheck(errs, "%d accounts of members and %d entries of the ledger", members, entries)
}

// isOneDay reports whether the quotas of all requests are of one day.
func (s *storm) isOneDay() bool {
	return calendar.DayOf(s.began.Add(-maxSkew)) == calendar.DayOf(time.Now().Add(maxSkew))
}

// checkHistories checks that histories are linearizable, those of quotas within a day.
func (s *storm) checkHistories() {
	for _, kind := range []string{"task", "file", "memory", "order", "role", "credentials", "rollout", "team", "membership", "workspace", "place", "workspaces", "quota"} {
		if kind == "quota" && !s.isOneDay() {
			continue
		}
		var errs []error
		objects, operations, unknown := 0, 0, 0
		for _, name := range slices.Sorted(maps.Keys(s.histories)) {
			if first, _, _ := strings.Cut(name, " "); first != kind {
				continue
			}
			ops := s.histories[name]
			m := register
			if kind == "quota" {
				m = account
			}
			decided, err := linearizable(m, ops)
			switch {
			case err != nil:
				errs = append(errs, fmt.Errorf("%s: %w", name, err))
			case !decided:
				s.undecided = append(s.undecided, name)
			}
			objects, operations = objects+1, operations+len(ops)
			for _, op := range ops {
				if op.Unknown {
					unknown++
				}
			}
		}
		s.addCheck(errs, "%d histories of the kind %s with %d operations, %d of them unknown, are linearizable", objects, kind, operations, unknown)
	}
}

// checkSubscriptions compares what servers show of plans with the provider.
func (s *storm) checkSubscriptions() {
	type provided struct {
		Subscriptions map[string]struct {
			Price, Status string
			Metadata      map[string]string
		}
		Outbox []json.RawMessage
	}
	read := func() (p provided, err error) {
		text, err := os.ReadFile(s.state)
		if err == nil {
			err = json.Unmarshal(text, &p)
		}
		return p, err
	}
	live := map[string]int{}
	s.await(fmt.Sprintf("plans of %d organisations are those of the payment provider", len(s.newcomers.owners)), func() error {
		p, err := read()
		if err != nil {
			return err
		}
		if len(p.Outbox) > 0 || s.relay.waiting() > 0 {
			return errors.New("the provider has messages that are not delivered")
		}
		clear(live)
		bought := map[string]string{}
		for _, sub := range p.Subscriptions {
			if org := sub.Metadata["org_id"]; sub.Status != "canceled" {
				live[org]++
				bought[org] = strings.ToUpper(strings.TrimPrefix(sub.Price, "price_"))
			}
		}
		for i, owner := range s.newcomers.owners {
			var got struct{ Plan, Status string }
			s.must(s.server(i), call{method: "GET", path: "/billing/subscription", by: owner}, &got)
			if want := bought[owner.org]; want != "" && want != got.Plan || want == "" && got.Status == "ACTIVE" && got.Plan != "FREE" {
				return fmt.Errorf("%s has %s %s, the provider %q", owner.org, got.Plan, got.Status, want)
			}
		}
		return nil
	})
	s.addCheck(subscriptionErrors(s.trials, live), "%d trials and %d live subscriptions", len(s.trials), len(live))
}

// checkNewcomers checks that each organisation was seeded once.
func (s *storm) checkNewcomers() {
	var errs []error
	for i, owner := range s.newcomers.owners {
		var teams []struct{ Kind string }
		var tasks []struct{ ID string }
		s.must(s.server(i), call{method: "GET", path: "/teams", by: owner}, &teams)
		s.must(s.server(i+1), call{method: "GET", path: "/tasks", by: owner}, &tasks)
		if !(len(teams) == 2 && len(tasks) == 6 || len(teams) == 0 && len(tasks) == 0) {
			errs = append(errs, fmt.Errorf("the organisation %s has %d teams and %d tasks", owner.org, len(teams), len(tasks)))
		}
	}
	s.addCheck(errs, "%d organisations made", len(s.newcomers.owners))
}

// checkStore collects garbage, as is done after uploads and archives have expired, and compares the
// store with what objects name.
func (s *storm) checkStore(db *gormdb.DB) {
	blobs := must.Do(bucket.Open(s.Context(), s.bucket)).Or(s)
	defer blobs.Close()
	collected := 0
	must.NoError(s, upkeep.New(db, blobs, shiftedClock(upload.Lifetime+object.BlobGracePeriod+time.Hour), nil, 0).Collect(s.Context(), true, false, func(upkeep.Garbage) error {
		collected++
		return nil
	}))
	kept := map[string]bool{}
	must.NoError(s, blobs.List(s.Context(), func(name string, _ int64, _ time.Time) error {
		kept[name] = true
		return nil
	}))
	named := map[string]bool{}
	s.query(func(c *pgx.Conn) error {
		rows, err := c.Query(s.Context(), "SELECT blob FROM objects UNION ALL SELECT blob FROM object_versions")
		if err != nil {
			return err
		}
		names, err := pgx.CollectRows(rows, pgx.RowTo[string])
		for _, name := range names {
			named[name] = true
		}
		return err
	})
	s.addCheck(contentErrors(named, kept), "%d contents named, %d collected", len(named), collected)
}

func (s *storm) query(fn func(*pgx.Conn) error) {
	conn, err := pgx.Connect(s.Context(), s.cluster.Database)
	if err == nil {
		err = errors.Join(fn(conn), conn.Close(s.Context()))
	}
	must.NoError(s, err)
}

// load is what a server holds, by its metrics.
type load struct{ requests, feeds, budgets, connections, goroutines, files float64 }

// settle returns what the servers hold without load.
func (s *storm) settle() (idle []load) {
	s.http.CloseIdleConnections()
	for _, server := range s.cluster.Servers {
		l := must.Do(loadOf(s.Context(), server.URL())).Or(s)
		idle = append(idle, l)
	}
	return idle
}

func loadOf(ctx context.Context, url string) (l load, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/metrics", nil)
	if err != nil {
		return l, err
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return l, err
	}
	defer response.Body.Close()
	into := map[string]*float64{
		"http_server_active_requests": &l.requests, "collab_feed_subscribers": &l.feeds, "collab_budget_used_bytes": &l.budgets,
		"collab_connections_open": &l.connections, "go_goroutines": &l.goroutines, "process_open_fds": &l.files,
	}
	for lines := bufio.NewReader(response.Body); ; {
		line, err := lines.ReadString('\n')
		if err == io.EOF {
			return l, nil
		}
		if err != nil {
			return l, err
		}
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if i := strings.LastIndex(value, " "); i >= 0 {
			value = value[i+1:]
		}
		name, _, _ = strings.Cut(name, "{")
		if to := into[name]; to != nil {
			v, err := strconv.ParseFloat(value, 64)
			if err != nil {
				return l, err
			}
			*to += v
		}
	}
}

// idleTolerance is the number of additional goroutines and files that a server may have after the load,
// because its pools grow.
const idleTolerance = 60

// checkIdle checks that servers and database hold nothing of the load any more.
func (s *storm) checkIdle(idle []load) {
	s.http.CloseIdleConnections()
	for i, server := range s.cluster.Servers {
		s.await(fmt.Sprintf("server %d is idle", i), func() error {
			l, err := loadOf(s.Context(), server.URL())
			if err != nil {
				return err
			}
			before := idle[i]
			if l.requests > before.requests || l.feeds > 0 || l.budgets > before.budgets || l.goroutines > before.goroutines+2*l.connections+idleTolerance || l.files > before.files+l.connections+idleTolerance {
				return fmt.Errorf("server %d has %+v, before the load it had %+v", i, l, before)
			}
			return nil
		})
	}
	s.await("no transaction is open", func() error {
		open := 0
		s.query(func(c *pgx.Conn) error {
			return c.QueryRow(s.Context(), "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid() AND state <> 'idle'").Scan(&open)
		})
		if open > 0 {
			return fmt.Errorf("%d transactions are open", open)
		}
		return nil
	})
}
