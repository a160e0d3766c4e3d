package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"regexp"
	"testing"
	"time"

	"collab/test/must"
)

// updates is a server that offers a release, and counts the checks.
func updates(t *testing.T, file string) (s *httptest.Server, checks *[]string) {
	t.Helper()
	checks = &[]string{}
	s = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		*checks = append(*checks, r.URL.String())
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{"updateAvailable": true, "latestVersion": "9.9.9", "downloadUrl": "https://downloads.example.com/" + file})
	}))
	t.Cleanup(s.Close)
	before := version
	version = "1.0.0"
	t.Cleanup(func() { version = before })
	return s, checks
}

func TestAnUpdateIsLookedForOnceADay(t *testing.T) {
	s, checks := updates(t, "collab_9.9.9_linux_amd64.tar.gz")
	a, out, stderr := terminal(t, 80, map[string]string{"COLLAB_SERVER": s.URL, "NO_COLOR": "1"})
	now := time.Now()
	a.now = func() time.Time { return now }
	for _, step := range []struct {
		pass time.Duration
		asks bool
	}{{0, true}, {23 * time.Hour, false}, {time.Hour, true}, {-48 * time.Hour, true}} {
		now = now.Add(step.pass)
		stderr.Reset()
		*checks = nil
		check := a.checkForUpdate(t.Context())
		if step.asks {
			must.Wait(t, "the server has answered", func() bool { return len(check.done) == 1 })
		}
		a.reportUpdate(check)
		want := ""
		if step.asks {
			want = "collab 9.9.9 is available: https://downloads.example.com/collab_9.9.9_linux_amd64.tar.gz\n"
		}
		if stderr.String() != want || out.Len() > 0 || (len(*checks) == 1) != step.asks {
			t.Errorf("after %v it says %q and has asked %q", step.pass, stderr, *checks)
		}
		for _, check := range *checks {
			if !regexp.MustCompile(`^/api/v1/updates/check\?arch=\w+&clientId=\d{1,3}&platform=\w+&version=1\.0\.0$`).MatchString(check) {
				t.Errorf("it asks %s", check)
			}
		}
	}
}

func TestAnUpdateThatWasNotReportedIsLookedForAgain(t *testing.T) {
	s, checks := updates(t, "collab_9.9.9_linux_amd64.tar.gz")
	a, _, _ := terminal(t, 80, map[string]string{"COLLAB_SERVER": s.URL})
	for range 2 { // commands that end just before the response
		<-a.checkForUpdate(t.Context()).done
	}
	must.Is(t, 2, len(*checks))
}

func TestNoUpdateIsLookedForWithoutAPerson(t *testing.T) {
	s, checks := updates(t, "collab_9.9.9_linux_amd64.tar.gz")
	for name, change := range map[string]func(*app, map[string]string){
		"a pipeline":         func(_ *app, env map[string]string) { env["CI"] = "true" },
		"a refusal":          func(_ *app, env map[string]string) { env["COLLAB_NO_UPDATE_CHECK"] = "1" },
		"a pipe":             func(a *app, _ map[string]string) { a.outTerminal = false },
		"a log of errors":    func(a *app, _ map[string]string) { a.errTerminal = false },
		"nobody signed in":   func(_ *app, env map[string]string) { delete(env, "COLLAB_SERVER") },
		"a development tree": func(*app, map[string]string) { version = "devel" },
	} {
		version = "1.0.0"
		env := map[string]string{"COLLAB_SERVER": s.URL}
		a, _, stderr := terminal(t, 80, env)
		change(a, env)
		a.reportUpdate(a.checkForUpdate(t.Context()))
		if stderr.Len() > 0 || len(*checks) > 0 {
			t.Errorf("with %s it says %q and has asked %q", name, stderr, *checks)
		}
	}
}

func TestACommandDoesNotWaitForTheResponseAboutUpdates(t *testing.T) {
	release := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	defer s.Close()
	defer close(release)
	updates(t, "")
	a, _, stderr := terminal(t, 80, map[string]string{"COLLAB_SERVER": s.URL})
	a.reportUpdate(a.checkForUpdate(t.Context()))
	if stderr.Len() > 0 {
		t.Errorf("it says %q", stderr)
	}
}

func TestReleasesOfOtherProgramsAreNoUpdates(t *testing.T) {
	s, _ := updates(t, "Collab-9.9.9-x64.AppImage")
	notice, err := newerRelease(t.Context(), s.URL, "1")
	if err != nil || notice != "" {
		t.Errorf("%q, %v", notice, err)
	}
	s.Close()
	if _, err = newerRelease(t.Context(), s.URL, "1"); err == nil {
		t.Error("a server that is gone has answered")
	}
}
