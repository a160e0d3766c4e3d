// Package demo fills an organisation with a month of work through the HTTP interface of a server,
// whose clock it sets: members, tasks with histories, files with versions, chats and a release
// during its rollout.
package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"

	"collab/adapters/apiclient"
	"collab/adapters/httpapi"
	"collab/adapters/outbound"
)

const (
	days           = 30 // of the month, today included
	connectTimeout = 10 * time.Second
)

// Options configure Fill.
type Options struct {
	URL string // of a server with the development providers and no rate limits, which trusts X-Forwarded-For

	Now      time.Time           // the end of the month
	SetClock func(time.Time)     // moves the server's clock
	Random   func(n int) int     // a number in [0, n)
	Progress func(day, last int) // is called when a day is complete
}

// Fill creates the organisation. It sets the server's clock before each request, and at last to
// Now. The same Random and Now create the same content except ids.
func Fill(ctx context.Context, o Options) error {
	client := outbound.NewConfigured(connectTimeout)
	defer client.CloseIdleConnections()
	f := plan(o)
	f.http = client.Transport
	var err error
	if f.anonymous, err = f.connect(""); err != nil {
		return err
	}
	return f.run(ctx)
}

// plan returns a loader with the events of the month, sorted by time.
func plan(o Options) *loader {
	today := o.Now.UTC().Truncate(24 * time.Hour)
	f := &loader{Options: o, firstDay: today.AddDate(0, 0, 1-days), today: today, members: make([]memberClient, len(people))}
	f.createOrganisation()
	for i := range people[1:] {
		f.join(i + 1)
	}
	f.planTasks()
	f.planFiles()
	f.planMemories()
	f.planChats()
	f.planReleases()
	f.schedule(days-1, 17*time.Hour, "inviting", func(ctx context.Context) error {
		_, err := f.members[priya].Invite(ctx, apiclient.Invite{Email: pendingInvitee, Role: member})
		return err
	})
	slices.SortStableFunc(f.events, func(a, b event) int { return a.at.Compare(b.at) })
	return f
}

// PrintPeople prints the members, as whom anyone can sign in.
func PrintPeople(out io.Writer) {
	fmt.Fprintf(out, "Open the console and sign in to %s as one of these; nobody has a password:\n", Organisation)
	for _, p := range people {
		fmt.Fprintf(out, "  %-24s %-15s %s\n", p.email, p.name, p.role)
	}
}

// memberClient is the client of a member.
type memberClient struct {
	*apiclient.Client
	id string
}

// loader fills an organisation.
type loader struct {
	Options
	http         http.RoundTripper
	firstDay     time.Time // the first day's midnight in UTC
	today        time.Time // the last day's
	events       []event
	anonymous    *apiclient.Client
	members      []memberClient // as people
	teamIDs      []string       // ids, as teams
	workspaceIDs []string       // ids, as workspaces
}

// event is an action of a member at a time.
type event struct {
	at          time.Time
	day         int
	description string // for errors
	run         func(context.Context) error
}

// schedule adds an event at a time of a day. Times of today are scaled so that none is after Now.
func (f *loader) schedule(day int, after time.Duration, description string, run func(context.Context) error) {
	if day >= days {
		return // it has not happened yet
	}
	if day == days-1 {
		after = time.Duration(float64(after) / float64(24*time.Hour) * float64(f.Now.Sub(f.today)))
	}
	f.events = append(f.events, event{f.firstDay.AddDate(0, 0, day).Add(after), day, description, run})
}

// run runs the events.
func (f *loader) run(ctx context.Context) error {
	for i, a := range f.events {
		if i > 0 && a.day > f.events[i-1].day {
			f.Progress(f.events[i-1].day+1, days)
		}
		f.SetClock(a.at)
		if err := a.run(ctx); err != nil {
			return fmt.Errorf("%s on day %d: %w", a.description, a.day+1, err)
		}
	}
	f.SetClock(f.Now)
	f.Progress(days, days)
	return nil
}

// workingTime returns a random time of a working day.
func (f *loader) workingTime() time.Duration {
	return 8*time.Hour + time.Duration(f.Random(9*60*60))*time.Second
}

// weekend reports whether a day is a Saturday or a Sunday.
func (f *loader) weekend(day int) bool {
	d := f.firstDay.AddDate(0, 0, day).Weekday()
	return d == time.Saturday || d == time.Sunday
}

// workday returns the day, or the next one that is no weekend.
func (f *loader) workday(day int) int {
	for f.weekend(day) {
		day++
	}
	return day
}

// pick returns an element at random.
func pick[T any](f *loader, elements []T) T { return elements[f.Random(len(elements))] }

