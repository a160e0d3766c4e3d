package harness

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"collab/domain/connector"
	"collab/domain/id"
	"collab/domain/identity"
	"collab/domain/invitation"
	"collab/domain/object"
	"collab/domain/org"
	"collab/domain/patch"
	"collab/domain/plan"
	"collab/domain/quota"
	"collab/domain/release"
	"collab/domain/session"
	"collab/domain/task"
	"collab/domain/team"
	"collab/domain/usage"
)

// question is what the rows of a table ask.
type question struct {
	in, out []string // the columns
	answer  func(q *query) []string
}

// ask returns the answers to a row. The error says which cell cannot be read.
func (of question) ask(in []string) ([]string, error) {
	q := &query{columns: of.in, in: in}
	out := of.answer(q)
	return out, q.err
}

func columns(names string) []string { return strings.Fields(names) }

func tableNames() []string { return slices.Sorted(maps.Keys(questions)) }

var questions = map[string]question{
	"plan-limits":         {columns("plan"), columns("dailyTokens members"), planLimits},
	"subscription-moves":  {columns("from by"), columns("to plan status note"), subscriptionMoves},
	"subscription-gate":   {columns("state plan"), columns("status allowed hasActivePlan dailyTokens"), subscriptionGate},
	"trial-life":          {columns("age"), columns("plan status hasActivePlan dailyTokens"), trialLife},
	"billing-period":      {columns("plan period now"), columns("periodStart periodEnd"), billingPeriod},
	"task-status":         {columns("from to"), columns("status completedAt"), taskStatus},
	"task-due":            {columns("dueDate"), columns("kept first last"), taskDue},
	"task-due-filter":     {columns("dueDate dueAfter dueBefore"), columns("selected"), taskDueFilter},
	"invitation-moves":    {columns("from by"), columns("to"), invitationMoves},
	"invitation-life":     {columns("resent age"), columns("status"), invitationLife},
	"invitation-room":     {columns("plan members pending"), columns("answer"), invitationRoom},
	"token-ages":          {columns("age"), columns("accepted refreshed"), tokenAges},
	"roles":               {columns("role"), columns("writes manages owns"), roleRights},
	"role-names":          {columns("provider configured"), columns("role"), roleNames},
	"role-changes":        {columns("actor target role owners"), columns("answer"), roleChanges},
	"member-removals":     {columns("actor target self owners"), columns("answer"), memberRemovals},
	"organisation-ending": {columns("age"), columns("erased"), organisationEnding},
	"team-sight":          {columns("kind role belongs creator"), columns("seen deletable"), teamSight},
	"quota-grants":        {columns("limit used reserved input output"), columns("granted"), quotaGrants},
	"quota-at-once":       {columns("limit requests input output"), columns("full part refused reserved"), quotaAtOnce},
	"quota-settlement":    {columns("limit used granted spent"), columns("used remaining"), quotaSettlement},
	"quota-days":          {columns("instant"), columns("day resetsAt"), quotaDays},
	"rollout-buckets":     {columns("clientId"), columns("bucket"), rolloutBuckets},
	"rollout-offers":      {columns("clientId rolloutPercentage"), columns("offered"), rolloutOffers},
	"rollout-shares":      {columns("devices rolloutPercentage"), columns("offered"), rolloutShares},
	"version-order":       {columns("a b"), columns("order"), versionOrder},
	"update-check":        {columns("releases arch version clientId"), columns("latestVersion"), updateCheck},
	"object-paths":        {columns("path"), columns("kept"), objectPaths},
	"object-path-lengths": {columns("segments length"), columns("answer"), objectPathLengths},
	"object-names":        {columns("a b"), columns("one"), objectNames},
	"object-places":       {columns("kind scope workspaceId teamId"), columns("storageKey"), objectPlaces},
	"object-versions":     {columns("stored expected"), columns("answer"), objectVersions},
	"connector-moves":     {columns("from by"), columns("to"), connectorMoves},
	"connector-retries":   {columns("failures"), columns("after"), connectorRetries},
}

