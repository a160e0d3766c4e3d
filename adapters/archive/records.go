package archive

import (
	"bytes"
	"encoding/json"
	"io"
	"time"

	"collab/domain/archive"
	"collab/domain/audit"
	"collab/domain/check"
	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/identity"
	"collab/domain/object"
	"collab/domain/org"
	"collab/domain/task"
	"collab/domain/team"
	"collab/domain/workspace"
)

// maxText bounds texts that only this service writes, in characters.
const maxText = 4_000

// codec writes and reads the records of one kind.
type codec struct {
	row    func() any // a pointer to an empty row
	encode func(archive.Record) any
	decode func(row any, o id.Org) (archive.Record, error)
}

// newCodec returns the codec of rows of type R. If decode is nil, rows are decoded as empty records.
func newCodec[R any](encode func(archive.Record) R, decode func(R, id.Org) (archive.Record, error)) codec {
	return codec{
		row:    func() any { return new(R) },
		encode: func(r archive.Record) any { return encode(r) },
		decode: func(row any, o id.Org) (archive.Record, error) {
			if decode == nil {
				return archive.Record{}, nil
			}
			return decode(*row.(*R), o)
		},
	}
}

var codecs = map[archive.Kind]codec{
	archive.Organisations:   newCodec(viewOrganisation, organisationRow.record),
	archive.Subscriptions:   newCodec(viewSubscription, nil),
	archive.Members:         newCodec(viewMember, memberRow.record),
	archive.Invitations:     newCodec(viewInvitation, nil),
	archive.Teams:           newCodec(viewTeam, teamRow.record),
	archive.TeamMembers:     newCodec(viewTeamMember, teamMemberRow.record),
	archive.Workspaces:      newCodec(viewWorkspace, workspaceRow.record),
	archive.WorkspaceOrders: newCodec(viewOrder, orderRow.record),
	archive.Tasks:           newCodec(viewTask, taskRow.record),
	archive.TaskHistory:     newCodec(viewChange, changeRow.record),
	archive.Connectors:      newCodec(viewConnector, nil),
	archive.Usage:           newCodec(viewUsage, nil),
	archive.AuditEntries:    newCodec(viewEntry, entryRow.record),
	archive.Objects:         newCodec(viewObject, objectRow.record),
}

// encodeLine returns the line of a record, with its line feed.
func (c codec) encodeLine(r archive.Record) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(c.encode(r)); err != nil {
		return nil, err
	}
	if b.Len() > maxLine {
		return nil, fault.New(fault.TooLarge, "a record has %d bytes, and %d are the most", b.Len(), maxLine)
	}
	return b.Bytes(), nil
}

// parseLine returns the record of a line.
func (c codec) parseLine(line []byte, o id.Org) (archive.Record, error) {
	row := c.row()
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	if err := d.Decode(row); err != nil {
		return archive.Record{}, fault.New(fault.Invalid, "is not as it is written: %v", err)
	}
	if _, err := d.Token(); err != io.EOF {
		return archive.Record{}, fault.New(fault.Invalid, "has more than one value")
	}
	return c.decode(row, o)
}

// jsonTime is a time in milliseconds.
type jsonTime time.Time

const timeLayout = "2006-01-02T15:04:05.000Z"

func (m jsonTime) MarshalJSON() ([]byte, error) {
	return []byte(time.Time(m).UTC().Format(`"` + timeLayout + `"`)), nil
}

func (m *jsonTime) UnmarshalJSON(b []byte) error {
	t, err := time.Parse(`"`+timeLayout+`"`, string(b))
	*m = jsonTime(t)
	return err
}

func timeOrNull(t *time.Time) *jsonTime {
	if t == nil {
		return nil
	}
	return new(jsonTime(*t))
}

func (m *jsonTime) time() *time.Time {
	if m == nil {
		return nil
	}
	return new(time.Time(*m))
}

func textOrNull[T ~string](s T) *string {
	if s == "" {
		return nil
	}
	return new(string(s))
}

func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// fields collects the problems of a row.
type fields struct{ check.List }

// checkID adds a problem unless the value is an id.
func checkID[T ~string](f *fields, field string, value T) {
	if _, ok := id.Parse[T](string(value)); !ok {
		f.Add(field, "must be an id")
	}
}