// createOrganisation plans the organisation, its teams and workspaces, and the purchase of a plan.
func (f *loader) createOrganisation() {
	f.schedule(0, 9*time.Hour, "founding", func(ctx context.Context) error {
		if err := f.signIn(ctx, ada); err != nil {
			return err
		}
		_, err := f.members[ada].StartTrial(ctx)
		return err
	})
	for i, t := range teams {
		f.schedule(0, 10*time.Hour+time.Duration(i)*time.Second, "making a team", func(ctx context.Context) error {
			created, err := f.members[ada].CreateTeam(ctx, apiclient.TeamDraft{Name: t.name, Description: &t.description})
			f.teamIDs = append(f.teamIDs, created.ID)
			return err
		})
	}
	for i, w := range workspaces {
		f.schedule(0, 10*time.Hour+time.Minute+time.Duration(i)*time.Second, "making a workspace", func(ctx context.Context) error {
			draft := apiclient.WorkspaceDraft{Name: w.name, TeamID: f.teamIDs[w.team], Description: &w.description}
			created, err := f.members[ada].CreateWorkspace(ctx, draft)
			f.workspaceIDs = append(f.workspaceIDs, created.ID)
			return err
		})
	}
	f.schedule(1, 9*time.Hour, "paying", func(ctx context.Context) error {
		page, err := f.members[ada].StartCheckout(ctx, apiclient.CheckoutDraft{Plan: "PREMIUM"})
		if err != nil {
			return err
		}
		_, _, err = f.submit(ctx, page.URL, url.Values{"action": {"pay"}})
		return err
	})
	f.schedule(4, 11*time.Hour, "connecting a tool server", func(ctx context.Context) error {
		name := "Clock"
		_, err := f.members[priya].CreateConnector(ctx, apiclient.ConnectorDraft{ProviderID: "time", Name: &name})
		return err
	})
}

// join plans the invitation of a person, who accepts an hour later and is added to their teams.
func (f *loader) join(i int) {
	p := people[i]
	address := ""
	f.schedule(p.day, 10*time.Hour+time.Duration(i)*time.Minute, "inviting", func(ctx context.Context) error {
		created, err := f.members[ada].Invite(ctx, apiclient.Invite{Email: p.email, Role: p.role})
		address = created.InviteURL
		return err
	})
	f.schedule(p.day, 11*time.Hour+time.Duration(i)*time.Minute, "accepting an invitation", func(ctx context.Context) error {
		if err := f.accept(ctx, address, p.name); err != nil {
			return err
		}
		if err := f.signIn(ctx, i); err != nil {
			return err
		}
		for _, t := range p.teams {
			if _, err := f.members[ada].AddTeamMember(ctx, f.teamIDs[t], apiclient.TeamMemberDraft{UserID: f.members[i].id}); err != nil {
				return err
			}
		}
		return nil
	})
}

// accept opens the page of an invitation and sends its form.
func (f *loader) accept(ctx context.Context, address, name string) error {
	page, cookies, err := f.submit(ctx, address, nil)
	if err != nil {
		return err
	}
	_, after, _ := strings.Cut(page, `name="csrf" value="`)
	token, _, ok := strings.Cut(after, `"`)
	if !ok {
		return errors.New("the page of the invitation has no form")
	}
	_, _, err = f.submit(ctx, address, url.Values{"csrf": {token}, "name": {name}, "action": {"accept"}}, cookies...)
	return err
}

// signIn signs a person in to the organisation with the development provider and completes their
// onboarding. The first sign-in creates the organisation.
func (f *loader) signIn(ctx context.Context, i int) error {
	fields := url.Values{"email": {people[i].email}, "name": {people[i].name}, "org": {Organisation}}
	response, _, err := f.submit(ctx, f.URL+"/dev/identity/token", fields)
	if err != nil {
		return err
	}
	var identity struct{ IdentityToken string }
	if err := json.Unmarshal([]byte(response), &identity); err != nil {
		return err
	}
	session, err := f.anonymous.ExchangeToken(ctx, apiclient.Exchange{IdentityToken: identity.IdentityToken})
	if err != nil {
		return err
	}
	c, err := f.connect(session.Token)
	if err != nil {
		return err
	}
	f.members[i] = memberClient{c, session.User.ID}
	return f.send(ctx, c, httpapi.OnboardedPath, nil, nil)
}

// connect returns a client with a service token, or without one.
func (f *loader) connect(token string) (*apiclient.Client, error) {
	return apiclient.New(apiclient.Config{Server: f.URL, Token: token, UserAgent: "collabd demo", Transport: f.http})
}

// send makes a request that apiclient has no method for.
func (f *loader) send(ctx context.Context, c *apiclient.Client, path string, header http.Header, body any) error {
	response, err := c.Do(ctx, http.MethodPost, path, header, body)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, response.Body)
	return errors.Join(err, response.Body.Close())
}

// maxPage is the maximum size of a page in bytes.
const maxPage = 1 << 20

