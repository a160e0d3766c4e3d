package devidp

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"maps"
	"math/big"
	"slices"
	"strings"
	"time"
	"unicode"

	"golang.org/x/text/unicode/norm"

	"collab/adapters/atomicfile"
	"collab/domain/check"
	"collab/domain/fault"
	"collab/domain/identity"
)

// The roles, from the most to the least powerful.
const (
	owner  = "owner"
	admin  = "admin"
	member = "member"
	viewer = "viewer"
)

var roles = []string{owner, admin, member, viewer}

// account is a person. Its id is derived from the e-mail address, so it is the same after
// the file was lost.
type account struct {
	ID        string    `json:"id"`
	Email     string    `json:"email"`
	Name      string    `json:"name"`
	CreatedAt time.Time `json:"createdAt"`
	UpdatedAt time.Time `json:"updatedAt"`

	// The preselected values of the sign-in page.
	SignedInAt time.Time `json:"signedInAt,omitzero"`
	LastOrg    string    `json:"lastOrg,omitempty"`
}

type organisation struct {
	ID        string    `json:"id"`
	Name      string    `json:"name"`
	Slug      string    `json:"slug"`
	CreatedBy string    `json:"createdBy,omitempty"` // account id; empty: unknown
	CreatedAt time.Time `json:"createdAt"`
	UpdatedAt time.Time `json:"updatedAt"`
}

type membership struct {
	ID        string    `json:"id"`
	Account   string    `json:"account"`
	Org       string    `json:"org"`
	Role      string    `json:"role"`
	CreatedAt time.Time `json:"createdAt"`
	UpdatedAt time.Time `json:"updatedAt"`
}

// message is an event in the outbox.
type message struct {
	ID       string          `json:"id"`
	Body     json.RawMessage `json:"body"`
	Attempts int             `json:"attempts"`
}

// maxAttempts limits the delivery attempts of an event.
const maxAttempts = 8

// state has the provider's records by id, and its outbox.
type state struct {
	Accounts      map[string]account      `json:"accounts"`
	Organisations map[string]organisation `json:"organisations"`
	Memberships   map[string]membership   `json:"memberships"`
	Outbox        []message               `json:"outbox"`
}

// signInRequest is an account, organisation and role to sign in with.
type signInRequest struct {
	Email string
	Name  string // empty: the current one, or one derived from the address
	Org   string // name, slug or id; empty: no organisation
	Role  string // empty: the current one, else owner of a new organisation, else member
}

// checked returns the request with normalised fields.
func (r signInRequest) checked() (signInRequest, error) {
	var problems check.List
	r.Email = problems.Email("email", r.Email)
	r.Name = strings.Join(strings.Fields(r.Name), " ")
	if r.Name != "" {
		r.Name = problems.Name("name", r.Name)
	}
	r.Org = strings.Join(strings.Fields(r.Org), " ")
	if r.Org != "" {
		r.Org = problems.Name("org", r.Org)
	}
	r.Role = roleName(r.Role)
	switch {
	case r.Role != "" && !slices.Contains(roles, r.Role):
		problems.Add("role", "must be one of %s", strings.Join(roles, ", "))
	case r.Role != "" && r.Org == "":
		problems.Add("org", "must name the organisation in which the role is meant")
	}
	return r, problems.Err()
}

// roleName returns the name of a role in any of its spellings.
func roleName(s string) string {
	return strings.TrimPrefix(strings.ToLower(strings.TrimSpace(s)), "org:")
}

// session is a signed-in account; Org is zero without an organisation.
type session struct {
	Account account
	Org     organisation
	Role    string
}

// signIn creates the missing records of a request and returns the session and its events in
// order.
func (b *state) signIn(r signInRequest, now time.Time) (session, []event, error) {
	r, err := r.checked()
	if err != nil {
		return session{}, nil, err
	}
	var events []event
	s := session{}
	s.Account, events = b.account(r.Email, r.Name, now)
	if r.Org == "" {
		return s, events, nil
	}
	found, ok := b.findOrganisation(r.Org)
	switch {
	case ok:
		s.Org = found
		r.Role = cmp.Or(r.Role, b.Memberships[membershipID(found.ID, s.Account.ID)].Role, member)
	case isOrgID(r.Org):
		return session{}, nil, fault.Field("org", "is not an organisation that exists here")
	default:
		r.Role = cmp.Or(r.Role, owner)
		slug := slugOf(r.Org)
		s.Org = organisation{ID: derive("org_", slug), Name: r.Org, Slug: slug, CreatedAt: now, UpdatedAt: now}
		if r.Role == owner {
			// Services make the creator an owner whatever role was requested.
			s.Org.CreatedBy = s.Account.ID
		}
		b.Organisations[s.Org.ID] = s.Org
		events = append(events, event{kind: "organization.created", org: s.Org})
	}
	s.Role = r.Role
	return s, append(events, b.join(s, false, now)...), nil
}