// tableStart is when things begin in tables in which only ages count.
var tableStart = time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)

// query is a row's cells. A cell that cannot be read is noted, and stands for the
// zero value.
type query struct {
	columns []string
	in      []string
	err     error
}

func (q *query) wrong(n int, format string, args ...any) {
	if q.err == nil {
		q.err = fmt.Errorf("%s: %q %s", q.columns[n], q.in[n], fmt.Sprintf(format, args...))
	}
}

func (q *query) text(n int) string {
	if q.in[n] == nothing {
		return ""
	}
	return q.in[n]
}

// number reads a whole number from 0 to a million millions.
func (q *query) number(n int) int64 {
	v, err := strconv.ParseInt(strings.ReplaceAll(q.in[n], ",", ""), 10, 64)
	if err != nil || v < 0 || v > 1e12 {
		q.wrong(n, "is not a whole number from 0 to 1,000,000,000,000")
		return 0
	}
	return v
}

// small reads a number of things that are gone through one by one.
func (q *query) small(n int) int {
	v := q.number(n)
	if v > 10_000 {
		q.wrong(n, "is more than 10,000")
		return 0
	}
	return int(v)
}

func (q *query) yes(n int) bool {
	if q.in[n] != "yes" && q.in[n] != "no" {
		q.wrong(n, "is neither yes nor no")
	}
	return q.in[n] == "yes"
}

// age reads a duration such as 14d, 23h59m59.999s or 1d12h, also below zero.
func (q *query) age(n int) time.Duration {
	days, rest := 0, q.in[n]
	if before, after, ok := strings.Cut(rest, "d"); ok {
		v, err := strconv.Atoi(before)
		if err != nil || v < -100_000 || v > 100_000 {
			q.wrong(n, "is not a duration such as 14d or 23h59m59.999s")
			return 0
		}
		if days, rest = v, after; rest == "" {
			rest = "0s"
		}
	}
	d, err := time.ParseDuration(rest)
	if err != nil || d.Abs() > 1e6*time.Hour {
		q.wrong(n, "is not a duration such as 14d or 23h59m59.999s")
		return 0
	}
	return time.Duration(days)*24*time.Hour + d
}

func (q *query) instant(n int) time.Time {
	t, err := time.Parse(time.RFC3339Nano, q.in[n])
	if err != nil {
		q.wrong(n, "is not an instant such as 2026-03-02T09:00:00Z")
	}
	return t
}

func (q *query) plan(n int) plan.Plan {
	p, ok := plan.Parse(q.in[n])
	if !ok {
		q.wrong(n, "is no plan")
	}
	return p
}

func (q *query) role(n int) org.Role {
	r, ok := org.ParseRole(q.in[n])
	if !ok {
		q.wrong(n, "is no role; a role %s", org.RoleRule)
	}
	return r
}

func (q *query) due(n int) *task.Due {
	if q.in[n] == nothing {
		return nil
	}
	d, ok := task.ParseDue(q.in[n])
	if !ok {
		q.wrong(n, "is no due date")
	}
	return &d
}

// oneOf notes a text that is none of those that are known.
func (q *query) oneOf(n int, known ...string) string {
	if !slices.Contains(known, q.in[n]) {
		q.wrong(n, "is none of %s", strings.Join(known, "; "))
	}
	return q.in[n]
}

func outputs(values ...any) []string {
	out := make([]string, len(values))
	for i, v := range values {
		switch v := v.(type) {
		case nil:
			out[i] = nothing
		case bool:
			out[i] = "no"
			if v {
				out[i] = "yes"
			}
		case time.Time:
			out[i] = v.UTC().Format("2006-01-02T15:04:05.000Z")
		case error:
			out[i] = refusedAs(v)
		default:
			out[i] = fmt.Sprint(v)
		}
	}
	return out
}

