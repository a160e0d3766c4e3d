package harness

import (
	"cmp"
	"path"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"collab/domain/id"
	"collab/domain/identity"
	"collab/domain/object"
	"collab/domain/release"
	"collab/domain/task"
)

// What an act answers with is seen as records, lists and texts: a record's
// fields are named as in the interface, and everything that is no record and no
// list is a text, or nil where it is unset.
type record []field

type field struct {
	name  string
	value any // a record, []any, a string, or nil
}

func (r record) get(name string) any {
	for _, f := range r {
		if f.name == name {
			return f.value
		}
	}
	return nil
}

// with appends a number.
func (r record) with(name string, n int64) record {
	return append(r, field{name, strconv.FormatInt(n, 10)})
}

// pairs makes a record of names and values, seen at a time.
func pairs(now time.Time, of ...any) record {
	r := make(record, 0, len(of)/2)
	for i := 0; i < len(of); i += 2 {
		r = append(r, field{of[i].(string), view(of[i+1], now)})
	}
	return r
}

// inline is the name of fields whose own fields stand in their place.
const inline = "."

// wireNames are the interface's names of fields that it calls otherwise than
// the domain does; empty: the field is the core's own affair.
var wireNames = map[string]string{
	"audit.Entry.Actor":                  "actorId",
	"audit.Entry.At":                     "createdAt",
	"audit.Entry.Org":                    "",
	"audit.Entry.Request":                "requestId",
	"chat.Generation.Org":                "",
	"chat.Usage.CacheCreated":            "",
	"chat.Usage.CacheRead":               "",
	"chat.Usage.Input":                   "inputTokens",
	"chat.Usage.Output":                  "outputTokens",
	"chat.Usage.Searches":                "",
	"connector.Flow.Browser":             "",
	"connector.Flow.Instance":            "instanceId",
	"connector.Flow.Server":              "",
	"connector.Flow.State":               "",
	"connector.Flow.Verifier":            "",
	"connector.Instance.DueAt":           "",
	"connector.Instance.ExpiresAt":       "credentialsExpireAt",
	"connector.Instance.Org":             "",
	"connector.Instance.Provider":        "serverId",
	"connector.Instance.URL":             "",
	"connector.Instance.Version":         "credentialsVersion",
	"connector.Provider.Auth":            "authMode",
	"connector.Provider.Fields":          "credentialFields",
	"connector.Provider.ID":              "serverId",
	"connector.Provider.Name":            "displayName",
	"connector.Provider.Transport":       "mcpTransport",
	"connector.Provider.URL":             "mcpUrl",
	"connectors.Authorization.Instance":  "instanceId",
	"connectors.Authorization.URL":       "authUrl",
	"invitation.Invitation.Org":          "",
	"invitation.Invitation.ProviderID":   "",
	"invitation.Invitation.ResendsUntil": "",
	"invitation.Invitation.TokenHash":    "",
	"members.Invited.URL":                "inviteUrl",
	"object.Change.By":                   "changedBy",
	"object.Content.Blob":                "",
	"object.Content.Text":                "",
	"object.Object.N":                    "",
	"object.Object.Org":                  "",
	"operator.Overview.Seats":            inline,
	"org.Membership.Org":                 "",
	"org.Membership.ProviderRole":        "",
	"org.Membership.RemovedAt":           "",
	"org.Membership.RoleIssuedAt":        "",
	"org.Membership.RoleSetHere":         "",
	"org.Membership.UsedAt":              "",
	"org.Organisation.CreatedBy":         "",
	"org.Organisation.ErasedAt":          "",
	"org.Organisation.Full":              "",
	"org.Organisation.EmailsUntil":       "",
	"org.Organisation.ProviderID":        "",
	"org.Organisation.SlugIssuedAt":      "",
	"org.Profile.Person":                 inline,
	"org.Seats.Pending":                  "pendingInvitations",
	"org.User.AvatarURLIssuedAt":         "",
	"org.User.Blocked":                   "",
	"org.User.CreatedAt":                 "",
	"org.User.DeletedAt":                 "",
	"org.User.EmailIssuedAt":             "",
	"org.User.Full":                      "",
	"org.User.NameIssuedAt":              "",
	"org.User.ProviderID":                "",
	"org.User.UpdatedAt":                 "",
	"plan.Subscription.Checkout":         "",
	"plan.Subscription.Customer":         "",
	"plan.Subscription.EverPaid":         "hadPriorSubscription",
	"plan.Subscription.SyncedAt":         "",
	"plan.Subscription.Attempts":         "",
	"plan.Subscription.AskedAt":          "",
	"plan.Subscription.Org":              "",
	"plan.Subscription.ProviderID":       "",
	"plan.Subscription.Revision":         "",
	"plan.Subscription.UpdatedAt":        "",
	"release.Settings.Notes":             "releaseNotes",
	"release.Settings.Rollout":           "rolloutPercentage",
	"releases.Reach.Client":              "clientId",
	"task.Change.At":                     "changedAt",
	"task.Change.By":                     "changedBy",
	"task.Change.Fields":                 "changes",
	"task.Change.Org":                    "",
	"task.Task.Due":                      "dueDate",
	"task.Task.Org":                      "",
	"team.Member.Team":                   "",
	"team.Profile.Person":                inline,
	"team.Team.Org":                      "",
	"usage.Period.End":                   "periodEnd",
	"usage.Period.Start":                 "periodStart",
	"usage.Sum.Input":                    "inputTokens",
	"usage.Sum.Output":                   "outputTokens",
	"workspace.Workspace.Org":            "",
}