// accept makes the invited person a member and returns the session and its events.
func (b *state) accept(i Invite, token, name string, now time.Time) (session, []event, error) {
	w, err := signInRequest{Email: i.Email, Name: name, Org: cmp.Or(i.OrgName, i.OrgID), Role: i.Role}.checked()
	if err != nil {
		return session{}, nil, err
	}
	var events []event
	s := session{Role: cmp.Or(w.Role, member)}
	s.Account, events = b.account(w.Email, w.Name, now)
	found, ok := b.Organisations[i.OrgID]
	if !ok {
		// The organisation of the service is older than this provider's file.
		found = organisation{ID: i.OrgID, Name: w.Org, Slug: cmp.Or(i.OrgSlug, slugOf(w.Org)), CreatedAt: now, UpdatedAt: now}
		b.Organisations[found.ID] = found
	}
	s.Org = found
	events = append(events, b.join(s, true, now)...)
	return s, append(events, event{kind: "organizationInvitation.accepted", account: s.Account, org: s.Org, invite: i, token: token}), nil
}

// accountOf finds the account with this address.
func (b *state) accountOf(email string) (account, bool) {
	a, ok := b.Accounts[accountID(email)]
	return a, ok
}

// account returns the account with this address, created or renamed as needed.
func (b *state) account(email, name string, now time.Time) (account, []event) {
	key := accountID(email)
	a, ok := b.Accounts[key]
	switch {
	case !ok:
		a = account{ID: key, Email: email, Name: cmp.Or(name, nameOf(email)), CreatedAt: now, UpdatedAt: now}
	case name != "" && name != a.Name:
		a.Name, a.UpdatedAt = name, now
	default:
		return a, nil
	}
	b.Accounts[key] = a
	if !ok {
		return a, []event{{kind: "user.created", account: a}}
	}
	return a, []event{{kind: "user.updated", account: a}}
}

// join makes s.Account a member with s.Role. With always, there is an event also if nothing
// has changed: the service may have removed the member without the provider's knowledge.
func (b *state) join(s session, always bool, now time.Time) []event {
	key := membershipID(s.Org.ID, s.Account.ID)
	m, ok := b.Memberships[key]
	kind := "organizationMembership.updated"
	switch {
	case !ok:
		kind = "organizationMembership.created"
		m = membership{ID: key, Account: s.Account.ID, Org: s.Org.ID, Role: s.Role, CreatedAt: now, UpdatedAt: now}
	case m.Role != s.Role || always:
		m.Role, m.UpdatedAt = s.Role, now
	default:
		return nil
	}
	b.Memberships[key] = m
	return []event{{kind: kind, account: s.Account, org: s.Org, membership: m}}
}

// findOrganisation finds an organisation by id, slug or name.
func (b *state) findOrganisation(s string) (organisation, bool) {
	if o, ok := b.Organisations[s]; ok {
		return o, true
	}
	slug := slugOf(s)
	if o, ok := b.Organisations[derive("org_", slug)]; ok {
		return o, true
	}
	// The id of an organisation from an invitation is not derived from its slug.
	for _, o := range b.Organisations {
		if o.Slug == s || o.Slug == slug {
			return o, true
		}
	}
	return organisation{}, false
}

// recentAccounts returns at most limit accounts, the last used first.
func (b *state) recentAccounts(limit int) []account {
	list := slices.Collect(maps.Values(b.Accounts))
	slices.SortFunc(list, func(x, y account) int {
		return cmp.Or(y.SignedInAt.Compare(x.SignedInAt), y.CreatedAt.Compare(x.CreatedAt), cmp.Compare(x.Email, y.Email))
	})
	return list[:min(limit, len(list))]
}

