package main

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/zalando/go-keyring"

	"collab/adapters/apiclient"
	"collab/adapters/filelock"
	"collab/test/must"
)

// terminal returns an app whose streams are terminals, and what it prints.
func terminal(t *testing.T, width int, environment map[string]string) (a *app, out, err *strings.Builder) {
	t.Helper()
	out, err = &strings.Builder{}, &strings.Builder{}
	directory := filepath.Join(t.TempDir(), "collab")
	return &app{
		in: strings.NewReader(""), out: out, err: err, inTerminal: true, outTerminal: true, errTerminal: true, width: width,
		env: func(name string) string {
			if name == "COLLAB_CONFIG_DIR" {
				return directory
			}
			return environment[name]
		},
		now: time.Now,
	}, out, err
}

type animal struct {
	Name  string `json:"name"`
	Sound string `json:"sound"`
}

var (
	animals = []animal{{"cat", "miaow \x1b[31m\n"}, {"Mäuschen", "a long sound, repeated"}}
	columns = func(a animal) []column { return []column{{"name", a.Name}, {"sound", a.Sound}} }
)

func TestATableFitsTheTerminalAndCannotControlIt(t *testing.T) {
	a, out, _ := terminal(t, 24, map[string]string{"NO_COLOR": "1"})
	must.NoError(t, printRows(a, sequence(animals), columns))
	want := "NAME      SOUND\ncat       miaow  [31m \nMäuschen  a long sound,…\n"
	must.Equal(t, want, out.String())
}

func TestSeveralColumnsBecomeNarrow(t *testing.T) {
	a, out, _ := terminal(t, 30, map[string]string{"NO_COLOR": "1"})
	long := []animal{{"漢字漢字漢字漢字漢字", "a long sound, repeated and repeated"}}
	must.NoError(t, printRows(a, sequence(long), columns))
	want := "NAME            SOUND\n漢字漢字漢字…   a long sound,…\n"
	must.Equal(t, want, out.String())
}

func TestALongTextIsCutInATable(t *testing.T) {
	a, out, _ := terminal(t, 20, map[string]string{"NO_COLOR": "1"})
	must.NoError(t, printRows(a, sequence([]animal{{"cat", strings.Repeat("o", 1<<19)}}), columns))
	must.Equal(t, "NAME  SOUND\ncat   "+strings.Repeat("o", 13)+"…\n", out.String())
}

func TestTheIDOfATaskCanBeShort(t *testing.T) {
	for id, want := range map[string]string{"": "", "1234567": "1234567", "12345678": "12345678", "123456789": "23456789"} {
		must.Is(t, want, taskColumns(apiclient.Task{ID: id})[0].text)
	}
}

func TestHeadingsHaveAColourUnlessItIsRefused(t *testing.T) {
	for refusal, coloured := range map[string]bool{"": true, "NO_COLOR": false} {
		a, out, _ := terminal(t, 80, map[string]string{refusal: "1"})
		must.NoError(t, printRows(a, sequence(animals), columns))
		if strings.Contains(out.String(), "\x1b[2mNAME") != coloured {
			t.Errorf("with %q it is %q", refusal, out.String())
		}
	}
}

func TestATerminalWithoutSequencesHasNoColoursAndNoProgress(t *testing.T) {
	a, _, stderr := terminal(t, 80, nil)
	a.dumbTerminal = true
	now := time.Unix(0, 0)
	a.now = func() time.Time { return now }
	p := a.newProgress("notes", 100)
	now = now.Add(time.Second)
	p.add(1)
	p.end()
	a.printSuccess("done")
	must.Equal(t, "✓ done\n", stderr.String())
}

func TestNothingIsPrintedOfAListThatBreaks(t *testing.T) {
	broken := errors.New("broken")
	a, out, _ := terminal(t, 80, nil)
	a.flags.json = "name"
	list := func(yield func(animal, error) bool) { _ = yield(animals[0], nil) && yield(animal{}, broken) }
	if err := printRows(a, list, columns); !errors.Is(err, broken) || out.Len() > 0 {
		t.Errorf("it prints %q and returns %v", out, err)
	}
}

// safe is a keyring in memory that can be out of order.
type safe struct {
	secrets map[string]string
	fault   error
}

func (s safe) Get(name string) (string, error) { return s.secrets[name], s.fault }
func (s safe) Set(name, secret string) error {
	if s.fault == nil {
		s.secrets[name] = secret
	}
	return s.fault
}
func (s safe) Delete(name string) error { delete(s.secrets, name); return s.fault }

