package main

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"collab/adapters/apiclient"
	"collab/adapters/mirrorstate"
	rounds "collab/app/mirror"
	"collab/domain/fault"
	"collab/domain/mirror"
	"collab/test/must"
)

// TestASynchroniserWaitsForItsServerAtTheStart starts without a network, as a machine may; a refusal is final.
func TestASynchroniserWaitsForItsServerAtTheStart(t *testing.T) {
	t.Parallel()
	var requests, refusal atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if requests.Add(1) == 1 {
			w.Header().Set("Retry-After", "600") // more than a request waits for
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		w.WriteHeader(int(refusal.Load()))
		_, _ = io.WriteString(w, `{"error":"Refused"}`)
	}))
	defer server.Close()
	for i, once := range []bool{true, false, false} {
		requests.Store(0)
		refusal.Store([]int32{http.StatusUnauthorized, http.StatusUnauthorized, http.StatusForbidden}[i])
		a, _, errs := terminal(t, 80, map[string]string{"COLLAB_SERVER": server.URL, "COLLAB_TOKEN": "token"})
		args, want := []string{"sync", t.TempDir()}, exitSignIn
		if once {
			args, want = append(args, "--once"), exitFailure
		}
		if code := a.run(t.Context(), args); code != want || strings.Contains(errs.String(), "waits for the server") == once {
			t.Errorf("with --once %v it exits with %d after %q", once, code, errs)
		}
	}
}

// lockedKeyring is a keyring that asks a person to unlock it for each token, and gives none.
type lockedKeyring struct {
	safe
	asked   atomic.Int32
	refused chan struct{} // closed when the person has answered
}

func (k *lockedKeyring) Get(string) (string, error) {
	k.asked.Add(1)
	<-k.refused
	return "", errors.New("locked")
}

func TestAPersonIsNotAskedAgainAndAgainForALockedKeyring(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, _, _ := terminal(t, 80, nil)
		k := &lockedKeyring{safe: safe{secrets: map[string]string{}}, refused: make(chan struct{})}
		a.secrets = k
		must.NoError(t, a.storeAccount(account{Server: "https://s.example", OrgID: "1", Token: "secret"}, false))
		for _, lasting := range []time.Duration{time.Hour, maxStartDelay / 3} { // before and after an answer
			ctx, cancel := context.WithTimeout(t.Context(), lasting)
			defer cancel()
			if _, err := a.waitForFolder(ctx, t.TempDir(), place{}, false); !errors.Is(err, context.DeadlineExceeded) || k.asked.Load() != 1 {
				t.Errorf("within %v the person is asked %d times: %v", lasting, k.asked.Load(), err)
			}
			if lasting == time.Hour {
				close(k.refused)
			}
		}
	})
}

func TestWhatFailsForNowAtTheStartIsTriedAgain(t *testing.T) {
	for err, want := range map[error]bool{
		errKeyring: true, usage("no"): false, context.Canceled: false, nil: false,
		&apiclient.Error{Status: http.StatusBadGateway, Code: "Bad Gateway"}: true, &apiclient.Error{Status: http.StatusTooManyRequests, Code: "Too Many Requests"}: true,
		&apiclient.Error{Status: http.StatusNotFound, Code: "Not Found"}: false,
	} {
		if got := isTemporary(err); got != want {
			t.Errorf("%v: %v", err, got)
		}
	}
	untrusted := httptest.NewUnstartedServer(nil)
	untrusted.Config.ErrorLog = log.New(io.Discard, "", 0)
	untrusted.StartTLS()
	defer untrusted.Close()
	var status atomic.Int32
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if status.Load() == 0 {
			panic(http.ErrAbortHandler)
		}
		w.WriteHeader(int(status.Load()))
		_, _ = io.WriteString(w, "<html>")
	}))
	defer other.Close()
	for server, responses := range map[string][]int32{"http://127.0.0.1:1": {0}, untrusted.URL: {0}, other.URL: {0, 200, 302, 401, 403, 404, 503}} {
		for _, response := range responses {
			status.Store(response)
			_, err := must.Do(apiclient.New(apiclient.Config{Server: server, Token: "token", Attempts: 1})).Or(t).GetMe(t.Context())
			if !isTemporary(err) || exitCode(syncError(err)) != exitFailure {
				t.Errorf("%s, %d: %v is final", server, response, err)
			}
		}
	}
}