// recentOrganisations returns at most limit organisations, the newest first.
func (b *state) recentOrganisations(limit int) []organisation {
	list := slices.Collect(maps.Values(b.Organisations))
	slices.SortFunc(list, func(x, y organisation) int {
		return cmp.Or(y.CreatedAt.Compare(x.CreatedAt), cmp.Compare(x.Name, y.Name))
	})
	return list[:min(limit, len(list))]
}

// joinedOrg is an organisation with the account's role in it.
type joinedOrg struct {
	Org  organisation
	Role string
}

// joined returns the organisations of the account in the order of joining.
func (b *state) joined(account string) []joinedOrg {
	var joined []membership
	for _, m := range b.Memberships {
		if m.Account == account {
			joined = append(joined, m)
		}
	}
	slices.SortFunc(joined, func(x, y membership) int { return cmp.Or(x.CreatedAt.Compare(y.CreatedAt), cmp.Compare(x.ID, y.ID)) })
	list := make([]joinedOrg, len(joined))
	for i, m := range joined {
		list[i] = joinedOrg{b.Organisations[m.Org], m.Role}
	}
	return list
}

const idLength = 27

// derive returns an id in the provider's form that is a function of the parts.
func derive(prefix string, parts ...string) string {
	sum := sha256.Sum256([]byte(prefix + "\x00" + strings.Join(parts, "\x00")))
	digits := new(big.Int).SetBytes(sum[:20]).Text(62)
	return prefix + strings.Repeat("0", idLength-len(digits)) + digits
}

func accountID(email string) string { return derive("user_", identity.FoldEmail(email)) }

func membershipID(org, account string) string { return derive("orgmem_", org, account) }

// isOrgID reports whether s has the form of an organisation's id.
func isOrgID(s string) bool {
	digits, ok := strings.CutPrefix(s, "org_")
	return ok && len(digits) == idLength && !strings.ContainsFunc(digits, func(r rune) bool {
		return r > unicode.MaxASCII || !unicode.IsLetter(r) && !unicode.IsDigit(r)
	})
}

// slugOf returns a name in lower-case letters, digits and dashes. A part of the name's hash
// replaces other letters, so different names have different slugs.
func slugOf(name string) string {
	var slug strings.Builder
	dash, lost := false, false
	for _, r := range norm.NFKD.String(strings.ToLower(name)) {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9':
			if dash && slug.Len() > 0 {
				slug.WriteByte('-')
			}
			slug.WriteRune(r)
			dash = false
		case unicode.Is(unicode.Mn, r):
		default:
			dash = true
			lost = lost || unicode.IsLetter(r) || unicode.IsDigit(r)
		}
	}
	if !lost && slug.Len() > 0 {
		return slug.String()
	}
	sum := sha256.Sum256([]byte(norm.NFC.String(strings.ToLower(name))))
	return cmp.Or(slug.String(), "org") + "-" + hex.EncodeToString(sum[:4])
}

// nameOf derives a person's name from an e-mail address.
func nameOf(email string) string {
	local, _, _ := strings.Cut(email, "@")
	words := strings.FieldsFunc(local, func(r rune) bool { return strings.ContainsRune("._-+", r) })
	for i, word := range words {
		first := []rune(word)
		first[0] = unicode.ToUpper(first[0])
		words[i] = string(first)
	}
	return cmp.Or(strings.Join(words, " "), email)
}

// check returns an error if the state was not written by this package.
func (b state) check() error {
	if b.Accounts == nil || b.Organisations == nil || b.Memberships == nil {
		return errors.New("accounts, organisations or memberships are missing")
	}
	return nil
}

func openAccounts(path string) (*atomicfile.Document[state], error) {
	initial := state{Accounts: map[string]account{}, Organisations: map[string]organisation{}, Memberships: map[string]membership{}}
	return atomicfile.OpenDocument(path, initial, state.check)
}

// recordAttempt counts a delivery attempt of the message. It removes the message if it was
// delivered or is given up, and reports the latter.
func (b *state) recordAttempt(message string, delivered bool) (givenUp bool) {
	for i := range b.Outbox {
		m := &b.Outbox[i]
		if m.ID != message {
			continue
		}
		m.Attempts++
		givenUp = !delivered && m.Attempts >= maxAttempts
		if delivered || givenUp {
			b.Outbox = slices.Delete(b.Outbox, i, i+1)
		}
		return givenUp
	}
	return false
}