// refusedAs returns the kind and the message of a refusal, yes for none.
func refusedAs(err error) string {
	if err == nil {
		return "yes"
	}
	kind, message := refusalOf(err)
	return kind + ": " + message
}

func planLimits(q *query) []string {
	l := q.plan(0).Limits()
	if l.Members == plan.Unlimited {
		return outputs(l.DailyTokens, "unlimited")
	}
	return outputs(l.DailyTokens, l.Members)
}

// remoteOf is a subscription as the payment provider has it.
func remoteOf(status plan.RemoteStatus, p plan.Plan) plan.Remote {
	end := tableStart.AddDate(0, 1, 0)
	return plan.Remote{ID: "sub_1", Customer: "cus_1", Status: status, Plan: p, PeriodStart: &tableStart, PeriodEnd: &end}
}

// subscription returns one in a state, come there by the moves that lead to it.
func (q *query) subscription(n int, state string) plan.Subscription {
	s := plan.Unsubscribed("org")
	follow := func(status plan.RemoteStatus) plan.Subscription {
		s, _ = s.Follow(remoteOf(status, plan.Standard), tableStart)
		return s
	}
	var err error
	switch plan.State(state) {
	case plan.Unplanned:
	case plan.OnTrial:
		s, err = s.Trialed(tableStart)
	case plan.ProviderTrial:
		s = follow(plan.IsTrialing)
	case plan.OnFree:
		if s, err = s.Trialed(tableStart); err == nil {
			s, _, err = s.Downgraded(tableStart)
		}
	case plan.Paying:
		s = follow(plan.IsActive)
	case plan.Owing:
		s = follow(plan.IsPastDue)
	case plan.Suspended:
		s = follow(plan.IsPaused)
	case plan.External:
		s, err = s.Granted(plan.Grant{Plan: plan.Enterprise}, tableStart)
	default:
		q.oneOf(n, planStates()...)
	}
	if err != nil {
		q.wrong(n, "cannot be reached: %s", err)
	}
	return s
}

func planStates() []string {
	var all []string
	for _, s := range plan.States() {
		all = append(all, string(s))
	}
	return all
}

// statesIn lists the states that a cell names: some, any, or any but some.
func statesIn(cell string) []string {
	if cell == "any" {
		return planStates()
	}
	if but, ok := strings.CutPrefix(cell, "any but "); ok {
		return slices.DeleteFunc(planStates(), func(s string) bool { return slices.Contains(strings.Split(but, ", "), s) })
	}
	return strings.Split(cell, ", ")
}

// subscriptionMoves asks what a move makes of each of the states. A column in
// which they all stay what they are says so.
func subscriptionMoves(q *query) []string {
	var all, was [4][]string
	for _, from := range statesIn(q.in[0]) {
		s := q.subscription(0, from)
		for n, v := range outputs(s.State(), s.Plan, s.Status(), nil) {
			was[n] = append(was[n], v)
		}
		s, note := q.moved(s)
		after := outputs(s.State(), s.Plan, s.Status(), note)
		if err, ok := note.(error); ok {
			after = outputs("refused", nil, nil, err)
		}
		for n, v := range after {
			all[n] = append(all[n], v)
		}
	}
	out := make([]string, len(all))
	for n, v := range all {
		switch same := slices.Compact(slices.Clone(v)); {
		case len(same) == 1:
			out[n] = same[0]
		case slices.Equal(v, was[n]):
			out[n] = "stays"
		default:
			out[n] = strings.Join(v, ", ")
		}
	}
	return out
}

