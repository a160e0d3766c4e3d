package export_test

import (
	"testing"
	"time"

	"collab/domain/export"
	"collab/domain/fault"
	"collab/test/must"
)

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func at(d time.Duration) time.Time { return start.Add(d) }

func TestOneServerWorksOnAnExport(t *testing.T) {
	e := export.New("e", "o", "u", start)
	first, err := e.Claimed("one", start)
	if err != nil || first.Status(start) != export.Running || !first.IsOpen() {
		t.Fatalf("%+v, %v", first, err)
	}
	must.Fail(t, must.ErrorOf(first.Claimed("two", at(export.ClaimDuration-time.Millisecond))), fault.Conflict) // claimed while a claim lasts
	extended, err := first.Extended("one", export.Progress{Records: 7}, at(30*time.Second))
	if err != nil || extended.Records != 7 || !extended.DueAt.Equal(at(90*time.Second)) {
		t.Errorf("%+v, %v", extended, err)
	}
	second, err := first.Claimed("two", at(export.ClaimDuration))
	if err != nil || second.Attempts != 2 || second.Progress != (export.Progress{}) {
		t.Fatalf("%+v, %v", second, err)
	}
	_, extending := second.Extended("one", export.Progress{}, start)
	_, releasing := second.Released("one", start)
	_, finishing := second.Finished("one", export.Progress{}, "b", 1, start, start)
	_, failing := second.AfterFailure("one", "so", false, start)
	for i, err := range []error{extending, releasing, finishing, failing} {
		if !fault.Is(err, fault.Conflict) {
			t.Errorf("%d: the lost claim still counts: %v", i, err)
		}
	}
	withdrawn := second.Withdrawn(start)
	must.Fail(t, must.ErrorOf(withdrawn.Finished("two", export.Progress{}, "b", 1, start, start)), fault.Conflict) // its member was deleted
	done, err := second.Finished("two", export.Progress{Files: 2, Done: 2}, "b", 9, at(time.Hour), at(25*time.Hour))
	if err != nil || done.IsOpen() || done.DueAt != nil || done.Status(at(25*time.Hour-1)) != export.Ready || done.Status(at(25*time.Hour)) != export.Expired {
		t.Errorf("%+v, %v", done, err)
	}
}

func TestAFailingExportIsTriedThreeTimes(t *testing.T) {
	e, now := export.New("e", "o", "u", start), start
	for n := 1; ; n++ {
		claimed, err := e.Claimed("c", now)
		must.NoError(t, err)
		if n == 1 { // a server that stops costs no attempt
			if claimed, err = claimed.Released("c", now); err != nil || claimed.Status(now) != export.Pending {
				t.Fatal(err)
			}
			if claimed, err = claimed.Claimed("c", now); err != nil {
				t.Fatal(err)
			}
		}
		if e, err = claimed.AfterFailure("c", "so", false, now); err != nil {
			t.Fatal(err)
		}
		if e.Status(now) == export.Failed {
			if n != export.MaxAttempts || e.DueAt != nil {
				t.Errorf("it failed after %d attempts", n)
			}
			break
		}
		now = *e.DueAt
	}
	claimed, _ := export.New("e", "o", "u", start).Claimed("c", start)
	if e, err := claimed.AfterFailure("c", "so", true, start); err != nil || e.Status(start) != export.Failed || e.Error != "so" {
		t.Errorf("%+v, %v", e, err)
	}
}

func TestAnExportWhoseServersDieFailsAfterThreeClaims(t *testing.T) {
	e, now := export.New("e", "o", "u", start), start
	for range export.MaxAttempts {
		claimed, err := e.Claimed("c", now)
		if err != nil || claimed.Status(now) != export.Running {
			t.Fatalf("%+v, %v", claimed, err)
		}
		e, now = claimed, now.Add(export.ClaimDuration)
	}
	e, err := e.Claimed("c", now)
	if err != nil || e.Status(now) != export.Failed || e.DueAt != nil || e.Claim != "" || e.Attempts != export.MaxAttempts || !e.FinishedAt.Equal(now) || e.Error == "" {
		t.Errorf("%+v, %v", e, err)
	}
}

func TestAnOrganisationHasOneOpenExportAndTenADay(t *testing.T) {
	var all []export.Export
	for i := range export.MaxPerDay {
		if err := export.CheckLimit(all, at(time.Hour)); err != nil {
			t.Fatalf("%d: %v", i, err)
		}
		e := export.New("e", "o", "u", at(time.Duration(i)*time.Minute))
		must.Fail(t, export.CheckLimit(append(all, e), at(time.Hour)), fault.Conflict) // beside an open one
		all = append(all, e.Restore(export.Failed))
	}
	err := export.CheckLimit(all, at(time.Hour))
	if f, ok := err.(*fault.Error); !ok || f.Kind != fault.Limited || f.RetryAfter != 23*3600+1 {
		t.Errorf("%v", err)
	}
	must.NoError(t, export.CheckLimit(all, at(24*time.Hour))) // a day later
}