func checkOptionalID[T ~string](f *fields, field string, value *T) {
	if value != nil {
		checkID(f, field, *value)
	}
}

// record returns the record if there are no problems.
func (f *fields) record(r archive.Record) (archive.Record, error) {
	if err := f.Err(); err != nil {
		return archive.Record{}, err
	}
	return r, nil
}

type organisationRow struct {
	ID                     id.Org   `json:"id"`
	Name                   string   `json:"name"`
	Slug                   string   `json:"slug"`
	IdentityOrganisationID string   `json:"identityOrganisationId"`
	CreatedAt              jsonTime `json:"createdAt"`
	UpdatedAt              jsonTime `json:"updatedAt"`
	CreatedBy              *string  `json:"createdByIdentityId"`
}

func viewOrganisation(r archive.Record) organisationRow {
	o := r.Organisation
	return organisationRow{o.ID, o.Name, o.Slug, o.ProviderID, jsonTime(o.CreatedAt), jsonTime(o.UpdatedAt), textOrNull(o.CreatedBy)}
}

func (r organisationRow) record(o id.Org) (archive.Record, error) {
	var f fields
	if r.ID != o {
		f.Add("id", "must be the organisation of the manifest")
	}
	if !identity.ValidID(r.IdentityOrganisationID) {
		f.Add("identityOrganisationId", "must be an identity provider's id")
	}
	f.Text("createdByIdentityId", text(r.CreatedBy), identity.MaxID)
	return f.record(archive.Record{Organisation: &org.Organisation{
		ID: r.ID, Name: identity.CleanName(r.Name), Slug: identity.CleanName(r.Slug),
		ProviderID: r.IdentityOrganisationID,
		CreatedAt:  time.Time(r.CreatedAt), UpdatedAt: time.Time(r.UpdatedAt), CreatedBy: text(r.CreatedBy),
	}})
}

type subscriptionRow struct {
	Plan               string    `json:"plan"`
	Status             string    `json:"status"`
	PurchasedSeats     *int      `json:"purchasedSeats"`
	CurrentPeriodStart *jsonTime `json:"currentPeriodStart"`
	CurrentPeriodEnd   *jsonTime `json:"currentPeriodEnd"`
	CancelAtPeriodEnd  bool      `json:"cancelAtPeriodEnd"`
	TrialEnd           *jsonTime `json:"trialEnd"`
	ManagedExternally  bool      `json:"managedExternally"`
	HasPaymentMethod   bool      `json:"hasPaymentMethod"`
}

func viewSubscription(r archive.Record) subscriptionRow {
	s := r.Subscription
	return subscriptionRow{
		string(s.Plan), string(s.Status()), s.PurchasedSeats, timeOrNull(s.CurrentPeriodStart), timeOrNull(s.CurrentPeriodEnd),
		s.CancelAtPeriodEnd, timeOrNull(s.TrialEnd), s.ManagedExternally, s.HasPaymentMethod,
	}
}

type memberRow struct {
	UserID              id.User  `json:"userId"`
	IdentityUserID      string   `json:"identityUserId"`
	Name                *string  `json:"name"`
	Email               *string  `json:"email"`
	AvatarURL           *string  `json:"avatarUrl"`
	Role                org.Role `json:"role"`
	IdentityRole        *string  `json:"identityRole"`
	OnboardingCompleted bool     `json:"onboardingCompleted"`
	JoinedAt            jsonTime `json:"joinedAt"`
}

func viewMember(r archive.Record) memberRow {
	m := r.Member
	return memberRow{
		m.User, m.Person.ProviderID, textOrNull(m.Person.Name), textOrNull(m.Person.Email), textOrNull(m.Person.AvatarURL), m.Role, textOrNull(m.ProviderRole),
		m.OnboardingCompleted, jsonTime(m.JoinedAt),
	}
}

