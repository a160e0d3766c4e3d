package main

import (
	"bufio"
	"errors"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"collab/adapters/apiclient"
	"collab/test/authserver"
	"collab/test/collabd"
	"collab/test/must"
	"collab/test/toolserver"
)

// tests runs the tests, or is the server.
type tests struct{ *testing.M }

func (t tests) Run() int { return collabd.Run(t.M) }

func TestMain(m *testing.M) {
	testscript.Main(tests{m}, map[string]func(){"collab": main})
}

// TestScripts runs the scripts of testdata, in which the program talks to a server. Each has an organisation of its own, whose
// owner's token is in $TOKEN, with a second member, $NAME-member@example.com. Beside testscript's commands they have:
//
//	exits CODE PROGRAM ARGUMENT…   runs a program that ends with that code
//	interrupts PROGRAM ARGUMENT…   interrupts a program once it prints something; it ends with 130
//	signin EMAIL ORGANISATION FLAG runs collab login with --no-browser or --device, and is the browser
//	authorizes CONNECTOR           runs collab connectors authorize, and is the browser
func TestScripts(t *testing.T) {
	tools, mediated, provider := toolserver.Start(t), toolserver.Start(t), authserver.Start(t, "")
	tools.RequireBearer(func(token string) bool { return token == "key" })
	mediated.Protect(provider.Issuer, "notes:read")
	mediated.RequireBearer(provider.Valid)
	catalog := filepath.Join(t.TempDir(), "catalog.json")
	must.NoError(t, os.WriteFile(catalog, fmt.Appendf(nil, `{"builtIn": true, "providers": [
		{"serverId": "wiki", "displayName": "Wiki", "description": "Pages.", "authMode": "API_KEY", "mcpTransport": "HTTP",
		 "credentials": [{"name": "apiKey", "label": "API key"}], "headers": {"Authorization": "Bearer {apiKey}"}},
		{"serverId": "notes", "displayName": "Notes", "description": "Notes.", "authMode": "SERVER_MEDIATED", "mcpTransport": "HTTP", "mcpUrl": %q}
	]}`, mediated.HTTP()), 0o600))
	s := collabd.Start(t, "COLLAB_ADMIN_SECRET=operator", "COLLAB_CONNECTORS_FILE="+catalog, "COLLAB_CONNECTOR_NETWORKS=127.0.0.0/8")
	testscript.Run(t, testscript.Params{
		Dir: "testdata",
		Setup: func(e *testscript.Env) error {
			name := regexp.MustCompile(`[a-z]+`).FindString(e.WorkDir[strings.LastIndexByte(e.WorkDir, '/')+1+len("script-"):])
			owner := s.SignIn(t, name+"@example.com", "Org of "+name, "owner")
			s.SignIn(t, name+"-member@example.com", "Org of "+name, "member")
			for name, value := range map[string]string{
				"SERVER": s.URL, "TOKEN": owner.Token, "ORG": owner.Org, "USER_ID": owner.User, "NAME": name,
				"COLLAB_CONFIG_DIR": e.WorkDir + "/config", "TZ": "UTC", "TOOLS": tools.HTTP(),
			} {
				e.Setenv(name, value)
			}
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"exits": exits, "interrupts": interrupts, "signin": signIn, "authorizes": authorizes},
	})
}

func exits(ts *testscript.TestScript, _ bool, args []string) {
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	var failed *exec.ExitError
	if err := ts.Exec(args[1], args[2:]...); errors.As(err, &failed) {
		got = failed.ExitCode()
	} else {
		ts.Check(err)
	}
	if got != want {
		ts.Fatalf("%s exits with %d, want %d", strings.Join(args[1:], " "), got, want)
	}
}

func interrupts(ts *testscript.TestScript, _ bool, args []string) {
	path, err := exec.LookPath(args[0])
	ts.Check(err)
	program := exec.Command(path, args[1:]...)
	program.Env = append(os.Environ(), "COLLAB_SERVER="+ts.Getenv("SERVER"), "COLLAB_TOKEN="+ts.Getenv("TOKEN"), "COLLAB_CONFIG_DIR="+ts.Getenv("COLLAB_CONFIG_DIR"))
	stdout, err := program.StdoutPipe()
	ts.Check(err)
	ts.Check(program.Start())
	_, err = stdout.Read(make([]byte, 1))
	ts.Check(err)
	ts.Check(program.Process.Signal(os.Interrupt))
	rest, err := io.ReadAll(stdout)
	ts.Check(err)
	if _ = program.Wait(); program.ProcessState.ExitCode() != 130 {
		ts.Fatalf("%s ends with %v after %q", strings.Join(args, " "), program.ProcessState, rest)
	}
}

var (
	opened = regexp.MustCompile(`https?://\S+`)
	field  = regexp.MustCompile(`<input [^>]*name="(\w+)" value="([^"]*)"`)
)

func signIn(ts *testscript.TestScript, _ bool, args []string) {
	withBrowser(ts, func(address string) error { return browse(address, args[0], args[1]) }, "", "login", args[2])
}