func TestATokenIsInTheKeyringOrInTheFile(t *testing.T) {
	c := account{Server: "https://a.example", OrgID: "1", Org: "A", User: "ada", Token: "secret"}
	for name, try := range map[string]struct {
		fault    error
		insecure bool
		inFile   bool
	}{
		"a keyring":                    {nil, false, false},
		"a keyring that is not wanted": {nil, true, true},
		"a keyring that fails":         {errors.New("no D-Bus"), false, true},
	} {
		t.Run(name, func(t *testing.T) {
			a, _, stderr := terminal(t, 80, nil)
			secrets := safe{map[string]string{}, try.fault}
			a.secrets = secrets
			must.NoError(t, a.storeAccount(c, try.insecure))
			_, stored, err := a.readAccounts()
			if err != nil || len(stored) != 1 || (stored[0].Token == "secret") != try.inFile || (secrets.secrets[c.key()] == "secret") == try.inFile {
				t.Errorf("the file has %+v, %v, the keyring %v", stored, err, secrets.secrets)
			}
			if warned := strings.Contains(stderr.String(), "warning:"); warned != (try.fault != nil) {
				t.Errorf("it says %q", stderr)
			}
			found, err := a.currentAccount()
			if err != nil || found.Token != "secret" {
				t.Errorf("the account is %+v, %v", found, err)
			}
			must.NoError(t, a.storeRenewedToken(found, "newer"))
			if found, err = a.currentAccount(); err != nil || found.Token != "newer" {
				t.Errorf("after its renewal it is %+v, %v", found, err)
			}
			must.NoError(t, a.removeAccount(found))
			if _, err = a.currentAccount(); exitCode(err) != exitSignIn || len(secrets.secrets) > 0 {
				t.Errorf("after signing out: %v, %v", err, secrets.secrets)
			}
			if err := a.storeRenewedToken(found, "late"); err != nil || len(secrets.secrets) > 0 {
				t.Errorf("a token that is renewed after signing out: %v, %v", secrets.secrets, err)
			}
			another := c
			another.User = "bob"
			must.NoError(t, errors.Join(a.storeAccount(another, try.insecure), a.storeRenewedToken(found, "late")))
			if got, err := a.currentAccount(); err != nil || got.Token != "secret" || got.User != "bob" {
				t.Errorf("after a token of another user was renewed the account is %+v, %v", got, err)
			}
		})
	}
}

func TestTheAccountOfACommand(t *testing.T) {
	const s = "https://s.example"
	first, second, other := account{Server: s, OrgID: "1", Org: "A", Token: "1"}, account{Server: s, OrgID: "2", Org: "B", Token: "2"}, account{Server: "https://t.example", OrgID: "3", Org: "A", Token: "3"}
	active := func(c account) account { c.Active = true; return c }
	token := "e30." + base64.RawURLEncoding.EncodeToString([]byte(`{"org_id":"2"}`)) + ".x"
	for name, c := range map[string]struct {
		all  []account
		env  map[string]string
		want string // the token
		code int
	}{
		"the active one":                       {[]account{first, active(second), other}, nil, "2", 0},
		"the active one of a server":           {[]account{active(first), second, other}, map[string]string{"COLLAB_SERVER": s}, "1", 0},
		"the last one of a server":             {[]account{first, second, active(other)}, map[string]string{"COLLAB_SERVER": s}, "2", 0},
		"the active one of a name":             {[]account{active(first), second, other}, map[string]string{"COLLAB_ORG": "a"}, "1", 0},
		"the last one of a name":               {[]account{first, active(second), other}, map[string]string{"COLLAB_ORG": "a"}, "3", 0},
		"one that is not there":                {[]account{active(first)}, map[string]string{"COLLAB_SERVER": s, "COLLAB_ORG": "2"}, "", exitSignIn},
		"a token":                              {nil, map[string]string{"COLLAB_SERVER": s, "COLLAB_TOKEN": token}, token, 0},
		"a token of an organisation":           {nil, map[string]string{"COLLAB_SERVER": s, "COLLAB_TOKEN": token, "COLLAB_ORG": "2"}, token, 0},
		"a token of another organisation":      {nil, map[string]string{"COLLAB_SERVER": s, "COLLAB_TOKEN": token, "COLLAB_ORG": "1"}, "", exitUsage},
		"a token that says no organisation":    {nil, map[string]string{"COLLAB_SERVER": s, "COLLAB_TOKEN": "token", "COLLAB_ORG": "1"}, "", exitUsage},
		"a token whose organisation is broken": {nil, map[string]string{"COLLAB_SERVER": s, "COLLAB_TOKEN": "a.?.b", "COLLAB_ORG": "1"}, "", exitUsage},
	} {
		a, _, _ := terminal(t, 80, c.env)
		must.NoError(t, a.changeAccounts(func([]account) ([]account, error) { return c.all, nil }))
		found, err := a.currentAccount()
		if found.Token != c.want || (err == nil) != (c.code == 0) || err != nil && exitCode(err) != c.code {
			t.Errorf("%s: %+v, %v", name, found, err)
		}
	}
}