func (r memberRow) record(o id.Org) (archive.Record, error) {
	var f fields
	checkID(&f, "userId", r.UserID)
	if !identity.ValidID(r.IdentityUserID) {
		f.Add("identityUserId", "must be an identity provider's id")
	}
	if _, ok := org.ParseRole(string(r.Role)); !ok {
		f.Add("role", org.RoleRule)
	}
	return f.record(archive.Record{Member: &org.Profile{
		Membership: org.Membership{
			Org: o, User: r.UserID, Role: r.Role, ProviderRole: identity.CleanName(text(r.IdentityRole)),
			OnboardingCompleted: r.OnboardingCompleted, JoinedAt: time.Time(r.JoinedAt),
		},
		Person: org.User{
			ID: r.UserID, ProviderID: r.IdentityUserID, Name: identity.CleanName(text(r.Name)),
			Email: identity.CleanEmail(text(r.Email)), AvatarURL: identity.CleanURL(text(r.AvatarURL)),
		},
	}})
}

type invitationRow struct {
	ID         id.Invitation `json:"id"`
	Email      string        `json:"email"`
	Role       org.Role      `json:"role"`
	Status     string        `json:"status"`
	ExpiresAt  jsonTime      `json:"expiresAt"`
	CreatedAt  jsonTime      `json:"createdAt"`
	AcceptedAt *jsonTime     `json:"acceptedAt"`
	InvitedBy  *string       `json:"invitedBy"`
}

func viewInvitation(r archive.Record) invitationRow {
	i := r.Invitation
	return invitationRow{
		i.ID, i.Email, i.Role, string(i.StoredStatus()), jsonTime(i.ExpiresAt), jsonTime(i.CreatedAt), timeOrNull(i.AcceptedAt), textOrNull(i.InvitedBy),
	}
}

type teamRow struct {
	ID          id.Team   `json:"id"`
	Name        string    `json:"name"`
	Description *string   `json:"description"`
	Kind        team.Kind `json:"kind"`
	CreatedBy   id.User   `json:"createdBy"`
	CreatedAt   jsonTime  `json:"createdAt"`
	UpdatedAt   jsonTime  `json:"updatedAt"`
}

func viewTeam(r archive.Record) teamRow {
	t := r.Team
	return teamRow{t.ID, t.Name, t.Description, t.Kind, t.CreatedBy, jsonTime(t.CreatedAt), jsonTime(t.UpdatedAt)}
}

func (r teamRow) record(o id.Org) (archive.Record, error) {
	var f fields
	checkID(&f, "id", r.ID)
	checkID(&f, "createdBy", r.CreatedBy)
	if _, ok := check.OneOf(string(r.Kind), team.Shared, team.Personal, team.Standard); !ok {
		f.Add("kind", "must be one of SHARED, PERSONAL, STANDARD")
	}
	t, err := team.New(r.ID, o, r.Kind, r.CreatedBy, team.Draft{Name: r.Name, Description: r.Description}, time.Time(r.CreatedAt))
	f.AddError(err)
	t.UpdatedAt = time.Time(r.UpdatedAt)
	return f.record(archive.Record{Team: &t})
}

type teamMemberRow struct {
	TeamID   id.Team  `json:"teamId"`
	UserID   id.User  `json:"userId"`
	JoinedAt jsonTime `json:"joinedAt"`
}

func viewTeamMember(r archive.Record) teamMemberRow {
	return teamMemberRow{r.TeamMember.Team, r.TeamMember.User, jsonTime(r.TeamMember.JoinedAt)}
}

func (r teamMemberRow) record(id.Org) (archive.Record, error) {
	var f fields
	checkID(&f, "teamId", r.TeamID)
	checkID(&f, "userId", r.UserID)
	return f.record(archive.Record{TeamMember: &team.Member{Team: r.TeamID, User: r.UserID, JoinedAt: time.Time(r.JoinedAt)}})
}

type workspaceRow struct {
	ID          id.Workspace `json:"id"`
	TeamID      id.Team      `json:"teamId"`
	Name        string       `json:"name"`
	Description *string      `json:"description"`
	CreatedBy   id.User      `json:"createdBy"`
	CreatedAt   jsonTime     `json:"createdAt"`
	UpdatedAt   jsonTime     `json:"updatedAt"`
}

func viewWorkspace(r archive.Record) workspaceRow {
	w := r.Workspace
	return workspaceRow{w.ID, w.Team, w.Name, w.Description, w.CreatedBy, jsonTime(w.CreatedAt), jsonTime(w.UpdatedAt)}
}