// moved returns the subscription after the row's move, and what is asked of the
// provider or why the move is refused.
func (q *query) moved(s plan.Subscription) (plan.Subscription, any) {
	later := tableStart.Add(time.Hour)
	heard := func(kind plan.EventKind) plan.Subscription {
		end := tableStart.AddDate(0, 2, 0)
		e := plan.Event{Message: "evt_1", Kind: kind, At: later, Customer: "cus_1", Subscription: "sub_1", PeriodEnd: &end}
		if kind == plan.Ended {
			r := remoteOf(plan.IsActive, plan.Premium)
			e.Snapshot = &r
		}
		s, _ = s.Observed(e, later)
		return s
	}
	if status, ok := strings.CutPrefix(q.in[1], "subscription is "); ok {
		s, _ = s.Follow(remoteOf(plan.RemoteStatus(status), plan.Premium), later)
		return s, nil
	}
	var err error
	switch q.in[1] {
	case "POST /billing/trial":
		s, err = s.Trialed(later)
	case "trial ends":
		s = s.At(tableStart.Add(plan.TrialLength))
	case "POST /billing/downgrade":
		var ending plan.Ending
		if s, ending, err = s.Downgraded(later); err != nil {
			break
		}
		switch r := remoteOf(plan.IsActive, s.Plan); ending {
		case plan.AtPeriodEnd:
			r.CancelAtPeriodEnd = true
			s, _ = s.Follow(r, later)
			return s, "cancelled when the period ends"
		case plan.AtOnce:
			r.Status = plan.IsCanceled
			s, _ = s.Follow(r, later)
			return s, "cancelled at once"
		}
	case "invoice.payment_failed": // as below, while the provider cannot be asked
		s = heard(plan.PayFailed)
	case "invoice.paid":
		s = heard(plan.Paid)
	case "customer.subscription.deleted":
		s = heard(plan.Ended)
	case "operator sets PREMIUM":
		s, err = s.Granted(plan.Grant{Plan: plan.Premium}, later)
	default:
		q.wrong(1, "is no move")
	}
	if err != nil {
		return s, err
	}
	return s, nil
}

func subscriptionGate(q *query) []string {
	s := q.subscription(0, q.in[0])
	switch p := q.plan(1); {
	case s.State() == plan.External:
		s, _ = s.Granted(plan.Grant{Plan: p}, tableStart)
	case s.Billed():
		s.Plan = p
	case s.Plan != p:
		q.wrong(1, "is not the plan of %s", s.State())
	}
	return outputs(s.Status(), s.Allowed(), s.HasActivePlan(), s.DailyTokens())
}

func trialLife(q *query) []string {
	s := q.subscription(0, string(plan.OnTrial)).At(tableStart.Add(q.age(0)))
	return outputs(s.Plan, s.Status(), s.HasActivePlan(), s.DailyTokens())
}

// billingPeriod asks for the period of a plan, whose own is from one day to
// another, or none.
func billingPeriod(q *query) []string {
	s := plan.Subscription{Plan: q.plan(0)}
	if from, to, ok := strings.Cut(q.in[1], " to "); ok {
		own := [2]time.Time{}
		for i, day := range []string{from, to} {
			t, err := time.Parse(time.DateOnly, day)
			if err != nil {
				q.wrong(1, "is not of the form 2026-03-10 to 2026-04-10")
			}
			own[i] = t
		}
		s.CurrentPeriodStart, s.CurrentPeriodEnd = &own[0], &own[1]
	}
	p := usage.PeriodOf(s, q.instant(2))
	return outputs(p.Start, p.End)
}

func taskStatus(q *query) []string {
	status := func(n int) task.Status {
		s, ok := task.ParseStatus(q.in[n])
		if !ok && q.in[n] != nothing {
			q.wrong(n, "is no status")
		}
		return s
	}
	from, to, later := status(0), status(1), tableStart.Add(time.Hour)
	draft := task.Draft{Title: "Read", Status: from}
	if q.in[0] == nothing {
		draft.Status = to
	}
	t, err := task.New("task", "org", "user", draft, tableStart)
	if err == nil && q.in[0] != nothing {
		p := task.Patch{Title: patch.Value("Read it")}
		if to != "" {
			p.Status = patch.Value(to)
		}
		t, err = t.Apply(p, later)
	}
	switch at := t.CompletedAt(); {
	case err != nil:
		return outputs(err, nil)
	case at == nil:
		return outputs(t.Status(), "null")
	case from == "" || at.Equal(later):
		return outputs(t.Status(), "set")
	}
	return outputs(t.Status(), "kept")
}

