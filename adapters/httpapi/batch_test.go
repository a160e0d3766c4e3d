package httpapi

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"collab/adapters/httpapi/limit"
	"collab/test/harness"
	"collab/test/must"
)

// fileOutcome is a line of the response to a batch.
type fileOutcome struct {
	Index  int        `json:"index"`
	Status int        `json:"status"`
	File   *record    `json:"file"`
	Error  *errorBody `json:"error"`
}

// batch sends a batch of the lines.
func (o *fileServer) batch(lines []string, headers ...string) *httptest.ResponseRecorder {
	body := strings.NewReader(strings.Join(lines, "\n"))
	return send(o, syncRequest(http.MethodPost, "/batch", body, append(headers, "Content-Type: application/x-ndjson")...))
}

// outcomes decodes the response to a batch.
func outcomes(t testing.TB, w *httptest.ResponseRecorder) (all []fileOutcome) {
	t.Helper()
	if w.Code != http.StatusOK || w.Header().Get("Content-Type") != "application/x-ndjson" {
		t.Fatalf("%d %.300s", w.Code, w.Body)
	}
	lines := bufio.NewScanner(w.Body)
	for lines.Scan() {
		var o fileOutcome
		if err := json.Unmarshal(lines.Bytes(), &o); err != nil || o.Index != len(all) || (o.Error == nil) != (o.Status < 300) || o.Error != nil && o.Error.StatusCode != o.Status {
			t.Fatalf("line %d is %s, %v", len(all), lines.Text(), err)
		}
		all = append(all, o)
	}
	return all
}

// puts returns operations that create the files from, from+1, ..., to-1.
func puts(from, to int) (lines []string) {
	for i := from; i < to; i++ {
		lines = append(lines, fmt.Sprintf(`{"op":"put","path":"many/%04d.md","content":"content \u0023%d\n"}`, i, i))
	}
	return lines
}

func TestBatchOperationLimit(t *testing.T) {
	o := newFileServer(t)
	for _, headers := range [][]string{nil, {"Idempotency-Key: many"}} {
		checkError(t, o.batch(append(puts(0, 1001), "", " "), headers...), http.StatusRequestEntityTooLarge)
	}
	all := outcomes(t, o.batch(append([]string{"", "\t"}, puts(0, 1000)...)))
	if len(all) != 1000 {
		t.Fatalf("%d outcomes", len(all))
	}
	for i, of := range all {
		if of.Status != http.StatusCreated || of.File.Path != fmt.Sprintf("many/%04d.md", i) || of.File.Checksum != harness.Checksum(fmt.Sprintf("content #%d\n", i)) {
			t.Fatalf("operation %d: %+v", i, of)
		}
	}
	must.Is(t, "content #999\n", o.content(t, all[999].File.ID))
}

func TestStoreErrorEndsBatch(t *testing.T) {
	withoutFault := newFileServer(t)
	withoutFault.core.Faults.Reset(-1, "")
	outcomes(t, withoutFault.batch(puts(0, 600)))
	calls := withoutFault.core.Faults.Calls()
	for name, test := range map[string]struct {
		call  string
		after int // the number of these calls that succeed
		want  int // the number of operations that are executed; -1: the request fails
	}{
		"first transaction":  {"Atomic", 0, -1},
		"first content":      {"Blobs.Put", 0, -1},
		"second transaction": {"Atomic", 1, 500},
		"later content":      {"Blobs.Put", 510, 500},
		"last announcement":  {"ObjectSets.Announce", 1, 500},
	} {
		t.Run(name, func(t *testing.T) {
			o := newFileServer(t)
			at, seen := -1, 0
			for i, call := range calls {
				if call == test.call {
					if seen == test.after {
						at = i
						break
					}
					seen++
				}
			}
			o.core.Faults.Reset(at, harness.Refused)
			w := o.batch(puts(0, 600), "Idempotency-Key: once")
			o.core.Faults.Reset(-1, "")
			if test.want < 0 {
				checkError(t, w, http.StatusServiceUnavailable)
			} else {
				for i, of := range outcomes(t, w) {
					if want := map[bool]int{true: http.StatusCreated, false: http.StatusServiceUnavailable}[i < test.want]; of.Status != want {
						t.Fatalf("operation %d: %+v", i, of)
					}
				}
			}
			must.Is(t, max(0, test.want), len(read[[]record](t, o.get("/files"), http.StatusOK)))
			if names, _, err := o.core.Store.Storage().Announced(t.Context(), o.actor(t, "ada").Org); names != 0 || err != nil {
				t.Errorf("%d names are announced, %v", names, err)
			}
			w = o.batch(puts(0, 600), "Idempotency-Key: once")
			all := outcomes(t, w)
			if test.want < 0 && (all[0].Status != http.StatusCreated || all[599].Status != http.StatusCreated) || test.want > 0 && w.Header().Get("Idempotent-Replayed") != "true" {
				t.Errorf("repeated: %+v, %v", all[0], w.Header())
			}
		})
	}
}

// limitCallers sets the memory of callers, in bytes, and a rate of 20 requests in an hour.
func (o *fileServer) limitCallers(memory int64) {
	o.Budgets.Callers = memory
	o.budgets = newBudgets(o.Budgets)
	o.callers = limit.NewRateLimiter("caller", limit.Rate{Count: 20, Per: time.Hour}, o.Now)
}

// remaining returns the number of requests that the rate of limitCallers still allows ada. The requests of
// syncRequest are not charged, only their operations.
func (o *fileServer) remaining() (n int) {
	for o.callers.Take(&call{w: httptest.NewRecorder()}, string(o.members["ada"].User)) == nil {
		n++
	}
	return n
}

func TestBatchIsCharged(t *testing.T) {
	o := newFileServer(t)
	o.limitCallers(32 << 20)
	outcomes(t, o.batch(puts(0, 1000)))
	if w := send(o, syncRequest(http.MethodPost, "/move", strings.NewReader(`{"from":"many","to":"all"}`), "Content-Type: application/json")); w.Code != http.StatusOK {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	must.Is(t, 2, o.remaining())
	long := fmt.Sprintf(`{"op":"put","path":"long","content":"%s"}`, strings.Repeat(`\u0001`, 1<<20))
	whole := fmt.Sprintf(`{"op":"put","path":"whole","content":"%s"}`, strings.Repeat("x", 1<<20))
	fields := `{"op":"put","path":"fields","content":""`
	for i := range 70 {
		fields += fmt.Sprintf(`,"%d":{"nested":0}`, i)
	}
	all := outcomes(t, o.batch([]string{long, whole, whole[:len(whole)-2] + `x"}`, puts(2000, 2001)[0], fields + "}"}))
	var got []int
	for _, of := range all {
		got = append(got, of.Status)
	}
	must.Equal(t, []int{413, 201, 413, 201, 400}, got)
	if !strings.Contains(all[4].Error.Message, "more than 64 fields") {
		t.Errorf("%+v", all[4].Error)
	}
	must.Is(t, 0, o.budgets.callers.Used())
	if !o.budgets.callers.Take("others", 16<<20) || !o.budgets.callers.Take("more", 8<<20) {
		t.Fatal("the budget is used")
	}
	checkError(t, o.batch([]string{whole, whole, whole, whole, whole}), http.StatusServiceUnavailable)
}
