// Package demo tests collabd demo as its user meets it.
package demo

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"collab/test/collabd"
	"collab/test/must"
	"collab/test/tempdir"
)

func TestMain(m *testing.M) { os.Exit(collabd.Run(m)) }

func TestADemoIsMadeOnceAndWhole(t *testing.T) {
	data := filepath.Join(tempdir.New(t), "data")
	place, incomplete := filepath.Join(data, "demo"), filepath.Join(data, "demo.incomplete")

	if ended := interrupted(t, data, syscall.SIGKILL); ended == nil || exists(place) || !exists(incomplete) {
		t.Errorf("killed: %v, complete %v, incomplete %v", ended, exists(place), exists(incomplete))
	}
	if ended := interrupted(t, data, syscall.SIGTERM); ended == nil || exists(place) || exists(incomplete) {
		t.Errorf("ended: %v, complete %v, incomplete %v", ended, exists(place), exists(incomplete))
	}

	began := time.Now()
	s := collabd.StartProgram(t, collabd.Program("demo"), "COLLAB_DATA_DIR="+data)
	if exists(incomplete) {
		t.Error("the incomplete directory is there")
	}
	ada := s.SignIn(t, "ada@larkspur.example", "Larkspur Instruments", "")
	t.Run("tasks", func(t *testing.T) { checkTasks(t, ada, began) })
	t.Run("people", func(t *testing.T) { checkPeople(t, s, ada) })
	t.Run("files", func(t *testing.T) { checkFiles(t, ada) })
	t.Run("usage", func(t *testing.T) { checkUsage(t, ada, began) })
	t.Run("releases", func(t *testing.T) { checkReleases(t, ada) })

	if out, err := command(t, data).CombinedOutput(); err == nil || !strings.Contains(string(out), "another collabd demo runs on "+data) {
		t.Errorf("a second one beside it: %v\n%s", err, out)
	}
	before := body(t, ada, "/tasks")
	s.Stop(t)
	must.NoError(t, s.Restart())
	if !bytes.Equal(body(t, ada, "/tasks"), before) {
		t.Error("the tasks are others after another start")
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// command returns a process that makes a demo on a free port.
func command(t *testing.T, data string) *exec.Cmd {
	t.Helper()
	c := must.Do(collabd.Program("demo")()).Or(t)
	c.Env = []string{"COLLAB_DATA_DIR=" + data, "COLLAB_LISTEN=127.0.0.1:0"}
	return c
}

// interrupted makes a demo, sends it the signal after ten days, and returns how it ended.
func interrupted(t *testing.T, data string, signal os.Signal) error {
	t.Helper()
	c := command(t, data)
	out := must.Do(c.StdoutPipe()).Or(t)
	var log bytes.Buffer
	c.Stderr = &log
	must.NoError(t, c.Start())
	lines := bufio.NewScanner(out)
	for lines.Scan() && !strings.Contains(lines.Text(), "day 10 of 30") {
	}
	if err := c.Process.Signal(signal); err != nil {
		t.Fatalf("%v\n%s", err, &log)
	}
	for lines.Scan() {
		if strings.Contains(lines.Text(), "is running") {
			t.Error("it was complete before it was interrupted")
		}
	}
	return c.Wait()
}

func body(t *testing.T, c collabd.Client, path string) []byte {
	t.Helper()
	status, text, err := c.Do("GET", path, nil)
	if err != nil || status != 200 {
		t.Fatalf("GET %s: %d, %v: %s", path, status, err, text)
	}
	return text
}

func list[T any](t *testing.T, c collabd.Client, path string) (all []T) {
	t.Helper()
	c.Must(t, 200, "GET", path, nil, &all)
	return all
}

func checkTasks(t *testing.T, ada collabd.Client, began time.Time) {
	type task struct {
		ID, Title, Status, Priority      string
		AssigneeID, WorkspaceID, DueDate *string
		Tags                             []string
		CreatedAt, UpdatedAt             time.Time
	}
	all := list[task](t, ada, "/tasks")
	by, assigned, due, changed := map[string]int{}, 0, 0, 0
	oldest := began
	for _, k := range all {
		by[k.Status]++
		by[k.Priority]++
		if k.AssigneeID != nil {
			assigned++
		}
		if k.DueDate != nil {
			due++
		}
		if len(k.Tags) == 0 || k.WorkspaceID == nil || k.UpdatedAt.After(time.Now()) {
			t.Errorf("%+v", k)
		}
		if k.CreatedAt.Before(oldest) {
			oldest = k.CreatedAt
		}
		if k.Status == "DONE" {
			changed = len(list[struct{ ID string }](t, ada, "/tasks/"+k.ID+"/history"))
		}
	}
	if len(all) != 200 || assigned < 100 || due < 100 || changed < 2 {
		t.Errorf("%d tasks, %d assigned, %d due, %d changes of the last one that is done", len(all), assigned, due, changed)
	}
	for _, value := range []string{"TODO", "IN_PROGRESS", "DONE", "CANCELLED", "LOW", "MEDIUM", "HIGH", "URGENT"} {
		if by[value] == 0 {
			t.Errorf("none is %s", value)
		}
	}
	if age := began.Sub(oldest); age < 20*24*time.Hour || age > 31*24*time.Hour {
		t.Errorf("the oldest is %v old", age)
	}
}

func checkPeople(t *testing.T, s *collabd.Server, ada collabd.Client) {
	roles := map[string]int{}
	for _, m := range list[struct{ Role string }](t, ada, "/org/members") {
		roles[m.Role]++
	}
	if roles["OWNER"] != 1 || roles["ADMIN"] != 2 || roles["MEMBER"] != 6 || roles["VIEWER"] != 1 {
		t.Errorf("%v", roles)
	}
	must.Is(t, 1, len(list[struct{ ID string }](t, ada, "/org/invites")))
	type named struct{ Name string }
	must.Is(t, "[{Engineering} {Product} {Customer care}]", fmt.Sprint(list[named](t, ada, "/teams")))
	must.Is(t, "[{Station firmware} {Cloud platform} {Weather Station 3} {Companion app} {Help centre}]", fmt.Sprint(list[named](t, ada, "/workspaces")))
	// Members see their teams' work alone, and have no other role after another sign-in.
	lucas := s.SignIn(t, "lucas@larkspur.example", "Larkspur Instruments", "")
	if places := list[struct{ ID string }](t, lucas, "/workspaces"); len(places) != 2 {
		t.Errorf("a viewer sees %d workspaces", len(places))
	}
	lucas.Must(t, 403, "POST", "/tasks", map[string]string{"title": "x"}, nil)
}

func checkFiles(t *testing.T, ada collabd.Client) {
	type file struct {
		ID, Path, MimeType string
		Version            int
	}
	kinds, versions := map[string]int{}, 0
	for _, f := range list[file](t, ada, "/sync/files") {
		kinds[filepath.Ext(f.Path)]++
		if f.Version < 2 {
			continue
		}
		earlier := list[struct{ Version int }](t, ada, "/sync/files/"+f.ID+"/versions")
		versions += len(earlier)
	}
	for _, ending := range []string{".md", ".txt", ".csv", ".png"} {
		if kinds[ending] == 0 {
			t.Errorf("no file is %s", ending)
		}
	}
	if versions < 20 {
		t.Errorf("%d earlier versions", versions)
	}
	must.Is(t, 1, len(list[file](t, ada, "/sync/files?deleted=true")))
	var memory struct{ Version int }
	ada.Must(t, 200, "GET", "/sync/memory/org", nil, &memory)
	if memory.Version != 2 {
		t.Errorf("version %d of the organisation's memory", memory.Version)
	}
}

func checkUsage(t *testing.T, ada collabd.Client, began time.Time) {
	days := map[string]int64{}
	for _, d := range list[struct {
		Date        string
		TotalTokens int64
	}](t, ada, "/metering/daily") {
		days[d.Date] += d.TotalTokens
	}
	today := days[began.UTC().Format(time.DateOnly)] + days[time.Now().UTC().Format(time.DateOnly)] // midnight may be between
	if len(days) < 25 || today == 0 {
		t.Errorf("%d days have usage, today %d tokens", len(days), today)
	}
	var billing struct{ Plan, Status string }
	ada.Must(t, 200, "GET", "/billing/subscription", nil, &billing)
	if billing.Plan != "PREMIUM" || billing.Status != "ACTIVE" {
		t.Errorf("%+v", billing)
	}
}

func checkReleases(t *testing.T, ada collabd.Client) {
	type release struct {
		ID, Version       string
		RolloutPercentage int
		PausedAt          *time.Time
	}
	all := list[release](t, ada, "/updates/releases")
	if len(all) != 9 || all[0].RolloutPercentage == 0 || all[0].RolloutPercentage == 100 || all[0].PausedAt != nil {
		t.Errorf("%+v", all)
	}
	succeeded, failed := int64(0), int64(0)
	for _, r := range all {
		for _, hour := range list[struct{ Succeeded, Failed int64 }](t, ada, "/updates/releases/"+r.ID+"/reports") {
			succeeded, failed = succeeded+hour.Succeeded, failed+hour.Failed
		}
	}
	if succeeded < 50 || failed == 0 || failed > succeeded/5 {
		t.Errorf("%d installations succeeded, %d failed", succeeded, failed)
	}
	days, versions := map[string]bool{}, map[string]bool{}
	for _, n := range list[struct{ Day, Version string }](t, ada, "/updates/adoption") {
		days[n.Day], versions[n.Version] = true, true
	}
	if len(days) != 28 || len(versions) != 4 {
		t.Errorf("checks on %d days by %d versions", len(days), len(versions))
	}
}