func (r workspaceRow) record(o id.Org) (archive.Record, error) {
	var f fields
	checkID(&f, "id", r.ID)
	checkID(&f, "teamId", r.TeamID)
	checkID(&f, "createdBy", r.CreatedBy)
	w, err := workspace.New(r.ID, o, r.CreatedBy, workspace.Draft{Name: r.Name, Description: r.Description, Team: r.TeamID}, time.Time(r.CreatedAt))
	f.AddError(err)
	w.UpdatedAt = time.Time(r.UpdatedAt)
	return f.record(archive.Record{Workspace: &w})
}

type orderRow struct {
	UserID id.User        `json:"userId"`
	Order  []id.Workspace `json:"order"`
}

func viewOrder(r archive.Record) orderRow {
	return orderRow{r.WorkspaceOrder.User, r.WorkspaceOrder.Workspaces}
}

func (r orderRow) record(id.Org) (archive.Record, error) {
	var f fields
	checkID(&f, "userId", r.UserID)
	for _, w := range r.Order {
		checkID(&f, "order", w)
	}
	return f.record(archive.Record{WorkspaceOrder: &archive.WorkspaceOrder{User: r.UserID, Workspaces: r.Order}})
}

type taskRow struct {
	ID          id.Task         `json:"id"`
	Title       string          `json:"title"`
	Description *string         `json:"description"`
	Status      task.Status     `json:"status"`
	Priority    task.Priority   `json:"priority"`
	AssigneeID  *id.User        `json:"assigneeId"`
	WorkspaceID *id.Workspace   `json:"workspaceId"`
	DueDate     *string         `json:"dueDate"`
	Tags        []string        `json:"tags"`
	Metadata    json.RawMessage `json:"metadata"`
	SortOrder   int64           `json:"sortOrder"`
	CompletedAt *jsonTime       `json:"completedAt"`
	CreatedBy   id.User         `json:"createdBy"`
	CreatedAt   jsonTime        `json:"createdAt"`
	UpdatedAt   jsonTime        `json:"updatedAt"`
	Version     int64           `json:"version"`
}

func viewTask(r archive.Record) taskRow {
	t := r.Task
	v := taskRow{
		ID: t.ID, Title: t.Title, Description: t.Description, Status: t.Status(), Priority: t.Priority, AssigneeID: t.Assignee, WorkspaceID: t.Workspace,
		Tags: t.Tags, SortOrder: t.SortOrder, CompletedAt: timeOrNull(t.CompletedAt()), CreatedBy: t.CreatedBy, CreatedAt: jsonTime(t.CreatedAt),
		UpdatedAt: jsonTime(t.UpdatedAt), Version: t.Version,
	}
	if t.Tags == nil {
		v.Tags = []string{}
	}
	if t.Due != nil {
		v.DueDate = new(t.Due.String())
	}
	if t.Metadata != "" {
		v.Metadata = json.RawMessage(t.Metadata)
	}
	return v
}

func (r taskRow) record(o id.Org) (archive.Record, error) {
	var f fields
	checkID(&f, "id", r.ID)
	checkID(&f, "createdBy", r.CreatedBy)
	checkOptionalID(&f, "assigneeId", r.AssigneeID)
	checkOptionalID(&f, "workspaceId", r.WorkspaceID)
	t := task.Task{
		ID: r.ID, Org: o, Title: r.Title, Description: r.Description, Priority: r.Priority, Assignee: r.AssigneeID, Workspace: r.WorkspaceID,
		Tags: r.Tags, SortOrder: r.SortOrder, CreatedBy: r.CreatedBy, CreatedAt: time.Time(r.CreatedAt), UpdatedAt: time.Time(r.UpdatedAt), Version: r.Version,
	}
	if len(r.Tags) == 0 {
		t.Tags = nil
	}
	if r.DueDate != nil {
		due, ok := task.ParseDue(*r.DueDate)
		if !ok {
			f.Add("dueDate", "must be a date or an RFC 3339 time")
		}
		t.Due = &due
	}
	if m := string(r.Metadata); m != "" && m != "null" {
		if m[0] != '{' {
			f.Add("metadata", "must be an object")
		}
		t.Metadata = m
		f.Text("metadata", m, task.MaxMetadata)
	}
	t, err := t.Imported(r.Status, r.CompletedAt.time())
	f.AddError(err)
	return f.record(archive.Record{Task: &t})
}

