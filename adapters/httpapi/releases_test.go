package httpapi

import (
	"cmp"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"pgregory.net/rapid"

	"collab/adapters/httpapi/body"
	"collab/app/releases"
	"collab/domain/calendar"
	"collab/domain/org"
	"collab/domain/release"
	"collab/test/must"
)

const checkTarget = "/api/v1/updates/check?version=1.0.0&platform=linux&arch=x64"

func TestReadParametersMatchesParseQuery(t *testing.T) {
	part := rapid.SampledFrom([]string{
		"version", "arch", "clientId", "other", "=", "=", "&", "&", "&", "1.0.0", "+", "%20", "%2b", "%26", "%3D", "%", "%z", ";", "é", "\xff", "%ff", "v%65rsion", "",
	})
	rapid.Check(t, func(t *rapid.T) {
		query := strings.Join(rapid.SliceOfN(part, 0, 16).Draw(t, "parts"), "")
		got := map[string]*body.Parameter{"version": {}, "arch": {}, "clientId": {}}
		err := body.ReadParameters(query, func(name string) *body.Parameter { return got[name] })
		want, invalid := url.ParseQuery(query)
		repeated := false
		for name := range got {
			repeated = repeated || len(want[name]) > 1
		}
		if (err != nil) != (invalid != nil || repeated) {
			t.Fatalf("%q: %v, url.ParseQuery returns %v, %v", query, err, want, invalid)
		}
		if err != nil {
			return
		}
		for name, p := range got {
			if p.Given != want.Has(name) || p.Text != want.Get(name) {
				t.Fatalf("%q: %s is %+v, want %q", query, name, *p, want[name])
			}
		}
	})
}

func TestUpdateChecksFollowReleases(t *testing.T) {
	const changes, devices = 50, 8
	r := released(t, "2.0.0", "linux/x64", noted("0"), func(r *release.Release) { *r.FileSizeBytes = 0 })
	a, s := serveReleases(t, r)
	published := s.Snapshot().All()[0].ID
	check := func() (n int64, tag string) {
		w := send(a, get(checkTarget))
		var update struct {
			Notes string `json:"releaseNotes"`
			Size  int64  `json:"fileSizeBytes"`
		}
		if err := json.Unmarshal(w.Body.Bytes(), &update); err != nil || update.Notes != strconv.FormatInt(update.Size, 10) {
			t.Errorf("%s: %v", w.Body, err)
		}
		return update.Size, w.Header().Get("Etag")
	}
	var done atomic.Bool
	var checks sync.WaitGroup
	for range devices {
		checks.Go(func() {
			for last := int64(0); !done.Load(); {
				n, _ := check()
				if n < last {
					t.Errorf("update %d after %d", n, last)
				}
				last = n
			}
		})
	}
	tags := map[string]bool{}
	for n := int64(1); n <= changes; n++ {
		_, err := s.Store.Deployment().Releases().Update(t.Context(), published, func(r release.Release) (release.Release, error) {
			notes, size := strconv.FormatInt(n, 10), n
			r.Notes, r.FileSizeBytes = &notes, &size
			return r, nil
		})
		if err == nil {
			err = s.Refresh(t.Context())
		}
		must.NoError(t, err)
		update, tag := check()
		must.Is(t, n, update)
		tags[tag] = true
	}
	done.Store(true)
	checks.Wait()
	must.Is(t, changes, len(tags))
	if a.offers.Load().snapshot != s.Snapshot() {
		t.Error("responses of an earlier snapshot are cached")
	}
}

func TestOfferIsCachedPerSnapshot(t *testing.T) {
	a, s := serveReleases(t, released(t, "2.0.0", "linux/x64"))
	check := releases.Check{Target: release.Target{Platform: release.Linux, Arch: release.X64, Channel: release.Stable}}
	first := must.Do(a.offer(s.Offer(check))).Or(t)
	must.Is(t, first, must.Do(a.offer(s.Offer(check))).Or(t))
}

func TestDeviceIDsAreNeitherLoggedNorTraced(t *testing.T) {
	spans := tracetest.NewSpanRecorder()
	logs, b := logging(slog.LevelDebug)
	s := newReleases(t, []release.Release{released(t, "2.0.0", "linux/x64", rollout(50))})
	a := newAPI(t, logs, func(o *Options) {
		o.Releases = s
		o.Tracer = sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans)).Tracer("test")
	})
	for query, status := range map[string]int{
		"&clientId=hidden": 200, "&clientId=hidden&clientId=hidden": 400, "&clientId=hidden%ff": 400, "&clientId=hidden%zz": 400,
	} {
		w := send(a, get(checkTarget+query))
		if w.Code != status || strings.Contains(w.Body.String(), "hidden") {
			t.Errorf("%s: %d %s", query, w.Code, w.Body)
		}
	}
	checkError(t, send(a, get("/api/v1/updates/releases/x/rollout?clientIds=hidden")), 401)
	if strings.Contains(b.String(), "hidden") {
		t.Errorf("logged %s", b)
	}
	must.Is(t, 5, len(spans.Ended()))
	for _, span := range spans.Ended() {
		if text := span.Name() + fmt.Sprint(span.Attributes(), span.Events()); strings.Contains(text, "hidden") {
			t.Errorf("traced %s", text)
		}
	}
}