func TestAnAmbiguousNameChoosesNoOrganisation(t *testing.T) {
	all := []account{{Server: "https://s.example", OrgID: "1", Org: "A", Token: "1", Active: true}, {Server: "https://t.example", OrgID: "2", Org: "A", Token: "2"}}
	for _, c := range []struct {
		args []string
		code int
		want string // the token
	}{{[]string{"a"}, exitUsage, "1"}, {[]string{"2"}, 0, "2"}, {[]string{"a", "--server", "https://t.example"}, 0, "2"}} {
		a, _, _ := terminal(t, 80, nil)
		must.NoError(t, a.changeAccounts(func([]account) ([]account, error) { return all, nil }))
		code := a.run(t.Context(), append([]string{"orgs", "use"}, c.args...))
		a.flags.server, a.flags.org = "", ""
		if active := must.Do(a.currentAccount()).Or(t); code != c.code || active.Token != c.want {
			t.Errorf("%v: it exits with %d, and %s is active", c.args, code, active.OrgID)
		}
	}
}

// TestATokenThatCannotBeReadNow expects that only a keyring without the token asks for a sign-in.
func TestATokenThatCannotBeReadNow(t *testing.T) {
	for fault, want := range map[error]int{keyring.ErrNotFound: exitSignIn, errors.New("locked"): exitFailure} {
		a, _, _ := terminal(t, 80, nil)
		a.secrets = safe{map[string]string{}, nil}
		must.NoError(t, a.storeAccount(account{Server: "https://s.example", OrgID: "1", Token: "secret"}, false))
		a.secrets = safe{nil, fault}
		if _, err := a.currentAccount(); exitCode(err) != want || isTemporary(err) != (want == exitFailure) {
			t.Errorf("with %v: %v", fault, err)
		}
	}
}

// locking is a keyring that is changed only while the accounts are locked.
type locking struct {
	safe
	locked func() error
}

func (l locking) Set(name, secret string) error {
	return errors.Join(l.locked(), l.safe.Set(name, secret))
}
func (l locking) Delete(name string) error { return errors.Join(l.locked(), l.safe.Delete(name)) }

func TestTheKeyringIsChangedByOneProcessAtATime(t *testing.T) {
	a, _, stderr := terminal(t, 80, nil)
	a.secrets = locking{safe{map[string]string{}, nil}, func() error {
		directory, err := a.configDirectory()
		if err != nil {
			return err
		}
		f, err := os.OpenFile(filepath.Join(directory, "accounts.lock"), os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			return err
		}
		defer f.Close()
		if err := filelock.TryLock(f, true); !errors.Is(err, filelock.ErrLocked) {
			return fmt.Errorf("the accounts are not locked: %v", err)
		}
		return nil
	}}
	c := account{Server: "https://a.example", OrgID: "1", Token: "secret"}
	if err := errors.Join(a.storeAccount(c, false), a.storeRenewedToken(c, "newer"), a.removeAccount(c)); err != nil || stderr.Len() > 0 {
		t.Errorf("%v, %s", err, stderr)
	}
}

func TestAnAccountHasTheTokenThatItsTokenWasReplacedBy(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasSuffix(r.URL.Path, "/auth/refresh"):
			_, _ = io.WriteString(w, `{"token":"newer"}`)
		case r.Header.Get("Authorization") == "Bearer newer":
			_, _ = io.WriteString(w, `{"user":{"id":"ada"}}`)
		default:
			http.Error(w, `{"statusCode":401,"message":"The token has expired","error":"Unauthorized"}`, http.StatusUnauthorized)
		}
	}))
	defer s.Close()
	must.Is(t, account{Server: s.URL, User: "ada", Token: "newer"}, must.Do(fetchAccount(t.Context(), s.URL, "expired")).Or(t))
}

func TestSizesAreReadable(t *testing.T) {
	for n, want := range map[int64]string{0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", 1536 << 10: "1.5 MiB", 1 << 40: "1.0 TiB"} {
		if got := formatSize(n); got != want {
			t.Errorf("%d is %q, want %q", n, got, want)
		}
	}
}

