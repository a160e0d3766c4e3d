package main

import (
	"bufio"
	"errors"
	"fmt"
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

	"collab/test/collabd"
	"collab/test/toolserver"
)

// tests runs the tests, or is the server.
type tests struct{ *testing.M }

func (t tests) Run() int { return collabd.Run(t.M) }

func TestMain(m *testing.M) {
	testscript.Main(tests{m}, map[string]func(){"collab": main})
}

// TestScripts runs the scripts of testdata, in which the program talks to a server. Each has an organisation of its own, whose
// owner's token is in $TOKEN. Beside testscript's commands they have:
//
//	exits CODE PROGRAM ARGUMENT…   runs a program that ends with that code
//	interrupts PROGRAM ARGUMENT…   interrupts a program once it prints something; it ends with 130
//	signin EMAIL ORGANISATION FLAG runs collab login with --no-browser or --device, and is the browser
func TestScripts(t *testing.T) {
	catalog := filepath.Join(t.TempDir(), "catalog.json")
	if err := os.WriteFile(catalog, []byte(`{"builtIn": true, "providers": [{
		"serverId": "wiki", "displayName": "Wiki", "description": "Pages.", "authMode": "API_KEY", "mcpTransport": "HTTP",
		"credentials": [{"name": "apiKey", "label": "API key"}], "headers": {"Authorization": "Bearer {apiKey}"}}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	s := collabd.Start(t, "COLLAB_ADMIN_SECRET=operator", "COLLAB_CONNECTORS_FILE="+catalog, "COLLAB_CONNECTOR_NETWORKS=127.0.0.0/8")
	tools := toolserver.Start(t)
	tools.RequireBearer(func(token string) bool { return token == "key" })
	testscript.Run(t, testscript.Params{
		Dir: "testdata",
		Setup: func(e *testscript.Env) error {
			name := regexp.MustCompile(`[a-z]+`).FindString(e.WorkDir[strings.LastIndexByte(e.WorkDir, '/')+1+len("script-"):])
			owner := s.SignIn(t, name+"@example.com", "Org of "+name, "owner")
			for name, value := range map[string]string{
				"SERVER": s.URL, "TOKEN": owner.Token, "ORG": owner.Org, "USER_ID": owner.User, "NAME": name,
				"COLLAB_CONFIG_DIR": e.WorkDir + "/config", "TZ": "UTC", "TOOLS": tools.HTTP(),
			} {
				e.Setenv(name, value)
			}
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"exits": exits, "interrupts": interrupts, "signin": signIn},
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
	field  = regexp.MustCompile(`name="(\w+)" value="([^"]*)"`)
)

// signIn follows the address that the program prints through the development identity provider
// back to the program.
func signIn(ts *testscript.TestScript, _ bool, args []string) {
	path, err := exec.LookPath("collab")
	ts.Check(err)
	login := exec.Command(path, "login", args[2], "--server", ts.Getenv("SERVER"))
	login.Env = append(os.Environ(), "COLLAB_CONFIG_DIR="+ts.Getenv("COLLAB_CONFIG_DIR"), "HOME="+ts.Getenv("HOME"), "CI=") // in a pipeline nobody signs in
	stderr, err := login.StderrPipe()
	ts.Check(err)
	ts.Check(login.Start())
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
	ts.Check(browse(address, args[0], args[1]))
	text := <-rest
	if err := login.Wait(); err != nil {
		ts.Fatalf("collab login: %v\n%s", err, text)
	}
	ts.Logf("%s", text)
}

// browse signs a new account in at the page that the address leads to, and allows a device.
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
			values.Set(f[1], f[2])
		}
	}
	request, err := http.NewRequest(http.MethodPost, page.Request.URL.String(), strings.NewReader(values.Encode()))
	if err != nil {
		return page, "", err
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	request.Header.Set("Sec-Fetch-Site", "same-origin")
	answer, err := browser.Do(request)
	if err != nil {
		return page, "", err
	}
	defer answer.Body.Close()
	text, err = io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = errors.New(answer.Status)
	}
	return answer, string(text), err
}