// submit sends a form to a page of the development providers, or opens the page if fields is nil.
// It does not follow redirects.
func (f *loader) submit(
	ctx context.Context, address string, fields url.Values, cookies ...*http.Cookie,
) (page string, set []*http.Cookie, err error) {
	method := http.MethodGet
	if fields != nil {
		method = http.MethodPost
	}
	r, err := http.NewRequestWithContext(ctx, method, address, strings.NewReader(fields.Encode()))
	if err != nil {
		return "", nil, err
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	for _, c := range cookies {
		r.AddCookie(c)
	}
	response, err := f.http.RoundTrip(r)
	if err != nil {
		return "", nil, err
	}
	text, err := io.ReadAll(io.LimitReader(response.Body, maxPage))
	if err := errors.Join(err, response.Body.Close()); err != nil {
		return "", nil, err
	}
	if response.StatusCode >= http.StatusBadRequest {
		return "", nil, fmt.Errorf("%s answered %s", r.URL.Path, response.Status)
	}
	return string(text), response.Cookies(), nil
}

// planFiles plans the files, each of whose versions has more of the content than the one before.
func (f *loader) planFiles() {
	for _, d := range documents {
		content, err := fs.ReadFile(texts, path.Join("files", d.source))
		if err != nil {
			panic(err) // the list names a file that is not there
		}
		lines := bytes.SplitAfter(content, []byte("\n"))
		id := ""
		day := f.workday(d.day)
		for v := range d.versions {
			part := content
			if d.versions > 1 {
				part = bytes.Join(lines[:len(lines)*(v+1)/d.versions], nil)
			}
			f.schedule(day, f.workingTime(), "writing "+d.path, func(ctx context.Context) error {
				body := apiclient.Content{Reader: bytes.NewReader(part), Size: int64(len(part))}
				if id != "" {
					_, err := f.members[d.author].ReplaceFile(ctx, id, apiclient.ReplaceFileParams{}, body)
					return err
				}
				p := apiclient.UploadFileParams{Path: d.path, Kind: d.kind, Scope: d.scope}
				if d.workspace != noWorkspace {
					p.WorkspaceID = f.workspaceIDs[d.workspace]
				}
				created, err := f.members[d.author].UploadFile(ctx, p, body)
				id = created.ID
				return err
			})
			day = f.workday(day + 2 + f.Random(9))
		}
	}
	id := ""
	f.schedule(f.workday(5), f.workingTime(), "writing a draft", func(ctx context.Context) error {
		text := "Plan of the spring campaign, first draft\n"
		content := apiclient.Content{Reader: strings.NewReader(text), Size: int64(len(text))}
		created, err := f.members[priya].UploadFile(ctx, apiclient.UploadFileParams{Path: "draft.txt"}, content)
		id = created.ID
		return err
	})
	f.schedule(f.workday(12), f.workingTime(), "moving a draft", func(ctx context.Context) error {
		_, err := f.members[priya].MoveFile(ctx, id, apiclient.MoveFileParams{}, apiclient.FileMove{Path: "campaign/spring.txt"})
		return err
	})
	f.schedule(f.workday(20), f.workingTime(), "deleting a draft", func(ctx context.Context) error {
		_, err := f.members[priya].DeleteFile(ctx, id, apiclient.DeleteFileParams{})
		return err
	})
}

// planMemories plans the memories of the organisation, a workspace and a person.
func (f *loader) planMemories() {
	for i, text := range orgMemory {
		f.schedule(f.workday(2+13*i), f.workingTime(), "writing a memory", func(ctx context.Context) error {
			_, err := f.members[ada].PutMemory(ctx, "org", apiclient.PutMemoryParams{}, apiclient.MemoryDraft{Content: text})
			return err
		})
	}
	for i, text := range stationMemory {
		f.schedule(f.workday(4+12*i), f.workingTime(), "writing a memory", func(ctx context.Context) error {
			_, err := f.members[sofia].PutWorkspaceMemory(ctx, f.workspaceIDs[station], "decisions.md",
				apiclient.PutWorkspaceMemoryParams{}, apiclient.MemoryDraft{Content: text})
			return err
		})
	}
	f.schedule(f.workday(3), f.workingTime(), "writing a memory", func(ctx context.Context) error {
		_, err := f.members[ada].PutMemory(ctx, "user", apiclient.PutMemoryParams{}, apiclient.MemoryDraft{Content: adaMemory})
		return err
	})
}

// planChats plans a few chats a day of all members but viewers, fewer on weekends. Their histories
// have contents of files.
func (f *loader) planChats() {
	for day := 1; day < days; day++ {
		for i, p := range people {
			maxChats := 4
			if f.weekend(day) {
				maxChats = 1
			}
			for range f.Random(maxChats + 1) {
				if p.role == viewer || day <= p.day {
					continue
				}
				request := apiclient.ChatRequest{Message: pick(f, prompts), SystemPrompt: new(string), MaxTokens: new(int64)}
				*request.SystemPrompt, *request.MaxTokens = system, int64(60+f.Random(200))
				for range 2 + f.Random(14) {
					text, err := fs.ReadFile(texts, path.Join("files", pick(f, documents[7:]).source)) // no picture
					if err != nil {
						panic(err) // likewise
					}
					request.History = append(request.History,
						apiclient.HistoryMessage{Role: "user", Content: "Read this:\n\n" + string(text)},
						apiclient.HistoryMessage{Role: "assistant", Content: "I have read it. What do you want to know?"})
				}
				f.schedule(day, f.workingTime(), "chatting", func(ctx context.Context) error {
					response, err := f.members[i].Chat(ctx, request)
					if err != nil {
						return err
					}
					_, err = io.Copy(io.Discard, response.Body)
					return errors.Join(err, response.Body.Close())
				})
			}
		}
	}
}