func TestUsageIsAChartOnATerminal(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"byDay":[{"date":"2026-01-02","requests":1,"totalTokens":50},{"date":"2026-01-03","requests":2,"totalTokens":200},{"date":"2026-01-04"}],"used":0,"limit":1}`)
	}))
	defer s.Close()
	a, out, _ := terminal(t, 80, map[string]string{"COLLAB_SERVER": s.URL, "COLLAB_TOKEN": "secret", "NO_COLOR": "1"})
	c := a.usageCommand()
	c.SetArgs(nil)
	must.NoError(t, c.ExecuteContext(t.Context()))
	chart, _, _ := strings.Cut(out.String(), "\n\n")
	want := "DAY         REQUESTS  TOKENS  \n" +
		"2026-01-02  1         50      " + strings.Repeat("█", 10) + "\n" +
		"2026-01-03  2         200     " + strings.Repeat("█", 40) + "\n" +
		"2026-01-04  0         0       "
	must.Equal(t, want, chart)
	must.Equal(t, "", bar(0, 0))
}

func TestTheAddressOfAPageCannotControlTheTerminal(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"url":"https://pay.example/\u001b]0;x\u0007\u202e"}`)
	}))
	defer s.Close()
	a, out, _ := terminal(t, 80, map[string]string{"COLLAB_SERVER": s.URL, "COLLAB_TOKEN": "secret"})
	a.outTerminal = false // else the page is opened
	c := a.billingCommand()
	c.SetArgs([]string{"portal"})
	must.NoError(t, c.ExecuteContext(t.Context()))
	must.Equal(t, "https://pay.example/ ]0;x \n", out.String())
}

func TestTheSignInOfADeviceOutlastsErrorsOfTheNetworkAndLimits(t *testing.T) {
	for about, c := range map[string]struct {
		reachable bool
		waits     []int // seconds
	}{
		"it is reached again": {true, []int{5, 10, 15, 20, 20, 25}},
		"the code expires":    {false, []int{5, 10, 15, 20}},
	} {
		var requests int
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.HasSuffix(r.URL.Path, "/device") {
				_, _ = io.WriteString(w, `{"device_code":"code","user_code":"USER","expires_in":40}`)
				return
			}
			switch requests++; {
			case requests == 1 || !c.reachable:
				panic(http.ErrAbortHandler)
			case requests == 2:
				w.WriteHeader(http.StatusInternalServerError)
			case requests == 3: // of its address
				w.WriteHeader(http.StatusTooManyRequests)
			case requests == 4:
				w.WriteHeader(http.StatusBadRequest)
				_, _ = io.WriteString(w, `{"error":"authorization_pending"}`)
			case requests == 5:
				w.WriteHeader(http.StatusBadRequest)
				_, _ = io.WriteString(w, `{"error":"slow_down"}`)
			default:
				_, _ = io.WriteString(w, `{"token":"token"}`)
			}
		}))
		defer s.Close()
		a, _, _ := terminal(t, 80, nil)
		now := time.Unix(0, 0)
		a.now = func() time.Time { return now }
		var waits []int
		client := must.Do(apiclient.New(apiclient.Config{Server: s.URL, Attempts: 1, Wait: func(_ context.Context, d time.Duration) error {
			now = now.Add(d)
			waits = append(waits, int(d.Seconds()))
			return nil
		}})).Or(t)
		token, err := a.tokenFromDevice(t.Context(), client)
		must.Equal(t, c.waits, waits)
		if (token == "token") != c.reachable || (err == nil) != c.reachable {
			t.Errorf("%s: %q, %v", about, token, err)
		}
	}
}

func TestProgressHasTheRateOfTheLastSeconds(t *testing.T) {
	a, _, stderr := terminal(t, 80, nil)
	now := time.Unix(0, 0)
	a.now = func() time.Time { return now }
	p := a.newProgress("notes", 100<<20)
	p.files, p.finished = 10, 8
	for second := range 60 {
		now = now.Add(time.Second)
		stderr.Reset()
		p.add(map[bool]int{false: 1 << 20, true: 2 << 20}[second >= 40])
	}
	must.Equal(t, "\r\x1b[Knotes  8 of 10 files  80.0 MiB of 100.0 MiB  80 %  2.0 MiB/s  10s left", stderr.String())
	now = now.Add(time.Hour)
	stderr.Reset()
	p.add(0)
	must.Equal(t, "\r\x1b[Knotes  8 of 10 files  80.0 MiB of 100.0 MiB  80 %", stderr.String())
}