func TestAStopSaysWhatWasNotMadeAndWhatCannotBeWrittenOnce(t *testing.T) {
	gone := must.Do(os.OpenRoot(t.TempDir())).Or(t)
	must.NoError(t, gone.Close())
	a, _, errs := terminal(t, 80, nil)
	s := &syncedDir{app: a, dir: "d", files: gone, log: mirrorstate.Log{Directory: gone}, unwritten: map[string]bool{}}
	deletion, upload := mirror.Step{Action: mirror.Delete}, mirror.Step{Action: mirror.Upload}
	for guard, pending := range map[string][]mirror.Step{"1": {deletion}, "2": {deletion, upload}} {
		errs.Reset()
		for range 2 {
			s.recordRound(rounds.Outcome{Guard: guard, Pending: pending}, nil)
		}
		want := map[string]string{"1": " 1 deletions were not made.", "2": " 2 changes were not made."}[guard]
		if text := errs.String(); strings.Count(text, want) != 1 {
			t.Errorf("with %d steps it says %q", len(pending), text)
		}
	}
	s.recordRound(rounds.Outcome{Guard: "3"}, nil)
	for _, what := range []string{"log", "status"} {
		if text := errs.String(); strings.Contains(text, "the "+what+" of d was not written") {
			t.Errorf("it repeats %q", text)
		}
	}
}

func TestDeletionsAreAcceptedForAProcessThatTakesIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, _, errs := terminal(t, 80, nil)
		dir := t.TempDir()
		must.NoError(t, os.Mkdir(filepath.Join(dir, mirror.StateDirectory), 0o700))
		files := must.Do(mirrorstate.OpenDirectory(dir)).Or(t)
		defer files.Close()
		s := &syncedDir{app: a, dir: dir, files: files, log: mirrorstate.Log{Directory: files}, unwritten: map[string]bool{}, mirror: rounds.New(rounds.Options{})}
		defer s.log.Close()
		locked := errors.New("another process")
		must.FailIs(t, a.acceptElsewhere(t.Context(), dir, locked), locked)
		must.FailIs(t, must.ErrorOf(files.Lstat(acceptedName)), fs.ErrNotExist)
		s.recordRound(rounds.Outcome{Guard: "stopped"}, nil)
		go func() {
			time.Sleep(time.Second)
			s.takeRequests()
		}()
		must.NoError(t, a.acceptElsewhere(t.Context(), dir, locked))
		synctest.Wait() // for takeRequests, which has removed the file
		s.recordRound(rounds.Outcome{}, errors.New("the server is away"))
		s.recordRound(rounds.Outcome{Guard: "stopped"}, nil)
		must.Is(t, 2, strings.Count(errs.String(), "Continue with: "))
		must.NoError(t, a.pauseEach([]string{dir}, &pause{}))
		if err := a.acceptElsewhere(t.Context(), dir, locked); err == nil || !strings.HasSuffix(err.Error(), "Continue with: collab sync resume "+dir) {
			t.Error(err)
		}
	})
}

// full is a writer that cannot write.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, syscall.ENOSPC }

func TestALogThatCannotBePrintedIsAnError(t *testing.T) {
	directory := t.TempDir()
	must.NoError(t, os.Mkdir(filepath.Join(directory, mirror.StateDirectory), 0o700))
	must.NoError(t, os.WriteFile(filepath.Join(directory, mirror.StateDirectory, "log"), []byte("{}\n"), 0o600))
	for _, flags := range [][]string{nil, {"--follow"}} {
		a, _, _ := terminal(t, 80, nil)
		a.out = full{}
		must.Is(t, exitFailure, a.run(t.Context(), append([]string{"sync", "log", directory}, flags...)))
	}
}