func TestAdoptionPages(t *testing.T) {
	s := newReleases(t, nil)
	s.AnyOrganisation = true
	var a *api
	a = serveEndpoint(t, http.MethodGet, public, func(c *call) error {
		return a.as(&org.Actor{User: body.NilID, Org: body.NilID, Role: org.Owner}, a.adoption)(c)
	}, func(o *Options) { o.Releases = s })
	var stored []release.CheckCount
	for i := range 2*body.MaxPage + 3 { // more than two reads of the store
		of := release.Target{Platform: []release.Platform{release.Darwin, release.Linux}[i%2], Arch: release.X64, Channel: release.Stable}
		stored = append(stored, release.CheckCount{Day: []calendar.Day{"2026-01-01", "2026-01-02"}[i/2%2], Target: of, Version: fmt.Sprintf("1.%d.0-rc.1", i), Checks: int64(i)})
	}
	must.NoError(t, s.Store.Deployment().Adoption().Add(t.Context(), stored))
	list := func(query string) (all []checkCountView, next string) {
		w := send(a, get("/test?from=2026-01-01&to=2026-01-02"+query))
		all = read[[]checkCountView](t, w, 200)
		if link := w.Header().Get("Link"); link != "" {
			u, err := url.Parse(link[1:strings.IndexByte(link, '>')])
			if err != nil || u.Query().Get("from") != "2026-01-01" {
				t.Fatalf("%s: %v", link, err)
			}
			next = "&cursor=" + u.Query().Get("cursor")
		}
		return all, next
	}
	whole, next := list("")
	if len(whole) != len(stored) || next != "" || !slices.IsSortedFunc(whole, func(a, b checkCountView) int {
		return cmp.Or(cmp.Compare(a.Day, b.Day), cmp.Compare(a.Platform, b.Platform), cmp.Compare(a.Version, b.Version))
	}) {
		t.Fatalf("%d tallies of %d, the next page is %q", len(whole), len(stored), next)
	}
	paged, next := list("&limit=700")
	pages := 1
	for ; next != ""; pages++ {
		var page []checkCountView
		page, next = list("&limit=700" + next)
		paged = append(paged, page...)
	}
	if pages != 3 || !slices.Equal(paged, whole) {
		t.Errorf("%d tallies of %d on %d pages", len(paged), len(whole), pages)
	}
	for _, query := range []string{"limit=0", "limit=1001", "cursor=", "cursor=x", "cursor=" + body.Position{Key: "2026-01-02/LINUX"}.Cursor(), "cursor=" + body.Position{ID: body.NilID}.Cursor()} {
		checkError(t, send(a, get("/test?"+query)), 400)
	}
}

func TestAdoptionPeriod(t *testing.T) {
	now := time.Date(2028, 3, 1, 23, 59, 59, 0, time.FixedZone("", 3600)) // 2028-03-01 in UTC, after a leap day
	for query, want := range map[string]string{
		"":                              "2028-02-01 2028-03-01   ",
		"to=2028-02-29":                 "2028-01-31 2028-02-29   ",
		"from=2028-03-01":               "2028-03-01 2028-03-01   ",
		"from=2027-01-27":               "2027-01-27 2028-03-01   ",
		"from=2027-01-26":               "from must be at most 399 days before to",
		"from=2028-03-02":               "from must not be after to",
		"from=2028-03-02&to=2028-03-02": "2028-03-02 2028-03-02   ",
		"from=2027-02-29":               "from must be a day such as 2026-01-31",
		"to=20280301":                   "to must be a day such as 2026-01-31",
		"platform=linux&channel=beta":   "2028-02-01 2028-03-01 LINUX  BETA",
		"arch=Universal":                "2028-02-01 2028-03-01  UNIVERSAL ",
		"platform=linux&arch=":          "arch must be one of x64, arm64, universal",
	} {
		values := must.Do(url.ParseQuery(query)).Or(t)
		first, last, of, err := readReport(body.Query{Values: values}, now)
		got := fmt.Sprint(first, " ", last, " ", of.Platform, " ", of.Arch, " ", of.Channel)
		if err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%q is %q, want %q", query, got, want)
		}
	}
}
