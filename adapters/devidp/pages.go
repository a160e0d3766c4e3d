package devidp

import (
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"net/http"
	"net/url"
	"strings"
	"time"

	"collab/adapters/devkit"
	"collab/domain/fault"
)

//go:embed pages.html avatar.svg
var files embed.FS

//go:embed style.css
var pageStyle string

const (
	avatarPath = "/avatar/"
	maxListed  = 50 // accounts and organisations on the page, of each
)

// signInView is the sign-in page.
type signInView struct {
	Action string
	CSRF   string
	Client string // redirected to after the sign-in; empty: the page shows a token

	People []personView
	Orgs   []organisation
	Roles  []string

	Account, Name, Email string
	Org, OrgName, Role   string
	Problem              string // of no field; empty: none
	Wrong                fieldProblems

	request *request
}

type personView struct {
	account
	Memberships []joinedOrg
}

func (p *Provider) showSignIn(w http.ResponseWriter, r *http.Request, status int, v signInView) {
	v.Action, v.CSRF, v.Roles = Prefix+"/sign-in", p.csrf(w, r), roles
	if v.request != nil {
		v.Action = Prefix + "/authorize?" + r.URL.RawQuery
		v.Client = devkit.Origin(v.request.redirect)
		// The service redirects to the local server of the command line.
		devkit.AllowForms(w, v.Client, "http://localhost:*", "http://127.0.0.1:*")
	}
	p.accounts.Read(func(b *state) {
		for _, a := range b.recentAccounts(maxListed) {
			v.People = append(v.People, personView{a, b.joined(a.ID)})
			if v.Account == "" && strings.EqualFold(a.Email, v.Email) {
				v.Account = a.ID
			}
		}
		v.Orgs = b.recentOrganisations(maxListed)
		if v.Account == "" && v.Email == "" && len(v.People) > 0 {
			v.Account = v.People[0].ID
		}
		if last, ok := b.Organisations[b.Accounts[v.Account].LastOrg]; ok && v.Org == "" {
			v.Org = last.ID
		}
	})
	if len(v.People) == 0 && status == http.StatusOK {
		// The first page has default values in all fields.
		v.Name, v.OrgName = "Ada Lovelace", "Example"
		if v.Email == "" {
			v.Email = "ada@example.com"
		}
	}
	if v.Account == "" {
		v.Account = choiceNew
	}
	if v.Org == "" {
		v.Org = choiceNew
		if len(v.Orgs) > 0 {
			v.Org = v.Orgs[0].ID
		}
	}
	p.site.Show(w, status, "sign-in", v)
}

// Choices of the page that are not records.
const (
	choiceNew  = "new"
	choiceNone = "none"
)

// viewOf returns the page with the fields of a form and what is wrong with them, according to an error of fault.Invalid.
func viewOf(fields url.Values, err error, req *request) signInView {
	v := signInView{
		Account: fields.Get("account"), Name: fields.Get("name"), Email: fields.Get("email"),
		Org: fields.Get("org"), OrgName: fields.Get("orgName"), Role: fields.Get("role"),
		request: req, Wrong: fieldProblems{},
	}
	e, _ := errors.AsType[*fault.Error](err)
	for _, problem := range e.Problems {
		if problem.Field == "org" && v.Org == choiceNew {
			problem.Field = "orgName"
		}
		problem.Message = fieldNames[problem.Field] + " " + problem.Message
		switch problem.Field {
		case "email", "name", "orgName":
			v.Wrong[problem.Field] = problem
		default:
			v.Problem = problem.Message
		}
	}
	return v
}

// fieldProblems has the problems of a form's text fields by their names.
type fieldProblems map[string]fault.Problem

// fieldNames are the fields' names on the page.
var fieldNames = map[string]string{
	"account": "The account", "email": "The e-mail address", "name": "The name",
	"org": "The organisation", "orgName": "The organisation’s name", "role": "The role",
}

// signInSelected signs in the account that the form selects.
func (p *Provider) signInSelected(r *http.Request, fields url.Values) (session, error) {
	s := session{}
	err := p.update(r, func(b *state, now time.Time) (events []event, err error) {
		w := signInRequest{Email: fields.Get("email"), Name: fields.Get("name"), Role: fields.Get("role")}
		if choice := fields.Get("account"); choice != choiceNew {
			a, ok := b.Accounts[choice]
			if !ok {
				return nil, fault.Field("account", "must be one of the list")
			}
			w.Email, w.Name = a.Email, ""
		}
		switch choice := fields.Get("org"); choice {
		case choiceNone:
			w.Role = ""
		case choiceNew:
			if w.Org = fields.Get("orgName"); strings.TrimSpace(w.Org) == "" {
				return nil, fault.Field("orgName", "must not be empty")
			}
		default:
			if _, ok := b.Organisations[choice]; !ok {
				return nil, fault.Field("org", "must be one of the list")
			}
			w.Org = choice
		}
		s, events, err = b.signIn(w, now)
		return events, err
	})
	if err != nil {
		return s, err
	}
	return s, p.saveChoice(s)
}

// saveChoice makes the session the preselected one of the next page.
func (p *Provider) saveChoice(s session) error {
	return p.accounts.Update(func(b *state) (bool, error) {
		a := b.Accounts[s.Account.ID]
		a.SignedInAt, a.LastOrg = p.options.Clock.Now(), s.Org.ID
		b.Accounts[a.ID] = a
		return true, nil
	})
}