// asked are the methods whose answers are fields of the interface.
var asked = []struct{ method, name string }{
	{"Status", "status"}, {"CompletedAt", "completedAt"}, {"StorageKey", "storageKey"},
	{"Allowed", "allowed"}, {"HasActivePlan", "hasActivePlan"},
}

var (
	typeOfTime  = reflect.TypeFor[time.Time]()
	typeOfStamp = reflect.TypeFor[identity.Stamp]()
	packageOfID = reflect.TypeFor[id.Org]().PkgPath()
)

// view returns a value of the domain as a record, a list or a text. Where a
// state depends on the time, it is that of now.
func view(v any, now time.Time) any { return viewOf(reflect.ValueOf(v), now) }

func viewOf(v reflect.Value, now time.Time) any {
	if !v.IsValid() {
		return nil
	}
	switch v := v.Interface().(type) {
	case time.Time:
		return instant(v)
	case time.Duration:
		return v.String()
	case task.Due:
		return v.String()
	case release.Version:
		return v.String()
	case object.Cursor:
		return v.String()
	case record, []any:
		return v
	}
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if v.IsNil() {
			return nil
		}
		return viewOf(v.Elem(), now)
	case reflect.Struct:
		r := make(record, 0, v.NumField())
		return fill(r, v, now)
	case reflect.Slice, reflect.Array:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return unset(string(v.Bytes()))
		}
		list := make([]any, v.Len())
		for i := range list {
			list[i] = viewOf(v.Index(i), now)
		}
		return list
	case reflect.String:
		return unset(v.String())
	case reflect.Bool:
		return strconv.FormatBool(v.Bool())
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return strconv.FormatInt(v.Int(), 10)
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return strconv.FormatUint(v.Uint(), 10)
	case reflect.Map:
		return viewMap(v, now)
	}
	return nil
}

func viewMap(v reflect.Value, now time.Time) any {
	if v.Type().Key().Kind() != reflect.String {
		return nil
	}
	r := make(record, 0, v.Len())
	for _, k := range v.MapKeys() {
		r = append(r, field{k.String(), viewOf(v.MapIndex(k), now)})
	}
	slices.SortFunc(r, func(a, b field) int { return strings.Compare(a.name, b.name) })
	return r
}

// unset turns an empty text into none: the domain has no text where the
// interface has null.
func unset(s string) any {
	if s == "" {
		return nil
	}
	return s
}

// fill appends the fields of a struct, those of what it embeds among them.
func fill(r record, v reflect.Value, now time.Time) record {
	t := v.Type()
	for i := range t.NumField() {
		f := t.Field(i)
		if !f.IsExported() || f.Type == typeOfStamp {
			continue
		}
		name, ok := wireNames[path.Base(t.PkgPath())+"."+t.Name()+"."+f.Name]
		if f.Anonymous && f.Type.Kind() == reflect.Struct || name == inline {
			r = fill(r, v.Field(i), now)
			continue
		}
		if !ok {
			name = wireName(f.Name, f.Type)
		}
		if name != "" && !r.has(name) {
			r = append(r, field{name, viewOf(v.Field(i), now)})
		}
	}
	for _, a := range asked {
		m := v.MethodByName(a.method)
		if !m.IsValid() || r.has(a.name) {
			continue
		}
		var in []reflect.Value
		switch t := m.Type(); {
		case t.NumOut() != 1 || t.NumIn() > 1:
			continue
		case t.NumIn() == 1 && t.In(0) != typeOfTime:
			continue
		case t.NumIn() == 1:
			in = []reflect.Value{reflect.ValueOf(now)}
		}
		r = append(r, field{a.name, viewOf(m.Call(in)[0], now)})
	}
	return r
}

func (r record) has(name string) bool {
	return slices.ContainsFunc(r, func(f field) bool { return f.name == name })
}

// wireName turns AvatarURL into avatarUrl, and a reference such as Workspace
// into workspaceId.
func wireName(name string, t reflect.Type) string {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.PkgPath() == packageOfID && name != "ID" && !strings.HasSuffix(name, "By") {
		name += "ID"
	}
	letters := []rune(name)
	for i, c := range letters {
		// The first letter of a word stays large, if a word stands before it.
		starts := i > 0 && unicode.IsUpper(c) && (!unicode.IsUpper([]rune(name)[i-1]) || i+1 < len(letters) && unicode.IsLower([]rune(name)[i+1]))
		if !starts {
			letters[i] = unicode.ToLower(c)
		}
	}
	return string(letters)
}