type changeRow struct {
	ID        id.Entry   `json:"id"`
	TaskID    id.Task    `json:"taskId"`
	ChangedBy id.User    `json:"changedBy"`
	ChangedAt jsonTime   `json:"changedAt"`
	Reason    *string    `json:"reason"`
	Changes   []deltaRow `json:"changes"`
}

type deltaRow struct {
	Field string  `json:"field"`
	From  *string `json:"from"`
	To    *string `json:"to"`
}

// maxDeltas is the maximum number of fields of a change.
const maxDeltas = 50

func viewChange(r archive.Record) changeRow {
	c := r.TaskChange
	v := changeRow{c.ID, c.Task, c.By, jsonTime(c.At), textOrNull(c.Reason), make([]deltaRow, len(c.Fields))}
	for i, d := range c.Fields {
		v.Changes[i] = deltaRow(d)
	}
	return v
}

func (r changeRow) record(o id.Org) (archive.Record, error) {
	var f fields
	checkID(&f, "id", r.ID)
	checkID(&f, "taskId", r.TaskID)
	checkID(&f, "changedBy", r.ChangedBy)
	f.Text("reason", text(r.Reason), check.MaxReason)
	if len(r.Changes) > maxDeltas {
		f.Add("changes", "must be at most %d", maxDeltas)
	}
	c := task.Change{ID: r.ID, Org: o, Task: r.TaskID, By: r.ChangedBy, At: time.Time(r.ChangedAt), Reason: text(r.Reason)}
	for _, d := range r.Changes[:min(len(r.Changes), maxDeltas)] {
		f.Text("changes.field", d.Field, check.MaxTag)
		f.Text("changes.from", text(d.From), maxText)
		f.Text("changes.to", text(d.To), maxText)
		c.Fields = append(c.Fields, task.Delta(d))
	}
	return f.record(archive.Record{TaskChange: &archive.TaskChange{Change: c}})
}

type connectorRow struct {
	ID         id.Connector    `json:"id"`
	ServerID   string          `json:"serverId"`
	Label      string          `json:"label"`
	Name       *string         `json:"name"`
	Config     json.RawMessage `json:"config"`
	Hosting    string          `json:"hosting"`
	Transport  string          `json:"transport"`
	Status     string          `json:"status"`
	LastError  *string         `json:"lastError"`
	LastUsedAt *jsonTime       `json:"lastUsedAt"`
	CreatedBy  id.User         `json:"createdBy"`
	CreatedAt  jsonTime        `json:"createdAt"`
}

func viewConnector(r archive.Record) connectorRow {
	i := r.Connector
	return connectorRow{
		i.ID, i.Provider, i.Label, i.Name, json.RawMessage(i.Config), string(i.Hosting), string(i.Transport), string(i.Status()), textOrNull(i.LastError),
		timeOrNull(i.LastUsedAt), i.CreatedBy, jsonTime(i.CreatedAt),
	}
}

type usageRow struct {
	ID           id.Request `json:"id"`
	UserID       id.User    `json:"userId"`
	CreatedAt    jsonTime   `json:"createdAt"`
	Model        string     `json:"model"`
	Provider     string     `json:"provider"`
	InputTokens  int64      `json:"inputTokens"`
	OutputTokens int64      `json:"outputTokens"`
	Searches     int64      `json:"searches"`
	Provenance   string     `json:"provenance"`
	Outcome      string     `json:"outcome"`
}

func viewUsage(r archive.Record) usageRow {
	e := r.Usage
	return usageRow{
		e.ID, e.User, jsonTime(e.At), e.Model, e.Provider, e.Tokens.Input, e.Tokens.Output, e.Tokens.Searches, string(e.Provenance), string(e.Outcome),
	}
}