func TestProgressIsOneLineOfTheTerminal(t *testing.T) {
	for _, width := range []int{5, 20, 40, 80} {
		a, _, stderr := terminal(t, width, nil)
		now := time.Unix(0, 0)
		a.now = func() time.Time { return now }
		p := a.newProgress(strings.Repeat("漢", 40), 100<<20)
		p.files = 10
		now = now.Add(time.Second)
		p.add(1 << 20)
		line := strings.TrimPrefix(stderr.String(), "\r\x1b[K")
		if displayWidth(line) >= width || strings.HasSuffix(line, " left") != (width == 80) {
			t.Errorf("with %d columns: %q", width, line)
		}
	}
}

func TestANoteCannotControlTheTerminal(t *testing.T) {
	a, _, errors := terminal(t, 80, nil)
	a.printErrf("%s %s: %v", a.paint(true, green, "✓"), "a\x1b[2Jb\u202ec\u2028", fmt.Errorf("d\re"))
	if got, want := errors.String(), "\x1b["+green+"m✓\x1b[0m a [2Jbc : d e\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestColumnsOfATerminal(t *testing.T) {
	for text, want := range map[string]int{"": 0, "abc": 3, "Mäuschen": 8, "a\u0308": 1, "漢字": 4, "🙂": 2} {
		if got := displayWidth(text); got != want {
			t.Errorf("%q takes %d columns, want %d", text, got, want)
		}
	}
}

func TestAToolIsCalledWhenThePersonAllowsIt(t *testing.T) {
	for typed, want := range map[string]string{"y\ny\n": "yes yes", "n\n\n": "no no", "a\n": "yes yes", "what\nyes\n": "yes no", "": "no no"} {
		a, _, stderr := terminal(t, 80, nil)
		a.in = strings.NewReader(typed)
		box, wiki := &toolbox{app: a}, &toolServer{label: "Wiki\x1b"}
		var got []string
		for range 2 {
			allowed, err := box.authorize(t.Context(), wiki, apiclient.ToolCall{Name: "search", Args: map[string]any{"query": "\x1b[2J\u202e"}})
			must.NoError(t, err)
			got = append(got, map[bool]string{true: "yes", false: "no"}[allowed])
		}
		if strings.Join(got, " ") != want {
			t.Errorf("after %q: %v, want %s", typed, got, want)
		}
		if strings.ContainsAny(strings.ReplaceAll(stderr.String(), "\x1b["+dim+"m", ""), "\u202e") || !strings.Contains(stderr.String(), "search\n query: ") {
			t.Errorf("it asks %q", stderr)
		}
	}
}

func TestAToolNamedAllDoesNotStandForAllTools(t *testing.T) {
	env := map[string]string{}
	a, _, stderr := terminal(t, 80, env)
	a.in = strings.NewReader("always\nno\n")
	box, wiki := must.Do(a.openToolbox(t.Context(), nil, nil, nil)).Or(t), &toolServer{label: "Wiki"}
	allows := func(name string) bool {
		return must.Do(box.authorize(t.Context(), wiki, apiclient.ToolCall{Name: name})).Or(t)
	}
	always, again, another := allows("all"), allows("all"), allows("search")
	if !always || !again || another {
		t.Errorf("it asks %q", stderr)
	}
	env["CI"] = "true"
	box.alwaysAllowed = nil
	if allows("all") || strings.Contains(stderr.String(), "--allow all") {
		t.Errorf("it says %q", stderr)
	}
	box = must.Do(a.openToolbox(t.Context(), nil, nil, []string{"all"})).Or(t)
	if !allows("search") {
		t.Error("--allow all does not allow a tool")
	}
}

func TestAnInterruptionEndsReadingStandardInput(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for name, read := range map[string]func(*app) error{
		"a question": func(a *app) error { return must.ErrorOf(a.prompt(ctx, "?")) },
		"a text":     func(a *app) error { return must.ErrorOf(a.readAll(ctx, 1)) },
		"a content": func(a *app) error {
			content, _, err := a.openContent(ctx, "-")
			must.NoError(t, err)
			return must.ErrorOf(content.Reader.Read(make([]byte, 1)))
		},
	} {
		a, _, _ := terminal(t, 80, nil)
		in, typed := io.Pipe()
		a.in = in
		if err := read(a); exitCode(err) != exitCancelled {
			t.Errorf("%s: %v", name, err)
		}
		typed.Close()
	}
}

func TestAPersonIsAskedBeforeARemoval(t *testing.T) {
	for typed, want := range map[string]bool{"y\n": true, "\n": false} {
		s := httptest.NewServer(http.NotFoundHandler())
		a, _, _ := terminal(t, 80, map[string]string{"COLLAB_SERVER": s.URL, "COLLAB_TOKEN": "secret"})
		a.in = strings.NewReader(typed)
		removed := false
		c := removeCommand(a, "remove NAME", "Remove it", func(context.Context, *apiclient.Client, string) (string, error) { return "it", nil },
			func(context.Context, *apiclient.Client, string) (apiclient.Success, error) {
				removed = true
				return apiclient.Success{}, nil
			})
		c.SetArgs([]string{"it"})
		c.SilenceErrors, c.SilenceUsage = true, true
		if err := c.ExecuteContext(t.Context()); (err == nil) != want || removed != want {
			t.Errorf("after %q: %v, %v", typed, removed, err)
		}
		s.Close()
	}
}