func taskDue(q *query) []string {
	d, ok := task.ParseDue(q.in[0])
	if !ok {
		return outputs("refused", nil, nil)
	}
	return outputs(d, d.Start(), d.End())
}

func taskDueFilter(q *query) []string {
	t, err := task.New("task", "org", "user", task.Draft{Title: "Read", Due: q.due(0)}, tableStart)
	if err != nil {
		return outputs(err)
	}
	f := task.Filter{DueAfter: q.due(1), DueBefore: q.due(2)}
	return outputs(f.Selects(t, org.Actor{User: "user", Org: "org", Role: org.Owner}))
}

func invitationMoves(q *query) []string {
	now := tableStart.Add(time.Hour)
	event := func(i invitation.Invitation, kind identity.Kind, at time.Time) invitation.Invitation {
		return i.Observed(identity.Event{Message: "msg", Kind: kind, Stamp: identity.Stamp{At: at, Rank: identity.RankEnded, Message: "msg"},
			Invitation: identity.InvitationFacts{ProviderID: "inv", Email: "bob@example.com"}}, org.Member, "user", at)
	}
	pending := invitation.New(invitation.Invitation{ID: "invitation", Org: "org", Email: "bob@example.com", Role: org.Member}, "hash", tableStart)
	i := pending
	switch q.oneOf(0, "(none)", "pending", "expired", "accepted", "deleted") {
	case "(none)":
		i = invitation.Invitation{ID: "invitation", Org: "org"}
	case "expired":
		now = tableStart.Add(invitation.Lifetime)
	case "accepted":
		i = event(i, identity.InvitationAccepted, tableStart)
	case "deleted":
		i = event(i, identity.InvitationRevoked, tableStart)
	}
	var err error
	switch q.in[1] {
	case "POST /org/invite":
		if i.Stored() != "" {
			q.wrong(1, "makes another invitation")
		}
		i = invitation.New(i, "hash", now)
	case "POST /org/invite/:id/resend":
		i, err = i.Resent("other hash", now)
	case "DELETE /org/invite/:id":
		i, err = i.Withdrawn(now)
	case "organizationInvitation.created":
		i = event(i, identity.InvitationCreated, now)
	case "organizationInvitation.accepted":
		i = event(i, identity.InvitationAccepted, now)
	case "organizationInvitation.accepted, older":
		i = event(i, identity.InvitationAccepted, tableStart.Add(-time.Hour))
	case "organizationInvitation.revoked":
		i = event(i, identity.InvitationRevoked, now)
	case "organizationInvitation.revoked, older":
		i = event(i, identity.InvitationRevoked, tableStart.Add(-time.Hour))
	case "24 hours pass":
		now = now.Add(invitation.Lifetime)
	default:
		q.wrong(1, "is no move")
	}
	if err != nil {
		return outputs(err)
	}
	words := map[invitation.Status]string{invitation.Pending: "pending", invitation.Accepted: "accepted", invitation.Revoked: "deleted", invitation.Expired: "expired"}
	return outputs(words[i.Status(now)])
}

func invitationLife(q *query) []string {
	i := invitation.New(invitation.Invitation{}, "hash", tableStart)
	if q.in[0] != nothing {
		var err error
		if i, err = i.Resent("other hash", tableStart.Add(q.age(0))); err != nil {
			return outputs(err)
		}
	}
	return outputs(i.Status(tableStart.Add(q.age(1))))
}

func invitationRoom(q *query) []string {
	return outputs(refusedAs(invitation.Room(org.Seats{Members: q.small(1), Pending: q.small(2)}, q.plan(0).Limits().Members)))
}