type entryRow struct {
	ID        id.Entry `json:"id"`
	Action    string   `json:"action"`
	ActorID   *string  `json:"actorId"`
	Operator  bool     `json:"operator"`
	Target    *string  `json:"target"`
	Detail    *string  `json:"detail"`
	Address   *string  `json:"address"`
	RequestID *string  `json:"requestId"`
	CreatedAt jsonTime `json:"createdAt"`
}

func viewEntry(r archive.Record) entryRow {
	e := r.AuditEntry
	return entryRow{
		e.ID, string(e.Action), textOrNull(e.Actor), e.Operator, textOrNull(e.Target), textOrNull(e.Detail), textOrNull(e.Address), textOrNull(e.Request),
		jsonTime(e.At),
	}
}

func (r entryRow) record(o id.Org) (archive.Record, error) {
	var f fields
	checkID(&f, "id", r.ID)
	checkOptionalID(&f, "actorId", r.ActorID)
	f.Name("action", r.Action)
	for _, t := range []struct {
		field string
		value *string
	}{{"detail", r.Detail}, {"address", r.Address}, {"requestId", r.RequestID}} {
		f.Text(t.field, text(t.value), maxText)
	}
	f.Text("target", text(r.Target), audit.MaxTarget)
	return f.record(archive.Record{AuditEntry: &audit.Entry{
		ID: r.ID, Org: o, At: time.Time(r.CreatedAt), Actor: id.User(text(r.ActorID)), Operator: r.Operator, Action: audit.Action(r.Action),
		Target: text(r.Target), Detail: text(r.Detail), Address: text(r.Address), Request: text(r.RequestID),
	}})
}

type objectRow struct {
	ID          id.Object     `json:"id"`
	Content     string        `json:"content"`
	Path        string        `json:"path"`
	MimeType    string        `json:"mimeType"`
	Size        int64         `json:"size"`
	Checksum    string        `json:"checksum"`
	Version     int64         `json:"version"`
	Kind        object.Kind   `json:"kind"`
	Scope       object.Scope  `json:"scope"`
	WorkspaceID *id.Workspace `json:"workspaceId"`
	TeamID      *id.Team      `json:"teamId"`
	OwnerID     *id.User      `json:"ownerId"`
	CreatedBy   id.User       `json:"createdBy"`
	UpdatedBy   id.User       `json:"updatedBy"`
	CreatedAt   jsonTime      `json:"createdAt"`
	UpdatedAt   jsonTime      `json:"updatedAt"`
	IsText      bool          `json:"isText"`
}

func viewObject(r archive.Record) objectRow {
	o := r.Object
	return objectRow{
		o.ID, contentsName + archive.ContentPath(*o), o.Path, o.MimeType, o.Size, o.Checksum, o.Version, o.Kind, o.Scope, o.Workspace, o.Team, o.Owner,
		o.CreatedBy, o.UpdatedBy, jsonTime(o.CreatedAt), jsonTime(o.UpdatedAt), o.Text,
	}
}

func (r objectRow) record(organisation id.Org) (archive.Record, error) {
	var f fields
	checkID(&f, "id", r.ID)
	checkID(&f, "createdBy", r.CreatedBy)
	checkID(&f, "updatedBy", r.UpdatedBy)
	checkOptionalID(&f, "workspaceId", r.WorkspaceID)
	checkOptionalID(&f, "teamId", r.TeamID)
	checkOptionalID(&f, "ownerId", r.OwnerID)
	o, err := object.Imported(object.Object{
		Place: object.Place{Kind: r.Kind, Scope: r.Scope, Workspace: r.WorkspaceID, Team: r.TeamID, Owner: r.OwnerID},
		ID:    r.ID, Org: organisation, Path: r.Path, MimeType: r.MimeType, Version: r.Version, CreatedBy: r.CreatedBy, UpdatedBy: r.UpdatedBy,
		CreatedAt: time.Time(r.CreatedAt), UpdatedAt: time.Time(r.UpdatedAt),
		Content: object.Content{Size: r.Size, Checksum: r.Checksum, Text: r.IsText},
	})
	f.AddError(err)
	if err == nil && r.Content != contentsName+archive.ContentPath(o) {
		f.Add("content", "must be %s", contentsName+archive.ContentPath(o))
	}
	return f.record(archive.Record{Object: &o})
}