// TestNobodyIsAskedWithoutAPerson expects that each command ends by itself in a pipeline, which has a terminal here, and says
// what it needs, if it does not do without.
func TestNobodyIsAskedWithoutAPerson(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == http.MethodDelete:
			_, _ = io.WriteString(w, `{"success": true}`)
		case r.URL.Path == "/api/v1/teams":
			_, _ = io.WriteString(w, `[{"id": "1", "name": "Sales"}]`)
		default:
			t.Errorf("it asks for %s", r.URL)
		}
	}))
	defer s.Close()
	for line, want := range map[string]struct {
		code int
		says string
	}{
		"login":                     {exitSignIn, "set COLLAB_TOKEN"},
		"login --no-browser":        {exitSignIn, "set COLLAB_TOKEN"},
		"login --device":            {exitSignIn, "set COLLAB_TOKEN"},
		"teams remove Sales":        {0, ""},
		"chat":                      {exitUsage, "pass one as argument"},
		"memory edit":               {exitUsage, "set EDITOR"},
		"connectors authorize Mine": {exitSignIn, "CI is set"},
	} {
		a, _, stderr := terminal(t, 80, map[string]string{"COLLAB_SERVER": s.URL, "COLLAB_TOKEN": "secret", "CI": "true"})
		if code := a.run(t.Context(), strings.Fields(line)); code != want.code || !strings.Contains(stderr.String(), want.says) || strings.Contains(stderr.String(), "?") {
			t.Errorf("%s exits with %d and says %q", line, code, stderr)
		}
	}
	for name, change := range map[string]func(*app, map[string]string){
		"a pipeline":      func(_ *app, env map[string]string) { env["CI"] = "true" },
		"a file as input": func(a *app, _ map[string]string) { a.inTerminal = false },
		"a log of errors": func(a *app, _ map[string]string) { a.errTerminal = false },
	} {
		env := map[string]string{}
		a, _, stderr := terminal(t, 80, env)
		a.in = strings.NewReader("y\n")
		change(a, env)
		allowed := must.Do((&toolbox{app: a}).authorize(t.Context(), &toolServer{label: "Wiki"}, apiclient.ToolCall{Name: "search"})).Or(t)
		if allowed || !strings.Contains(stderr.String(), "allow it with --allow search") {
			t.Errorf("with %s: %v after %q", name, allowed, stderr)
		}
	}
}

func TestErrorsOfTheCommandLineAreFoundBeforeTheServerIsAsked(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { t.Errorf("it asks for %s", r.URL) }))
	defer s.Close()
	t.Chdir(t.TempDir())
	must.NoError(t, os.Mkdir("d", 0o700))
	must.NoError(t, os.Symlink("d", "link"))
	for line, want := range map[string]string{
		"files get a --version -1": "at least 1", "files get a --version 0": "at least 1", "files restore a --version=-1": "at least 1",
		"tasks add T --jq .[": "--jq", "tasks add T --jq nothing": "--jq", "sync log d --limit -3": "at least 0", "sync d --json all": "no --json", "sync d --jq .": "no --json",
		"tasks add T --json nope": "no field", "chat Hello --json nope": "no field", "billing checkout standard --json url,nope": "no field", "billing trial --json nope": "no field",
		"sync d ./d": "d and ./d are the same directory", "sync absent absent d link": "d and link are the same directory",
	} {
		a, _, stderr := terminal(t, 80, map[string]string{"COLLAB_SERVER": s.URL, "COLLAB_TOKEN": "secret"})
		if code := a.run(t.Context(), strings.Fields(line)); code != exitUsage || !strings.Contains(stderr.String(), want) {
			t.Errorf("%s exits with %d and says %q", line, code, stderr)
		}
	}
}

func TestAPersonSeesAllArgumentsOfACall(t *testing.T) {
	a, _, stderr := terminal(t, 80, nil)
	a.in = strings.NewReader("n\n")
	long := strings.Repeat("harmless ", 100)
	args := map[string]any{"a": long, "mail": map[string]any{"body": long, "to": []any{"eve@example.com"}}, "z": "rm -r"}
	must.Do((&toolbox{app: a}).authorize(t.Context(), &toolServer{label: "Wiki"}, apiclient.ToolCall{Name: "send", Args: args})).Or(t)
	for _, want := range []string{" a: \"harmless ", "(902 characters)\n", "\n mail.body: ", "\n mail.to[0]: \"eve@example.com\"\n", "\n z: \"rm -r\"\n"} {
		if !strings.Contains(stderr.String(), want) {
			t.Errorf("%q is not in %s", want, stderr)
		}
	}
}

