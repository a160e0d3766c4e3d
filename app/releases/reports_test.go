package releases_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"collab/domain/audit"
	"collab/domain/patch"
	"collab/domain/release"
	"collab/test/directory"
	"collab/test/must"
)

func TestARolloutWhoseInstallationsFailIsPausedOnEveryServer(t *testing.T) {
	w := newFixture(t)
	one, two := w.server(), w.server()
	d := draft("1.0.0")
	d.Guard = release.GuardPatch{FailureLimit: patch.Value(10), FailureMinimum: patch.Value(20)}
	made := must.Do(one.Publish(t.Context(), w.ada, d)).Or(w)
	w.Must(two.Refresh(t.Context()))
	network := 0
	report := func(s *server, failed bool) {
		network++
		s.Report(mac, made.Version, failed, fmt.Sprint("net-", network))
	}
	flush := func() {
		w.Must(one.FlushCounts(t.Context()))
		w.Must(two.FlushCounts(t.Context()))
		w.Must(one.Refresh(t.Context()))
		w.Must(two.Refresh(t.Context()))
	}
	for range 9 {
		report(one, false)
		report(two, false)
	}
	report(one, true)
	flush()
	if got := w.offered(two); got != "1.0.0" {
		t.Fatalf("with 1 failure of 19 %q is offered", got)
	}
	report(two, true)
	flush()
	if got := w.offered(two); got != "1.0.0" {
		t.Fatalf("with 2 failures of 20, which is the limit, %q is offered", got)
	}
	report(two, true)
	w.store.unread.Store(true)
	must.FailIs(t, two.FlushCounts(t.Context()), errDown) // without releases
	w.store.unread.Store(false)
	flush()
	if one, two := w.offered(one), w.offered(two); one != "" || two != "" {
		t.Fatalf("with 3 failures of 21 %q and %q are offered", one, two)
	}
	if all := directory.AuditLog(t, w.store, w.org); len(all) != 2 || all[0].Action != audit.ReleasePaused || all[0].Actor != "" || !strings.Contains(all[0].Detail, "3 of 21") {
		t.Errorf("the audit log has %+v", all)
	}
	if !strings.Contains(w.log.String(), "rollout paused") {
		t.Errorf("the log has %q", w.log.String())
	}
	w.clock.Advance(time.Hour)
	report(one, true)
	flush()
	got, err := one.Reports(t.Context(), w.ada, made.ID, time.Time{}, 0)
	if err != nil || len(got) != 2 || got[0].Outcomes != (release.Outcomes{Succeeded: 18, Failed: 3}) || got[1].Outcomes != (release.Outcomes{Failed: 1}) {
		t.Errorf("the reports are %+v, %v", got, err)
	}

	// Resumed, it counts anew.
	must.Do(two.Change(t.Context(), w.ada, made.ID, release.Patch{GuardPatch: release.GuardPatch{Paused: patch.Value(false)}})).Or(w)
	for range 19 {
		report(two, true)
	}
	flush()
	if got := w.offered(one); got != "1.0.0" {
		t.Fatalf("resumed, with 19 reports, %q is offered", got)
	}
	report(one, true)
	flush()
	if got := w.offered(one); got != "" {
		t.Fatalf("resumed, with 20 failures, %q is offered", got)
	}
}

func TestOneNetworkCannotPauseARollout(t *testing.T) {
	w := newFixture(t)
	s := w.server()
	d := draft("1.0.0")
	d.Guard = release.GuardPatch{FailureLimit: patch.Value(0), FailureMinimum: patch.Value(20)}
	made := must.Do(s.Publish(t.Context(), w.ada, d)).Or(w)
	older := must.Do(release.ParseVersion("0.9.0")).Or(w)
	for range 100 {
		s.Report(mac, made.Version, true, "net")
		s.Report(mac, made.Version, false, "net")
		s.Report(mac, older, true, "other")
	}
	got, err := s.Reports(t.Context(), w.ada, made.ID, time.Time{}, 0)
	if err != nil || len(got) != 1 || got[0].Outcomes != (release.Outcomes{Succeeded: 1, Failed: 1}) {
		t.Errorf("the reports are %+v, %v", got, err)
	}
	w.clock.Advance(24 * time.Hour)
	s.Report(mac, made.Version, true, "net")
	if got, err = s.Reports(t.Context(), w.ada, made.ID, time.Time{}, 0); err != nil || len(got) != 2 {
		t.Errorf("a day later the reports are %+v, %v", got, err)
	}
	if w.offered(s) != "1.0.0" {
		t.Error("the rollout is paused")
	}
	w.store.unread.Store(true)
	must.Is[error](t, errDown, must.ErrorOf(s.Reports(t.Context(), w.ada, made.ID, time.Time{}, 0)))
	must.Is[error](t, errDown, must.ErrorOf(s.Progress(t.Context(), w.ada, made.ID)))
}