func tokenAges(q *query) []string {
	c, now := session.Issue("token", "user", "org", org.Member, tableStart), tableStart.Add(q.age(0))
	return outputs(c.Valid(now), c.Refreshable(now))
}

func roleRights(q *query) []string {
	actor := org.Actor{User: "user", Org: "org", Role: q.role(0)}
	return outputs(actor.Writes() == nil, actor.Manages() == nil, actor.Owns() == nil)
}

func roleNames(q *query) []string {
	m, err := org.ParseRoleMap(q.text(1))
	if err != nil {
		q.wrong(1, "cannot be configured: %s", err)
	}
	return outputs(m.Of(q.text(0)))
}

func roleChanges(q *query) []string {
	target := org.Membership{User: "target", Role: q.role(1)}
	return outputs(refusedAs(org.ChangeRole(org.Actor{User: "actor", Org: "org", Role: q.role(0)}, target, q.role(2), org.Seats{Owners: q.small(3), Members: 10})))
}

func memberRemovals(q *query) []string {
	actor, target := org.Actor{User: "actor", Org: "org", Role: q.role(0)}, org.Membership{User: "target", Role: q.role(1)}
	if q.yes(2) {
		target.User = actor.User
	}
	return outputs(refusedAs(org.Remove(actor, target, org.Seats{Owners: q.small(3), Members: 10})))
}

func organisationEnding(q *query) []string {
	return outputs(org.Organisation{ID: "org"}.Close(tableStart).Erasable(tableStart.Add(q.age(0))))
}

func teamSight(q *query) []string {
	user := id.User("user")
	t := team.Team{ID: "team", Org: "org", Kind: team.Kind(q.oneOf(0, string(team.Shared), string(team.Personal), string(team.Standard))), CreatedBy: "other"}
	if q.yes(3) {
		t.CreatedBy = user
	}
	role := q.role(1)
	if !t.Ref().Visible(user, role, q.yes(2)) {
		return outputs(false, nil)
	}
	return outputs(true, refusedAs(t.Deletable(org.Actor{User: user, Org: "org", Role: role}, false)))
}

func quotaGrants(q *query) []string {
	account := quota.Account{Used: q.number(1), Reserved: q.number(2)}
	return outputs(account.Grant(q.number(0), quota.Need{Input: q.number(3), Output: q.number(4)}))
}

func quotaAtOnce(q *query) []string {
	var account quota.Account
	var full, part, refused int
	need := quota.Need{Input: q.number(2), Output: q.number(3)}
	for range q.small(1) {
		switch granted := account.Grant(q.number(0), need); granted {
		case need.Input + need.Output:
			account.Reserved += granted
			full++
		case 0:
			refused++
		default:
			account.Reserved += granted
			part++
		}
	}
	return outputs(full, part, refused, account.Reserved)
}

func quotaSettlement(q *query) []string {
	account := quota.Account{Used: q.number(1), Reserved: q.number(2)}
	account.Used, account.Reserved = account.Used+q.number(3), 0
	s := account.Status(q.number(0), quota.DayOf(tableStart))
	return outputs(s.Used, s.Remaining)
}

func quotaDays(q *query) []string {
	d := quota.DayOf(q.instant(0))
	return outputs(d, quota.Account{}.Status(0, d).ResetsAt)
}

func rolloutBuckets(q *query) []string { return outputs(release.Bucket(q.text(0))) }

func (q *query) percent(n int) int {
	p := q.number(n)
	if p > 100 {
		q.wrong(n, "is more than 100")
	}
	return int(p)
}

func rolloutOffers(q *query) []string {
	return outputs(release.Entry{Rollout: q.percent(1)}.Served(q.text(0)))
}

// rolloutShares asks how many of the devices device-1, device-2 and so on a
// rollout has reached.
func rolloutShares(q *query) []string {
	r, reached := release.Entry{Rollout: q.percent(1)}, 0
	for n := range q.small(0) {
		if r.Served("device-" + strconv.Itoa(n+1)) {
			reached++
		}
	}
	return outputs(reached)
}