func TestJSONCannotControlATerminal(t *testing.T) {
	tree := map[string]any{"a": "\x1b[2Jü\u009b\u202e\x7f"}
	for jq, want := range map[string][2]string{
		"":   {"{\n  \"a\": \"\\u001b[2Jü\\u009b\\u202e\\u007f\"\n}\n", "{\"a\":\"\\u001b[2Jü\u009b\u202e\x7f\"}\n"},
		".a": {"[2Jü\n", "\x1b[2Jü\u009b\u202e\x7f\n"},
	} {
		for i, want := range want {
			a, out, _ := terminal(t, 80, nil)
			a.flags.jq, a.outTerminal = jq, i == 0
			if err := a.printTree(tree); err != nil || out.String() != want {
				t.Errorf("--jq %q: %q, %v, want %q", jq, out, err, want)
			}
		}
	}
}

func TestCharactersInPiecesCannotControlATerminal(t *testing.T) {
	a, out, _ := terminal(t, 80, nil)
	w := a.toTerminal(printable)
	for _, b := range []byte("ü\x1b[2J\u202e🙂\u009b\x9b!") {
		must.Do(w.Write([]byte{b})).Or(t)
	}
	if want := "ü[2J🙂\ufffd!"; out.String() != want {
		t.Errorf("%q, want %q", out, want)
	}
}

func TestABrokenResponseOfAModelIsNotFatal(t *testing.T) {
	for _, kind := range []string{"text", "tool_call", "error", "done"} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprintf(w, "data: {\"type\":%q}\n\n", kind)
		}))
		a, _, _ := terminal(t, 80, nil)
		client := must.Do(apiclient.New(apiclient.Config{Server: s.URL, Token: "secret"})).Or(t)
		c := conversation{app: a, client: client, tools: &toolbox{app: a}}
		if _, err := c.send(t.Context()); (err == nil) != (kind == "done") {
			t.Errorf("after %s without content: %v", kind, err)
		}
		s.Close()
	}
}

func TestConcurrentChangesOfTheAccountsAreKept(t *testing.T) {
	a, _, _ := terminal(t, 80, nil)
	var changes sync.WaitGroup
	const n = 20
	for i := range n {
		changes.Go(func() {
			must.Succeed(t, a.changeAccounts(func(all []account) ([]account, error) { return append(all, account{OrgID: fmt.Sprint(i)}), nil }))
		})
	}
	changes.Wait()
	_, all, err := a.readAccounts()
	if err != nil || len(all) != n {
		t.Errorf("%d accounts of %d, %v", len(all), n, err)
	}
}

// stored returns the record of a file with the content, and what requests it.
func stored(content string) (apiclient.StoredObject, func(apiclient.DownloadFileParams) (*http.Response, error)) {
	o := apiclient.StoredObject{Path: "a", Checksum: must.Sum(content), Version: 1, Size: int64(len(content))}
	return o, func(apiclient.DownloadFileParams) (*http.Response, error) {
		return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"X-Collab-Checksum": {o.Checksum}}, Body: io.NopCloser(strings.NewReader(content))}, nil
	}
}

func TestADownloadEndsWhenItCannotBeWritten(t *testing.T) {
	a, _, _ := terminal(t, 80, nil)
	o, fetch := stored(strings.Repeat("x", 1<<20))
	requests := 0
	err := a.download(t.Context(), o, full{}, func(params apiclient.DownloadFileParams) (*http.Response, error) {
		requests++
		response, err := fetch(params)
		if requests > 1 {
			response.StatusCode = http.StatusPartialContent
		}
		return response, err
	})
	if !errors.Is(err, syscall.ENOSPC) || requests != 1 {
		t.Errorf("after %d requests it ends with %v", requests, err)
	}
}

func TestNumbersOfFieldsAreAsTheyWereTyped(t *testing.T) {
	for text, want := range map[string]string{
		"12345678901234567890": "12345678901234567890", "1.50": "1.50", `{"a": [9007199254740993]}`: `{"a":[9007199254740993]}`,
		"true": "true", "null": "null", "text": `"text"`, `"text"`: `"\"text\""`, "1 2": `"1 2"`, "": `""`,
	} {
		must.Is(t, want, string(must.Do(json.Marshal(parseValue(text))).Or(t)))
	}
}

