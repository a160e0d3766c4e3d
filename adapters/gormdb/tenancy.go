package gormdb

import (
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"strings"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"collab/domain/fault"
)

// tenantTables are the tables whose rows belong to an organisation. What
// belongs to none is users, organisations themselves, the inbox, replays, the
// clients that authorization servers know, and the releases of the desktop
// application with the counts of who has them, which are the deployment's.
var tenantTables = []string{
	"memberships", "invitations", "subscriptions", "teams", "team_members", "workspaces", "workspace_orders",
	"tasks", "task_texts", "task_tags", "task_history", "audit", "objects", "log_heads", "changes", "blob_names",
	"quota_accounts", "quota_leases", "usage_entries", "usage_user_models", "usage_users", "usage_models",
	"connectors", "connector_credentials", "connector_flows", "connector_revocations", "sessions",
}

// The statements that go across organisations on purpose, all of them, each
// with the reason.
var (
	acrossMemberships = across("memberships of one user: which organisations there are is the question")
	acrossInvitations = across("an invitation's token is all that an invited person has")
	acrossCustomers   = across("a customer's id is all that the payment provider says of an organisation")
	acrossDue         = across("what is due is looked after for all organisations")
	acrossOverview    = across("an operator's list shows the seats and the subscription of each organisation in it")
	acrossHeads       = across("a server asks for the logs of all organisations that its clients follow")
	acrossLogs        = across("old entries are removed from all logs")
	acrossBlobs       = across("there is one store of blobs, and what nobody needs is removed from all of it")
	acrossLeases      = across("a server extends the leases of all its requests, and what anybody's hold is given back when they expire")
	acrossAudit       = across("an entry of the deployment belongs to no organisation")
	acrossConnectors  = across("tool servers are looked at, and authorizations taken back, for all organisations")
	acrossSessions    = across("a session is found by a token of it, and one user's are in all their organisations")
	acrossFlows       = across("a browser that comes back from a provider has nothing but the state, and what expired is removed for all organisations")
)

// across is the reason why a statement on a tenant table names no organisation.
type across string

const acrossKey = "collab:across"

func (a across) on(db *gorm.DB) *gorm.DB { return db.Set(acrossKey, a) }

// errNoOrganisation says that a statement would see more than one tenant.
var errNoOrganisation = errors.New("a statement on a tenant's table names no organisation")

// guard makes GORM refuse every statement on a tenant table that is not
// confined to an organisation. It is a net under the repositories, for the day
// when somebody forgets: keys with the organisation in them are what keeps
// tenants apart.
func guard(db *gorm.DB) error {
	const name = "collab:tenancy"
	return errors.Join(
		db.Callback().Create().Before("*").Register(name, guardCreate),
		db.Callback().Query().Before("*").Register(name, guardEither),
		db.Callback().Update().Before("*").Register(name, guardBuilt),
		db.Callback().Delete().Before("*").Register(name, guardBuilt),
		db.Callback().Row().Before("*").Register(name, guardEither),
		db.Callback().Raw().Before("*").Register(name, guardWritten),
	)
}

func refuse(db *gorm.DB, why string) {
	_ = db.AddError(unconfinedError(why))
}

func unconfinedError(why string) error {
	return fault.Wrap(fault.Internal, fmt.Errorf("%w: %s", errNoOrganisation, why), "The database failed")
}

func excused(db *gorm.DB) bool {
	v, _ := db.Get(acrossKey)
	reason, ok := v.(across)
	return ok && reason != ""
}

// guardCreate wants the organisation set in every row.
func guardCreate(db *gorm.DB) {
	if tables := builtTables(db.Statement); len(tables) == 0 || db.Error != nil || excused(db) {
		return
	}
	rows := reflect.Indirect(reflect.ValueOf(db.Statement.Dest))
	if rows.Kind() != reflect.Slice && rows.Kind() != reflect.Array {
		if !namesOrg(db.Statement, rows) {
			refuse(db, "a new row in "+db.Statement.Table)
		}
		return
	}
	for i := range rows.Len() {
		if !namesOrg(db.Statement, reflect.Indirect(rows.Index(i))) {
			refuse(db, "a new row in "+db.Statement.Table)
			return
		}
	}
}

func namesOrg(s *gorm.Statement, row reflect.Value) bool {
	switch row.Kind() {
	case reflect.Map:
		v, ok := row.Interface().(map[string]any)
		return ok && v["org_id"] != nil && v["org_id"] != ""
	case reflect.Struct:
		if s.Schema == nil {
			return false
		}
		field := s.Schema.LookUpField("org_id")
		if field == nil {
			return false
		}
		_, zero := field.ValueOf(s.Context, row)
		return !zero
	}
	return false
}

// guardBuilt wants a condition on the organisation in a statement that GORM
// builds. Where there are joins, one in the WHERE is what confines them.
func guardBuilt(db *gorm.DB) {
	if db.Statement.SQL.Len() > 0 {
		return // written out: the other guard's
	}
	tables := builtTables(db.Statement)
	if len(tables) == 0 || db.Error != nil || excused(db) {
		return
	}
	where, ok := db.Statement.Clauses["WHERE"].Expression.(clause.Where)
	if !ok || !anyConfines(where.Exprs) {
		refuse(db, "a condition on "+strings.Join(tables, ", "))
	}
}