func versionOrder(q *query) []string {
	x, err := release.ParseVersion("a", q.text(0))
	if err != nil {
		return outputs(err)
	}
	y, err := release.ParseVersion("b", q.text(1))
	if err != nil {
		return outputs(err)
	}
	return outputs([]string{"a is older", "same", "a is newer"}[x.Compare(y)+1])
}

// updateCheck asks what a device is offered of releases such as
// 1.2.0/X64, 1.3.0/UNIVERSAL/10% and 1.4.0/X64/off.
func updateCheck(q *query) []string {
	var entries []release.Entry
	all := map[id.Release]release.Release{}
	for n, s := range strings.Split(q.in[0], ", ") {
		parts := strings.Split(s, "/")
		if len(parts) < 2 {
			q.wrong(0, "is not of the form 1.2.0/X64/50%%/off")
			break
		}
		settings := release.Settings{DownloadURL: "https://example.com/app", Rollout: 100, Active: true}
		for _, part := range parts[2:] {
			percent, ok := strings.CutSuffix(part, "%")
			v, err := strconv.Atoi(percent)
			switch {
			case part == "off":
				settings.Active = false
			case ok && err == nil:
				settings.Rollout = v
			default:
				q.wrong(0, "is not of the form 1.2.0/X64/50%%/off")
			}
		}
		d := release.Draft{Version: parts[0], Platform: "darwin", Arch: parts[1], Settings: settings}
		r, err := release.New(id.Release("release-"+strconv.Itoa(n)), d, release.Hosts{}, tableStart)
		if err != nil {
			q.wrong(0, "has a release that there cannot be: %s", err)
		}
		entries, all[r.ID] = append(entries, r.Entry()), r
	}
	arch, err := release.ParseArch("arch", q.in[1])
	if err != nil {
		return outputs(err)
	}
	version, err := release.ParseVersion("version", q.in[2])
	if err != nil {
		return outputs(err)
	}
	now, err := (&release.Snapshot{}).With(1, entries, func(ids []id.Release) (found []release.Release, err error) {
		for _, r := range ids {
			found = append(found, all[r])
		}
		return found, nil
	})
	if err != nil {
		return outputs(err)
	}
	offer := now.Offer(release.Target{Platform: release.Darwin, Arch: arch, Channel: release.Stable}, version, q.text(3))
	if offer == nil {
		return outputs(nil)
	}
	return outputs(offer.Version)
}

func objectPaths(q *query) []string {
	path, err := object.ParsePath("path", q.in[0])
	if err != nil {
		return outputs(err)
	}
	return outputs(path)
}

// maxTried is how many segments, of as many characters, a path has that is tried.
const maxTried = 1 << 11

func objectPathLengths(q *query) []string {
	segments, length := q.number(0), q.number(1)
	for i, n := range []int64{segments, length} {
		if n > maxTried {
			q.wrong(i, "makes too long a path to try")
			return outputs(nil)
		}
	}
	parts := slices.Repeat([]string{strings.Repeat("a", int(length))}, int(segments))
	_, err := object.ParsePath("path", strings.Join(parts, "/"))
	return outputs(refusedAs(err))
}

func objectNames(q *query) []string { return outputs(object.Fold(q.in[0]) == object.Fold(q.in[1])) }

func objectPlaces(q *query) []string {
	d := object.Draft{Path: "a.txt", Kind: object.Kind(q.in[0]), Scope: object.Scope(q.in[1])}
	if _, ok := object.ParseKind(q.in[0]); !ok {
		q.wrong(0, "is no kind")
	}
	if _, ok := object.ParseScope(q.in[1]); !ok {
		q.wrong(1, "is no scope")
	}
	teams, in := []id.Team{"team"}, map[id.Workspace]id.Team{}
	if w := id.Workspace(q.text(2)); w != "" {
		d.Workspace, in[w] = &w, "team"
	}
	if t := id.Team(q.text(3)); t != "" {
		d.Team, teams = &t, append(teams, t)
	}
	sight := org.NewStructure(teams, maps.All(in)).Sight(0, func(int) (visible, belongs bool) { return true, true })
	o, err := object.New("file", org.Actor{User: "user", Org: "org", Role: org.Member, Sight: sight}, d)
	if err != nil {
		return outputs(err)
	}
	return outputs(o.StorageKey())
}

