package httpapi

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"collab/adapters/httpapi/limit"
	"collab/test/harness"
	"collab/test/must"
)

// fileOutcome is a line of the answer to a batch.
type fileOutcome struct {
	Index  int     `json:"index"`
	Status int     `json:"status"`
	File   *record `json:"file"`
	Error  *struct {
		StatusCode int    `json:"statusCode"`
		Message    string `json:"message"`
		Error      string `json:"error"`
	} `json:"error"`
}

// batch sends a batch of the lines.
func (o *fileServer) batch(lines []string, headers ...string) *httptest.ResponseRecorder {
	r := request(http.MethodPost, "/batch", strings.NewReader(strings.Join(lines, "\n")), headers...)
	r.Header.Set("Content-Type", "application/x-ndjson")
	return send(o, r)
}

// outcomes reads the answer to a batch.
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

// puts are operations that make files.
func puts(from, to int) (lines []string) {
	for i := from; i < to; i++ {
		lines = append(lines, fmt.Sprintf(`{"op":"put","path":"many/%04d.md","content":"content \u0023%d\n"}`, i, i))
	}
	return lines
}

func TestABatchHasABoundedNumberOfOperations(t *testing.T) {
	o := newFileServer(t)
	for _, headers := range [][]string{nil, {"Idempotency-Key: many"}} {
		if w := o.batch(append(puts(0, 1001), "", " "), headers...); w.Code != http.StatusRequestEntityTooLarge {
			t.Errorf("%d %.300s", w.Code, w.Body)
		}
	}
	all := outcomes(t, o.batch(append([]string{"", "\t"}, puts(0, 1000)...)))
	if len(all) != 1000 {
		t.Fatalf("%d outcomes", len(all))
	}
	for i, of := range all {
		if of.Status != http.StatusCreated || of.File.Path != fmt.Sprintf("many/%04d.md", i) || of.File.Checksum != checksum(fmt.Sprintf("content #%d\n", i)) {
			t.Fatalf("operation %d: %+v", i, of)
		}
	}
	must.Is(t, "content #999\n", o.content(t, all[999].File.ID))
}

func TestAFailureOfTheStoreEndsABatch(t *testing.T) {
	for about, c := range map[string]struct {
		call  string
		after int // how many of the calls succeed
		fault harness.Fault
		want  int // operations that are carried out; -1: the whole request fails
	}{
		"the first transaction":  {"Atomic", 0, harness.Refused, -1},
		"the first contents":     {"Blobs.Put", 0, harness.Refused, -1},
		"the second transaction": {"Atomic", 1, harness.Refused, 500},
		"later contents":         {"Blobs.Put", 510, harness.Refused, 500},
		"the last announcement":  {"ObjectSets.Announce", 1, harness.Refused, 500},
	} {
		t.Run(about, func(t *testing.T) {
			o := newFileServer(t)
			undisturbed := newFileServer(t)
			undisturbed.core.Faults.Reset(-1, "")
			outcomes(t, undisturbed.batch(puts(0, 600)))
			at, seen := -1, 0
			for i, call := range undisturbed.core.Faults.Calls() {
				if call == c.call {
					if seen == c.after {
						at = i
						break
					}
					seen++
				}
			}
			o.core.Faults.Reset(at, c.fault)
			w := o.batch(puts(0, 600), "Idempotency-Key: once")
			o.core.Faults.Reset(-1, "")
			if c.want < 0 {
				if w.Code != http.StatusServiceUnavailable {
					t.Errorf("%d %.300s", w.Code, w.Body)
				}
			} else {
				for i, of := range outcomes(t, w) {
					if want := map[bool]int{true: http.StatusCreated, false: http.StatusServiceUnavailable}[i < c.want]; of.Status != want {
						t.Fatalf("operation %d: %+v", i, of)
					}
				}
			}
			if files := read[[]record](t, o.get("/files"), http.StatusOK); len(files) != max(0, c.want) {
				t.Errorf("%d files are stored", len(files))
			}
			if names, _, err := o.core.Store.Storage().Announced(t.Context(), o.actor(t, "ada").Org); names != 0 || err != nil {
				t.Errorf("%d names are announced, %v", names, err)
			}
			w = o.batch(puts(0, 600), "Idempotency-Key: once")
			all := outcomes(t, w)
			if c.want < 0 && (all[0].Status != http.StatusCreated || all[599].Status != http.StatusCreated) || c.want > 0 && w.Header().Get("Idempotent-Replayed") != "true" {
				t.Errorf("repeated: %+v, %v", all[0], w.Header())
			}
		})
	}
}

func TestABatchIsChargedToTheBudgetsAndTheRate(t *testing.T) {
	o := newFileServer(t)
	o.Budgets.Callers = 16 << 20
	o.budgets = newBudgets(o.Budgets)
	o.callers = limit.NewRateLimiter("caller", limit.Rate{Count: 20, Per: 3600e9}, o.Now)
	outcomes(t, o.batch(puts(0, 1000)))
	if w := send(o, request(http.MethodPost, "/move", strings.NewReader(`{"from":"many","to":"all"}`), "Content-Type: application/json")); w.Code != http.StatusOK {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	ada := o.actor(t, "ada")
	left := 0
	for o.callers.Take(&call{w: httptest.NewRecorder()}, string(ada.User)) == nil {
		left++
	}
	if left != 2 { // the requests themselves were admitted elsewhere
		t.Errorf("%d requests are left", left)
	}
	long := fmt.Sprintf(`{"op":"put","path":"long","content":"%s"}`, strings.Repeat(`\u0001`, 1<<20))
	whole := fmt.Sprintf(`{"op":"put","path":"whole","content":"%s"}`, strings.Repeat("x", 1<<20))
	fields := `{"op":"put","path":"fields","content":""`
	for i := range 70 {
		fields += fmt.Sprintf(`,"%d":{"nested":0}`, i)
	}
	all := outcomes(t, o.batch([]string{long, whole, whole[:len(whole)-2] + `x"}`, puts(2000, 2001)[0], fields + "}"}))
	if len(all) != 5 || all[4].Status != http.StatusBadRequest || !strings.Contains(all[4].Error.Message, "more than 64 fields") || all[0].Status != http.StatusRequestEntityTooLarge || all[1].Status != http.StatusCreated || all[2].Status != http.StatusRequestEntityTooLarge || all[3].Status != http.StatusCreated {
		t.Errorf("%+v", all)
	}
	must.Is(t, 0, o.budgets.callers.Used())
	if !o.budgets.callers.Take("others", 8<<20) {
		t.Fatal("the budget is used")
	}
	if w := o.batch([]string{whole, whole, whole, whole, whole}); w.Code != http.StatusServiceUnavailable {
		t.Errorf("%d %.300s", w.Code, w.Body)
	}
}