// inviteView is the page on which an invitation is accepted.
type inviteView struct {
	Action  string
	CSRF    string
	Email   string
	Org     string
	Role    string
	Account *account // nil: none has this address yet
	Name    string
	Problem string // of no field; empty: none
	Wrong   fieldProblems
}

func (p *Provider) signInPage(w http.ResponseWriter, r *http.Request) error {
	if !r.URL.Query().Has("invite") {
		p.showSignIn(w, r, http.StatusOK, signInView{Email: r.URL.Query().Get("login_hint")})
		return nil
	}
	invite, err := p.invitation(r)
	if err != nil {
		return err
	}
	p.showInvite(w, r, http.StatusOK, invite, signInView{})
	return nil
}

func (p *Provider) showInvite(w http.ResponseWriter, r *http.Request, status int, invite Invite, form signInView) {
	v := inviteView{
		Action: Prefix + "/sign-in?" + r.URL.RawQuery, CSRF: p.csrf(w, r),
		Email: invite.Email, Org: invite.OrgName, Role: roleName(invite.Role),
		Name: form.Name, Problem: form.Problem, Wrong: form.Wrong,
	}
	if v.Name == "" {
		v.Name = nameOf(invite.Email)
	}
	p.accounts.Read(func(b *state) {
		if a, ok := b.accountOf(invite.Email); ok {
			v.Account = &a
		}
	})
	p.site.Show(w, status, "invite", v)
}

// invitation returns the invitation whose token is in the query.
func (p *Provider) invitation(r *http.Request) (Invite, error) {
	token := r.URL.Query().Get("invite")
	if p.options.Invitation == nil || token == "" {
		return Invite{}, fault.New(fault.NotFound, "This invitation is not valid any more")
	}
	invite, err := p.options.Invitation(r.Context(), token)
	if fault.Is(err, fault.NotFound) {
		return Invite{}, fault.Wrap(fault.NotFound, err, "This invitation is not valid any more")
	}
	return invite, err
}

func (p *Provider) signIn(w http.ResponseWriter, r *http.Request) error {
	fields, err := p.postedForm(r)
	if err != nil {
		return err
	}
	if r.URL.Query().Has("invite") {
		return p.acceptInvite(w, r, fields)
	}
	s, err := p.signInSelected(r, fields)
	if fault.Is(err, fault.Invalid) {
		p.showSignIn(w, r, http.StatusBadRequest, viewOf(fields, err, nil))
		return nil
	}
	if err != nil {
		return err
	}
	return p.showSession(w, s, "You are signed in")
}

func (p *Provider) acceptInvite(w http.ResponseWriter, r *http.Request, fields url.Values) error {
	invite, err := p.invitation(r)
	if err != nil {
		return err
	}
	s := session{}
	err = p.update(r, func(b *state, now time.Time) (events []event, err error) {
		s, events, err = b.accept(invite, r.URL.Query().Get("invite"), fields.Get("name"), now)
		return events, err
	})
	if fault.Is(err, fault.Invalid) {
		p.showInvite(w, r, http.StatusBadRequest, invite, viewOf(fields, err, nil))
		return nil
	}
	if err != nil {
		return err
	}
	if err := p.saveChoice(s); err != nil {
		return err
	}
	return p.showSession(w, s, "Welcome to "+s.Org.Name)
}

// sessionView is the page after a sign-in without a client.
type sessionView struct {
	Title       string
	Account     account
	Org         organisation
	Role        string
	Memberships []joinedOrg
	Token       string
	Command     string
	App         string // empty: none
}

func (p *Provider) showSession(w http.ResponseWriter, s session, title string) error {
	token, err := p.issue(s, "", "")
	if err != nil {
		return err
	}
	body, err := json.Marshal(map[string]string{"identityToken": token})
	if err != nil {
		return err
	}
	v := sessionView{
		Title: title, Account: s.Account, Org: s.Org, Role: s.Role, Token: token, App: p.options.AppURL,
		Command: fmt.Sprintf("curl -s %s%s -H 'Content-Type: application/json' -d '%s'", p.public, p.options.ExchangePath, body),
	}
	p.accounts.Read(func(b *state) { v.Memberships = b.joined(s.Account.ID) })
	p.site.Show(w, http.StatusOK, "session", v)
	return nil
}

// picture returns the address of the picture of an account or organisation.
func (p *Provider) picture(id string) string { return p.Issuer() + avatarPath + id + ".svg" }

// avatar draws the initials of an account or an organisation.
func (p *Provider) avatar(w http.ResponseWriter, r *http.Request) error {
	id, svg := strings.CutSuffix(r.PathValue("file"), ".svg")
	name := ""
	p.accounts.Read(func(b *state) { name = b.Accounts[id].Name + b.Organisations[id].Name })
	if !svg || name == "" {
		return fault.Missing("Picture")
	}
	hash := fnv.New32a()
	hash.Write([]byte(id))
	picture, err := p.site.Render("avatar.svg", struct {
		Hue      uint32
		Round    bool
		Initials string
	}{hash.Sum32() % 360, strings.HasPrefix(id, "user_"), initials(name)})
	if err != nil {
		return err
	}
	h := w.Header()
	h.Set("Cache-Control", "max-age=300")
	h.Set("Cross-Origin-Resource-Policy", "cross-origin") // for applications on other origins
	p.site.Send(w, http.StatusOK, "image/svg+xml", picture)
	return nil
}

// initials returns the first letters of the first and the last word.
func initials(name string) string {
	words := strings.Fields(name)
	letters := []rune(words[0])[:1]
	if len(words) > 1 {
		letters = append(letters, []rune(words[len(words)-1])[0])
	}
	return strings.ToUpper(string(letters))
}