// authorizes follows the address that the program prints to the authorization server, allows what it asks
// for and returns to the server.
func authorizes(ts *testscript.TestScript, _ bool, args []string) {
	withBrowser(ts, func(address string) error {
		jar, err := cookiejar.New(nil)
		if err != nil {
			return err
		}
		browser := http.Client{Jar: jar}
		page, err := browser.Get(address)
		for range 2 { // the server's page, and that of the authorization server
			if err == nil {
				var text string
				page, text, err = submit(&browser, page, url.Values{})
				page.Body = io.NopCloser(strings.NewReader(text))
			}
		}
		return err
	}, ts.Getenv("TOKEN"), "connectors", "authorize", args[0])
}

// withBrowser runs the program, with a token if it is not empty, and passes the address that it prints to
// follow, after which the program ends without an error.
func withBrowser(ts *testscript.TestScript, follow func(address string) error, token string, args ...string) {
	path, err := exec.LookPath("collab")
	ts.Check(err)
	program := exec.Command(path, append(args, "--server", ts.Getenv("SERVER"))...)
	program.Env = append(os.Environ(), "COLLAB_CONFIG_DIR="+ts.Getenv("COLLAB_CONFIG_DIR"), "HOME="+ts.Getenv("HOME"), "COLLAB_TOKEN="+token, "CI=") // nobody is in a pipeline
	stderr, err := program.StderrPipe()
	ts.Check(err)
	ts.Check(program.Start())
	lines := bufio.NewReader(stderr)
	address := ""
	for address == "" {
		line, err := lines.ReadString('\n')
		ts.Check(err)
		address = opened.FindString(line)
	}
	rest := make(chan string, 1)
	go func() {
		text, _ := io.ReadAll(lines)
		rest <- string(text)
	}()
	ts.Check(follow(address))
	text := <-rest
	if err := program.Wait(); err != nil {
		ts.Fatalf("collab %s: %v\n%s", strings.Join(args, " "), err, text)
	}
	ts.Logf("%s", text)
}

// browse signs a new account in at the page of the development identity provider that the address leads
// to and follows it back to the program, or allows a device.
func browse(address, email, organisation string) error {
	jar, err := cookiejar.New(nil)
	if err != nil {
		return err
	}
	browser := http.Client{Jar: jar}
	page, err := browser.Get(address)
	if err != nil {
		return err
	}
	page, text, err := submit(&browser, page, url.Values{
		"account": {"new"}, "email": {email}, "name": {email}, "org": {"new"}, "orgName": {organisation}, "role": {"owner"}, "action": {"sign-in"},
	})
	if err == nil && page.Request.URL.Path == "/device" {
		page.Request.URL = page.Request.URL.ResolveReference(&url.URL{Path: "/api/v1/auth/device/decision"})
		page.Body = io.NopCloser(strings.NewReader(text))
		page, text, err = submit(&browser, page, url.Values{"decision": {"allow"}})
	}
	if end := page.Request.URL; err != nil || end.Path != "/done" && !strings.HasSuffix(end.Path, "/decision") || strings.Contains(end.RawQuery, "token") {
		return fmt.Errorf("the browser is at %s: %v\n%s", end, err, text)
	}
	return nil
}

// submit sends the form of a page, whose hidden fields it has with others, to the page's address
// and returns the page that it leads to.
func submit(browser *http.Client, page *http.Response, values url.Values) (*http.Response, string, error) {
	text, err := io.ReadAll(page.Body)
	page.Body.Close()
	if err != nil {
		return page, "", err
	}
	for _, f := range field.FindAllStringSubmatch(string(text), -1) {
		if values.Get(f[1]) == "" {
			values.Set(f[1], html.UnescapeString(f[2]))
		}
	}
	request, err := http.NewRequest(http.MethodPost, page.Request.URL.String(), strings.NewReader(values.Encode()))
	if err != nil {
		return page, "", err
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	request.Header.Set("Sec-Fetch-Site", "same-origin")
	response, err := browser.Do(request)
	if err != nil {
		return page, "", err
	}
	defer response.Body.Close()
	text, err = io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = errors.New(response.Status)
	}
	return response, string(text), err
}

func TestARefusalNamesTheFlagThatAllowsTheTool(t *testing.T) {
	for _, name := range []string{"search", "wiki.read", "a,b", `the "best" page`, "x; touch y", "it's $HOME"} {
		a, _, stderr := terminal(t, 80, map[string]string{"CI": "1"})
		must.Do((&toolbox{app: a}).authorize(t.Context(), &toolServer{label: "Wiki"}, apiclient.ToolCall{Name: name})).Or(t)
		_, hint, _ := strings.Cut(strings.TrimSuffix(stderr.String(), ")\n"), "--allow ")
		typed := must.Do(exec.Command("sh", "-c", "printf %s "+hint).Output()).Or(t)
		flags := a.chatCommand().Flags()
		must.NoError(t, flags.Set("allow", string(typed)))
		must.Equal(t, []string{name}, must.Get(flags.GetStringSlice("allow")))
	}
}