func TestAFileThatGoesOnFailingIsPrintedOnce(t *testing.T) {
	files := must.Do(os.OpenRoot(t.TempDir())).Or(t)
	defer files.Close()
	a, out, _ := terminal(t, 80, nil)
	s := &syncedDir{app: a, dir: "d", files: files, log: mirrorstate.Log{Directory: files}, unwritten: map[string]bool{}, failing: map[string]fault.Kind{}}
	defer s.log.Close()
	fails := func(kind fault.Kind, why string) rounds.Event {
		return rounds.Event{Kind: rounds.Failed, Step: mirror.Step{Action: mirror.Delete, Path: "f"}, Problem: fault.New(kind, "%s", why)}
	}
	failed := fails(fault.Conflict, "Changed (409, request 1)")
	left := rounds.Outcome{Failed: []mirror.Held{{Path: "f"}}}
	for _, one := range []struct {
		event   rounds.Event
		outcome rounds.Outcome
		want    int // lines until then
	}{
		{failed, left, 1},
		{fails(fault.Conflict, "Changed (409, request 2)"), rounds.Outcome{Held: left.Failed}, 1},
		{failed, rounds.Outcome{}, 1}, // somebody has removed it
		{failed, left, 2},
		{fails(fault.Unavailable, "Locked"), left, 3},
		{rounds.Event{Kind: rounds.Done, Step: failed.Step}, rounds.Outcome{}, 4},
		{failed, left, 5},
	} {
		s.report(one.event)
		s.recordRound(one.outcome, nil)
		must.Is(t, one.want, strings.Count(out.String(), "\n"))
	}
}

func TestAProblemIsOverWithTheFirstRoundThatSucceeds(t *testing.T) {
	files := must.Do(os.OpenRoot(t.TempDir())).Or(t)
	defer files.Close()
	a, _, errs := terminal(t, 80, nil)
	s := &syncedDir{app: a, dir: "d", files: files, log: mirrorstate.Log{Directory: files}, unwritten: map[string]bool{}}
	defer s.log.Close()
	away := errors.New("the server is away")
	for _, one := range []struct {
		outcome             rounds.Outcome
		err                 error
		problems, recovered int // until then
	}{
		{err: away, problems: 1},
		{outcome: rounds.Outcome{Paused: true}, problems: 1},
		{err: away, problems: 1},
		{outcome: rounds.Outcome{Paused: true}, problems: 1},
		{problems: 1, recovered: 1},
		{problems: 1, recovered: 1},
	} {
		s.recordRound(one.outcome, one.err)
		must.Is(t, one.problems, strings.Count(errs.String(), away.Error()))
		must.Is(t, one.recovered, strings.Count(errs.String(), "d is synchronised again."))
	}
}

func TestTheStatusSaysUntilWhenFilesAreDelayed(t *testing.T) {
	dir := t.TempDir()
	must.NoError(t, os.Mkdir(filepath.Join(dir, mirror.StateDirectory), 0o700))
	a, out, _ := terminal(t, 80, nil)
	s := &syncedDir{app: a, dir: dir, files: must.Do(mirrorstate.OpenDirectory(dir)).Or(t), unwritten: map[string]bool{}}
	defer s.files.Close()
	due := time.Date(2026, 3, 1, 12, 0, 30, 0, time.Local)
	s.recordRound(rounds.Outcome{Delayed: []rounds.Delayed{{Path: "a", Due: due}, {Path: "b", Due: due}}}, nil)
	must.Is(t, 0, a.run(t.Context(), []string{"sync", "status", dir}))
	if !strings.Contains(out.String(), "  a until 12:00:30; b until 12:00:30\n") {
		t.Errorf("it prints %q", out)
	}
}

func TestWhatKeepsFilesIsSaidOnce(t *testing.T) {
	for _, onTerminal := range []bool{false, true} {
		files := must.Do(os.OpenRoot(t.TempDir())).Or(t)
		defer files.Close()
		a, out, errs := terminal(t, 80, nil)
		a.outTerminal, a.errTerminal = onTerminal, onTerminal
		s := &syncedDir{app: a, dir: "d", files: files, log: mirrorstate.Log{Directory: files}, unwritten: map[string]bool{}}
		defer s.log.Close()
		for want, o := range []rounds.Outcome{{}, {ReadOnly: true, Held: make([]mirror.Held, 2)}, {ReadOnly: true, Held: make([]mirror.Held, 1)}} {
			s.recordRound(o, nil)
			s.recordRound(o, nil)
			if lines := strings.Count(out.String(), "\n"); onTerminal && lines > 0 || !onTerminal && lines != want+1 {
				t.Errorf("on a terminal %v it prints %q", onTerminal, out)
			}
			readOnly, held := strings.Count(errs.String(), "you may only read"), strings.Count(errs.String(), "2 files in d are not synchronised: collab sync status d")
			if readOnly != min(want, 1) || onTerminal && held != readOnly || !onTerminal && held > 0 {
				t.Errorf("on a terminal %v it says %q", onTerminal, errs)
			}
		}
	}
}
