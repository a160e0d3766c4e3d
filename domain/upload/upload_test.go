package upload

import (
	"testing"
	"time"

	"collab/domain/fault"
	"collab/test/must"
)

func TestCheckAppend(t *testing.T) {
	const size = 10 << 20
	now := time.UnixMilli(0)
	open := New(Upload{Size: size}, now)
	open.Offset = 4 << 20
	whole := open
	whole.Offset = size
	completed := must.Do(whole.Complete()).Or(t)
	for about, row := range map[string]struct {
		u      Upload
		offset int64
		length int64
		last   bool
		want   fault.Kind // Internal: none
	}{
		"at the offset":                 {open, 4 << 20, MinAppend, false, fault.Internal},
		"of unknown length":             {open, 4 << 20, -1, true, fault.Internal},
		"of nothing":                    {open, 4 << 20, 0, false, fault.Internal},
		"of the rest":                   {open, 4 << 20, 6 << 20, false, fault.Internal},
		"of the rest as the end":        {open, 4 << 20, 6 << 20, true, fault.Internal},
		"of nothing as the end":         {whole, size, 0, true, fault.Internal},
		"before the offset":             {open, 3 << 20, MinAppend, false, fault.Conflict},
		"after the offset":              {open, 5 << 20, MinAppend, false, fault.Conflict},
		"of too little":                 {open, 4 << 20, MinAppend - 1, false, fault.Invalid},
		"of too much":                   {open, 4 << 20, 6<<20 + 1, false, fault.Invalid},
		"of too little as the end":      {open, 4 << 20, 5 << 20, true, fault.Invalid},
		"to an upload that is complete": {completed, size, 0, true, fault.Conflict},
	} {
		t.Run(about, func(t *testing.T) {
			err := row.u.CheckAppend(row.offset, row.length, row.last, MinAppend)
			if (err == nil) != (row.want == fault.Internal) || err != nil && !fault.Is(err, row.want) {
				t.Error(err)
			}
		})
	}
}

func TestAnUploadIsCompletedOrCancelledOnce(t *testing.T) {
	now := time.UnixMilli(0)
	half := New(Upload{Size: 1}, now)
	must.Fail(t, must.ErrorOf(half.Complete()), fault.Conflict) // half of it
	u := New(Upload{}, now)
	if u.Exists(now.Add(firstPart)) {
		t.Error("without a part it exists after a day")
	}
	u = u.Appended(0)
	completed, err := u.Complete()
	if err != nil || completed.Status() != Completed || !completed.Exists(now.Add(Lifetime-1)) || completed.Exists(now.Add(Lifetime)) {
		t.Errorf("completed it is %+v, %v", completed, err)
	}
	cancelled, err := u.Cancel(now)
	if err != nil || cancelled.Exists(now) {
		t.Errorf("cancelled it is %+v, %v", cancelled, err)
	}
	for _, ended := range []Upload{completed, cancelled} {
		if _, err := ended.Complete(); !fault.Is(err, fault.Conflict) {
			t.Errorf("%s is completed: %v", ended.status, err)
		}
		if _, err := ended.Cancel(now); !fault.Is(err, fault.Conflict) {
			t.Errorf("%s is cancelled: %v", ended.status, err)
		}
	}
}