// TestATaskIsMovedWithFewOthers has the sort orders of the others, the place and the order that is stored.
func TestATaskIsMovedWithFewOthers(t *testing.T) {
	for name, c := range map[string]struct {
		others []int64
		at     int
		want   string // the places of the others that are moved, x for the task, and the first sort order
	}{
		"to an empty list":                   {nil, 0, "x 0"},
		"before the first one":               {[]int64{5, 6}, 0, "x 4"},
		"before the first one of all":        {[]int64{0, 1, 5}, 0, "x 0 1 0"},
		"behind the last one":                {[]int64{3, 7}, 2, "x 8"},
		"where there is room":                {[]int64{3, 7}, 1, "x 4"},
		"where those after it make room":     {[]int64{3, 4, 6}, 1, "x 1 4"},
		"where those before it make room":    {[]int64{2, 4, 5, 6, 7}, 2, "1 x 3"},
		"where those before it have no room": {[]int64{0, 1, 2, 3}, 1, "x 1 2 3 1"},
		"among some of one order":            {[]int64{4, 4, 4, 9}, 1, "0 x 2"},
	} {
		var others []apiclient.Task
		for i, order := range c.others {
			others = append(others, apiclient.Task{ID: fmt.Sprint(i), SortOrder: order})
		}
		got := reorderFor(others, "x", c.at)
		if text := fmt.Sprint(strings.Join(got.TaskIDs, " "), " ", *got.SortOrder); text != c.want {
			t.Errorf("%s it is %s, want %s", name, text, c.want)
		}
	}
}

// TestTasksAreListedOnceForShortIDs expects a list for names that are ends of ids, and none for whole ids.
func TestTasksAreListedOnceForShortIDs(t *testing.T) {
	const first, second = "01970000-0000-7000-8000-0000000000aa", "01970000-0000-7000-8000-0000000000bb"
	for line, want := range map[string]string{
		"tasks done AA bb":                        "GET PATCH " + first + " PATCH " + second,
		"tasks done " + first + " " + second:      "PATCH " + first + " PATCH " + second,
		"tasks edit " + second + " --status done": "PATCH " + second,
		"tasks done aa nothing":                   "GET",
	} {
		var requests []string
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			requests = append(requests, strings.TrimSpace(r.Method+" "+strings.Trim(strings.TrimPrefix(r.URL.Path, "/api/v1/tasks"), "/")))
			if r.Method == http.MethodGet {
				fmt.Fprintf(w, `[{"id": %q}, {"id": %q}]`, first, second)
				return
			}
			_, _ = io.WriteString(w, `{}`)
		}))
		a, _, stderr := terminal(t, 80, map[string]string{"COLLAB_SERVER": s.URL, "COLLAB_TOKEN": "secret"})
		a.run(t.Context(), strings.Fields(line))
		if got := strings.Join(requests, " "); got != want {
			t.Errorf("%s requests %s, want %s; it says %q", line, got, want, stderr)
		}
		s.Close()
	}
}

func TestADownloadHasTheModeOfTheFileThatItReplaces(t *testing.T) {
	a, _, _ := terminal(t, 80, nil)
	o, fetch := stored("")
	directory := t.TempDir()
	modes := func(name string) fs.FileMode {
		info := must.Do(os.Stat(filepath.Join(directory, name))).Or(t)
		return info.Mode().Perm()
	}
	for _, name := range []string{"plain", "private"} {
		must.NoError(t, os.WriteFile(filepath.Join(directory, name), nil, map[string]fs.FileMode{"plain": 0o666, "private": 0o600}[name]))
	}
	for name, like := range map[string]string{"new": "plain", "private": "private"} {
		want := modes(like)
		if err := a.downloadTo(t.Context(), o, filepath.Join(directory, name), fetch); err != nil || modes(name) != want {
			t.Errorf("the mode of a %s file is %v, want %v; %v", name, modes(name), want, err)
		}
	}
}

func TestHelpThatCannotBeWrittenFails(t *testing.T) {
	for _, args := range [][]string{{"help"}, {"--help"}, {"tasks"}, {"help", "sync"}} {
		a, _, printed := terminal(t, 80, map[string]string{"CI": "1"})
		a.out = unwritable{}
		if code := a.run(t.Context(), args); code != exitFailure || !strings.Contains(printed.String(), "no space left") {
			t.Errorf("%q: code %d, %q", args, code, printed)
		}
	}
}

// unwritable is a file on a full disk.
type unwritable struct{}

func (unwritable) Write([]byte) (int, error) { return 0, syscall.ENOSPC }