func objectVersions(q *query) []string {
	o := object.Object{Version: q.number(0)}
	if q.in[1] == nothing {
		return outputs(refusedAs(o.Expect(nil)))
	}
	expected := q.number(1)
	return outputs(refusedAs(o.Expect(&expected)))
}

// connectorMoves asks what a move makes of an instance that came to a state by the
// moves that lead to it. Where only a CLOUD one comes, a LOCAL one is taken to be.
func connectorMoves(q *query) []string {
	provider := connector.Provider{ID: "notes", Name: "Notes", Auth: connector.APIKey, Transport: connector.HTTP, URL: "https://notes.example.com/mcp"}
	made := func() (connector.Instance, error) {
		return connector.New("connector", "org", "user", provider, connector.Draft{Provider: "notes"}, tableStart)
	}
	var i connector.Instance
	var err error
	then := func(move func() (connector.Instance, error)) {
		if err == nil {
			i, err = move()
		}
	}
	stored := func() (connector.Instance, error) { return i.Stored(connector.Credentials{Entries: "{}"}, tableStart) }
	listed := func() (connector.Instance, error) { return i.Answered(nil, tableStart) }
	failed := func() (connector.Instance, error) { return i.Failed("The server does not answer", tableStart) }
	known := []string{"(none)", string(connector.Disconnected), string(connector.Connecting), string(connector.Connected), string(connector.Failing)}
	if from := q.oneOf(0, known...); from != known[0] {
		then(made)
		if from != known[1] {
			then(stored)
		}
		switch from {
		case known[3]:
			then(listed)
		case known[4]:
			then(failed)
		}
	} else if !strings.HasPrefix(q.in[1], "POST /connectors,") {
		q.wrong(1, "happens to an instance that there is")
	}
	if err != nil {
		q.wrong(0, "cannot be reached: %s", err)
		return outputs(nil)
	}
	switch connector.Move(q.in[1]) {
	case connector.MadeOpen:
		provider.Auth = connector.NoAuth
		then(made)
	case connector.MadeClosed:
		then(made)
	case connector.StoredCloud:
		then(stored)
	case connector.StoredLocal:
		i.Hosting = connector.Local
		then(stored)
	case connector.Renewed:
		then(func() (connector.Instance, error) { return i.Renewed(connector.Credentials{Entries: "{}"}, tableStart) })
	case connector.Answered:
		then(listed)
	case connector.Failed:
		then(failed)
	case connector.Withdrawn:
		then(func() (connector.Instance, error) { return i.Withdrawn("The authorization was withdrawn") })
	default:
		q.wrong(1, "is no move")
	}
	if err != nil {
		return outputs(err)
	}
	return outputs(i.Status())
}

// connectorRetries asks how long after so many failures, one after the other, a
// server is tried again.
func connectorRetries(q *query) []string {
	i, err := connector.New("connector", "org", "user", connector.Provider{ID: "notes", Name: "Notes", Auth: connector.APIKey, Transport: connector.HTTP, URL: "https://notes.example.com/mcp"}, connector.Draft{}, tableStart)
	if err == nil {
		i, err = i.Stored(connector.Credentials{Entries: "{}"}, tableStart)
	}
	for range q.small(0) {
		if err == nil {
			i, err = i.Failed("The server does not answer", tableStart)
		}
	}
	if err != nil || i.DueAt == nil {
		return outputs(err)
	}
	return outputs(i.DueAt.Sub(tableStart))
}