// builtTables returns the tenant tables that a statement of the builder names.
func builtTables(s *gorm.Statement) []string {
	named := []string{s.Table}
	if s.Schema != nil {
		named = append(named, s.Schema.Table)
	}
	text := ""
	if s.TableExpr != nil {
		text = "FROM " + s.TableExpr.SQL
	}
	for _, j := range s.Joins {
		text += " " + j.Name
	}
	for _, m := range mentioned.FindAllStringSubmatch(text, -1) {
		named = append(named, m[1])
	}
	var tenant []string
	for _, t := range tenantTables {
		for _, n := range named {
			if strings.EqualFold(n, t) {
				tenant = append(tenant, t)
				break
			}
		}
	}
	return tenant
}

// anyConfines reports whether one of the conditions, all of which must hold,
// names an organisation.
func anyConfines(all []clause.Expression) bool {
	for _, e := range all {
		// GORM puts what follows Or into an OrConditions, which undoes the others.
		if _, or := e.(clause.OrConditions); or {
			return false
		}
	}
	for _, e := range all {
		switch e := e.(type) {
		case clause.Eq:
			if columnName(e.Column) == "org_id" && e.Value != nil && fmt.Sprint(e.Value) != "" {
				return true
			}
		case clause.AndConditions:
			if anyConfines(e.Exprs) {
				return true
			}
		case clause.Expr:
			if exprConfines(e) {
				return true
			}
		}
	}
	return false
}

func columnName(c any) string {
	switch c := c.(type) {
	case string:
		return c[strings.LastIndexByte(c, '.')+1:]
	case clause.Column:
		return c.Name
	}
	return ""
}

// exprConfines reports whether a written condition equates org_id with a value
// that is there, and has no alternative to that.
func exprConfines(e clause.Expr) bool {
	at := equated.FindStringIndex(e.SQL)
	if at == nil || alternative.MatchString(outside(e.SQL)) {
		return false
	}
	n := strings.Count(e.SQL[:at[1]-1], "?")
	return n < len(e.Vars) && e.Vars[n] != nil && fmt.Sprint(e.Vars[n]) != ""
}

// outside returns what of a condition is in no parentheses.
func outside(s string) string {
	var b strings.Builder
	depth := 0
	for _, r := range s {
		switch {
		case r == '(':
			depth++
		case r == ')':
			depth--
		case depth == 0:
			b.WriteRune(r)
		}
	}
	return b.String()
}

var (
	mentioned   = regexp.MustCompile("(?i)\\b(?:from|join|into|update|using)\\s+[\"`]?(" + strings.Join(tenantTables, "|") + ")\\b")
	equated     = regexp.MustCompile("(?i)\\borg_id[\"`]?\\s*=\\s*\\?")
	alternative = regexp.MustCompile(`(?i)\bor\b`)

	literal     = regexp.MustCompile(`'(?:[^']|'')*'|--[^\n]*|(?s:/\*.*?\*/)`)
	insertedOrg = "\\binsert\\s+into\\s+[\"`]?\\w+[\"`]?\\s*\\(\\s*[\"`]?org_id\\b"
	confined    = regexp.MustCompile("(?i)\\borg_id[\"`]?\\s*=\\s*(?:\\?|\\$\\d+|[a-z_]+\\.org_id\\b)|" + insertedOrg)
	confinedBy  = regexp.MustCompile("(?i)\\borg_id[\"`]?\\s*=\\s*(?:\\?|\\$\\d+)|" + insertedOrg)
	undone      = regexp.MustCompile("(?i)\\borg_id[\"`]?\\s*=\\s*(?:\\?|\\$\\d+)\\s+or\\b|\\bor\\s+(?:[a-z_]+\\.)?[\"`]?org_id[\"`]?\\s*=")
)

// guardWritten wants the same of a statement that was written out and that GORM
// runs, as it does those with lists (see query).
func guardWritten(db *gorm.DB) {
	if db.Error != nil {
		return
	}
	if why := ready(db, db.Statement.SQL.String()).unconfined; why != "" && !excused(db) {
		refuse(db, why)
	}
}

// guardEither is for statements of either kind.
func guardEither(db *gorm.DB) {
	if db.Statement.SQL.Len() == 0 {
		guardBuilt(db)
		return
	}
	guardWritten(db)
}

// unconfined says what is wrong with a written statement, "" if nothing is:
// each mention of a tenant table needs an organisation of its own, from a
// parameter or from another table that has one, and at least one comes from a
// parameter or is written into the row.
func unconfined(text string) string {
	text = literal.ReplaceAllString(text, " '' ")
	tables := mentioned.FindAllStringSubmatch(text, -1)
	if len(tables) == 0 {
		return ""
	}
	if len(confined.FindAllString(text, -1)) < len(tables) || !confinedBy.MatchString(text) || undone.MatchString(text) {
		return "a written statement on " + tables[0][1]
	}
	return ""
}