// instant writes a time as the interface does.
func instant(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t.UTC().Format("2006-01-02T15:04:05.000Z")
}

// find follows a path from a value; nil where it leads nowhere.
func find(v any, parts []part) any {
	for _, p := range parts {
		switch of := v.(type) {
		case record:
			if p.name == "" {
				return nil
			}
			v = of.get(p.name)
		case []any:
			switch {
			case p.index != nil:
				i := *p.index
				if i < 0 {
					i += len(of)
				}
				if i < 0 || i >= len(of) {
					return nil
				}
				v = of[i]
			case p.find:
				v = pick(of, p.key, p.value)
			case p.name == "count":
				v = strconv.Itoa(len(of))
			default:
				return nil
			}
		default:
			return nil
		}
	}
	return v
}

// identities are the fields by which an element is found when no field is named.
var identities = []string{"id", "userId", "serverId", "clientId", "instanceId"}

func pick(list []any, key, value string) any {
	for _, v := range list {
		r, ok := v.(record)
		switch {
		case !ok && key == "" && v == value:
			return v
		case !ok:
		case key != "":
			if write(r.get(key)) == value {
				return v
			}
		default:
			for _, name := range identities {
				if r.get(name) == value {
					return v
				}
			}
		}
	}
	return nil
}

// write writes a value in one line, as it stands behind a sign.
func write(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case record:
		texts := make([]string, len(v))
		for i, f := range v {
			texts[i] = f.name + ": " + write(f.value)
		}
		return "{" + strings.Join(texts, ", ") + "}"
	case []any:
		texts := make([]string, len(v))
		for i, e := range v {
			texts[i] = write(e)
		}
		return strings.Join(texts, ",")
	}
	return "none"
}

// compare holds a value against what is expected of it.
func compare(actual any, op, want string) bool {
	is := write(actual)
	switch op {
	case "=":
		return is == want || want == "" && actual == nil || same(is, want)
	case "!=":
		return !compare(actual, "=", want)
	case "~":
		return actual != nil && strings.Contains(is, want)
	case "!~":
		return !compare(actual, "~", want)
	}
	order, ok := orderOf(is, want)
	switch op {
	case "<":
		return ok && order < 0
	case "<=":
		return ok && order <= 0
	case ">":
		return ok && order > 0
	}
	return ok && order >= 0
}

// same reports whether two texts are the same time.
func same(a, b string) bool {
	s, ok := parseInstant(a)
	t, ok2 := parseInstant(b)
	return ok && ok2 && s.Equal(t)
}

// orderOf compares two numbers, or two times; ok is false for anything else.
func orderOf(a, b string) (order int, ok bool) {
	m, err := strconv.ParseInt(a, 10, 64)
	n, err2 := strconv.ParseInt(b, 10, 64)
	if err == nil && err2 == nil {
		return cmp.Compare(m, n), true
	}
	s, ok := parseInstant(a)
	t, ok2 := parseInstant(b)
	return s.Compare(t), ok && ok2
}

// parseInstant reads a time as scenarios write it, with or without a fraction.
func parseInstant(s string) (time.Time, bool) {
	t, err := time.Parse(time.RFC3339, s)
	return t.UTC(), err == nil
}

// parseSpan reads a length of time such as 14d, 3h30m or 500ms.
func parseSpan(s string) (time.Duration, bool) {
	if s == "" || !isDigit(s[0]) {
		return 0, false
	}
	var d time.Duration
	if days, rest, ok := strings.Cut(s, "d"); ok {
		n, err := strconv.ParseInt(days, 10, 32)
		if err != nil || n > 100*366 {
			return 0, false
		}
		if d = time.Duration(n) * 24 * time.Hour; rest == "" {
			return d, true
		}
		s = rest
	}
	more, err := time.ParseDuration(s)
	if err != nil || more < 0 || !isDigit(s[0]) {
		return 0, false
	}
	return d + more, true
}

// lines writes a value as expectations that hold of it, each in a line.
func lines(v any, at string, out []string) []string {
	switch v := v.(type) {
	case record:
		for _, f := range v {
			path := f.name
			if at != "" {
				path = at + "." + f.name
			}
			out = lines(f.value, path, out)
		}
	case []any:
		if at != "" && len(v) > 0 && !slices.ContainsFunc(v, isRecord) {
			return append(out, at+" = "+quote(write(v)))
		}
		count := "count"
		if at != "" {
			count = at + ".count"
		}
		out = append(out, count+" = "+strconv.Itoa(len(v)))
		for i, e := range v {
			out = lines(e, at+"["+strconv.Itoa(i)+"]", out)
		}
	default:
		out = append(out, at+" = "+quote(write(v)))
	}
	return out
}

func isRecord(v any) bool {
	_, ok := v.(record)
	return ok
}

// quote puts a text in quotes that would not be one word without.
func quote(s string) string {
	if s != "" && s[0] != '#' && s[0] != '\'' && !strings.ContainsAny(s, " \t\n\"\\$") {
		return s
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "\t", `\t`, "$", "$$").Replace(s) + `"`
}
