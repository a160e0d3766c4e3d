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
	"testing"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"pgregory.net/rapid"

	"collab/adapters/httpapi/body"
	"collab/app/releases"
	"collab/domain/org"
	"collab/domain/release"
	"collab/test/must"
)

const checked = "/api/v1/updates/check?version=1.0.0&platform=linux&arch=x64"

// written reads a query into its parameters as all others are read.
func written(query string, names ...string) (map[string]string, bool) {
	values, err := url.ParseQuery(query)
	if err != nil {
		return nil, false
	}
	texts := map[string]string{}
	for _, name := range names {
		if len(values[name]) > 1 {
			return nil, false
		}
		if values.Has(name) {
			texts[name] = values.Get(name)
		}
	}
	return texts, true
}

func readsAsOthers(t rapid.TB, query string) {
	t.Helper()
	names := []string{"version", "arch", "clientId"}
	all := map[string]*body.Parameter{}
	for _, name := range names {
		all[name] = &body.Parameter{}
	}
	err := body.ReadParameters(query, func(name string) *body.Parameter { return all[name] })
	want, ok := written(query, names...)
	if (err == nil) != ok {
		t.Fatalf("%q gets %v, and url.ParseQuery has %v", query, err, want)
	}
	if err != nil {
		return
	}
	for name, p := range all {
		if text, given := want[name]; p.Given != given || p.Text != text {
			t.Fatalf("%q: %s is %+v, want %q, %v", query, name, *p, text, given)
		}
	}
}

func TestReadParametersMatchesParseQuery(t *testing.T) {
	part := rapid.SampledFrom([]string{
		"version", "arch", "clientId", "other", "=", "=", "&", "&", "&", "1.0.0", "+", "%20", "%2b", "%26", "%3D", "%", "%z", ";", "é", "\xff", "%ff", "v%65rsion", "",
	})
	rapid.Check(t, func(of *rapid.T) {
		readsAsOthers(of, strings.Join(rapid.SliceOfN(part, 0, 16).Draw(of, "parts"), ""))
	})
}

func TestUpdateCheckRoundTrips(t *testing.T) {
	text := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"", `"`, "\\", "</script>\u2028", "\x00\x1f", `"}`}))
	a := built(t)
	rapid.Check(t, func(of *rapid.T) {
		r := released(t, "2.0.0-rc.1+b.5", "linux/x64", noted(text.Draw(of, "notes")), least(text.Draw(of, "minOsVersion")))
		signature, size := text.Draw(of, "signature"), rapid.Int64Range(0, 1<<40).Draw(of, "size")
		r.Signature, r.FileSizeBytes = &signature, &size
		r.Mandatory = rapid.Bool().Draw(of, "mandatory")
		if rapid.Bool().Draw(of, "bare") {
			r.SHA512, r.SHA1, r.Signature, r.FileSizeBytes, r.Notes, r.MinOSVersion = nil, nil, nil, nil, nil, nil
		}
		a.Releases = newReleases(t, []release.Release{r})
		for range 2 { // made, and remembered
			w := send(a, get(strings.Replace(checked, "1.0.0", "1.0.0-a%2Bb", 1)))
			if w.Code != http.StatusOK || w.Header().Get("Content-Length") != strconv.Itoa(w.Body.Len()) || w.Header().Get("Content-Type") != "application/json" {
				of.Fatalf("%d %v", w.Code, w.Header())
			}
			got, want := map[string]any{}, map[string]any{}
			if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
				of.Fatalf("%s: %v", w.Body, err)
			}
			view := must.Do(json.Marshal(viewOffer(&r))).Or(of)
			must.NoError(of, json.Unmarshal(view, &want))
			want["updateAvailable"], want["currentVersion"] = true, "1.0.0-a+b"
			if fmt.Sprint(got) != fmt.Sprint(want) {
				of.Fatalf("got  %v\nwant %v", got, want)
			}
			if r.Notes != nil && got["releaseNotes"] != *r.Notes {
				of.Fatalf("the notes are %q, want %q", got["releaseNotes"], *r.Notes)
			}
		}
	})
}

func TestUpdateChecksFollowReleases(t *testing.T) {
	const changes, devices = 50, 8
	r := released(t, "2.0.0", "linux/x64", noted("0"), func(r *release.Release) { *r.FileSizeBytes = 0 })
	a, s := serveReleases(t, r)
	published := s.Snapshot().All()[0].ID
	ask := func() (n int64, tag string) {
		w := send(a, get(checked))
		var update struct {
			Notes string `json:"releaseNotes"`
			Size  int64  `json:"fileSizeBytes"`
		}
		if err := json.Unmarshal(w.Body.Bytes(), &update); err != nil || update.Notes != strconv.FormatInt(update.Size, 10) {
			t.Errorf("%s: %v", w.Body, err)
		}
		return update.Size, w.Header().Get("Etag")
	}
	stop := make(chan struct{})
	var asking sync.WaitGroup
	for range devices {
		asking.Go(func() {
			last := int64(0)
			for {
				select {
				case <-stop:
					return
				default:
				}
				n, _ := ask()
				if n < last {
					t.Errorf("after %d comes %d", last, n)
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
		update, tag := ask()
		if update != n {
			t.Errorf("after change %d a device is told %d", n, update)
		}
		tags[tag] = true
	}
	close(stop)
	asking.Wait()
	if len(tags) != changes {
		t.Errorf("%d answers have %d tags", changes, len(tags))
	}
	if a.offers.Load().of != s.Snapshot() {
		t.Error("answers of a snapshot that was replaced are kept")
	}
}

func TestOfferIsCachedPerSnapshot(t *testing.T) {
	a, s := serveReleases(t, released(t, "2.0.0", "linux/x64"))
	check := releases.Check{Target: release.Target{Platform: release.Linux, Arch: release.X64, Channel: release.Stable}}
	first := must.Do(a.offer(s.Offer(check))).Or(t)
	if again, err := a.offer(s.Offer(check)); again != first {
		t.Errorf("it was made again, %v", err)
	}
}

func TestDeviceIDsAreNeitherLoggedNorTraced(t *testing.T) {
	spans := tracetest.NewSpanRecorder()
	logs, b := logging(slog.LevelDebug)
	s := newReleases(t, []release.Release{released(t, "2.0.0", "linux/x64", rollout(50))})
	a := built(t, logs, func(o *Options) {
		o.Releases = s
		o.Tracer = sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans)).Tracer("test")
	})
	for query, status := range map[string]int{
		"&clientId=hidden": 200, "&clientId=hidden&clientId=hidden": 400, "&clientId=hidden%ff": 400, "&clientId=hidden%zz": 400,
	} {
		w := send(a, get(checked+query))
		if w.Code != status || strings.Contains(w.Body.String(), "hidden") {
			t.Errorf("%s: %d %s", query, w.Code, w.Body)
		}
	}
	refused(t, send(a, get("/api/v1/updates/releases/x/rollout?clientIds=hidden")), 401)
	if len(lines(t, b)) != 0 && strings.Contains(b.String(), "hidden") {
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
	a = serving(t, http.MethodGet, public, func(c *call) error {
		return a.as(&org.Actor{User: body.NilID, Org: body.NilID, Role: org.Owner}, a.adoption)(c)
	}, func(o *Options) { o.Releases = s })
	var kept []release.Tally
	for i := range 2*body.MaxPage + 3 { // more than two parts
		of := release.Target{Platform: []release.Platform{release.Darwin, release.Linux}[i%2], Arch: release.X64, Channel: release.Stable}
		kept = append(kept, release.Tally{Day: []release.Day{"2026-01-01", "2026-01-02"}[i/2%2], Target: of, Version: fmt.Sprintf("1.%d.0-rc.1", i), Checks: int64(i)})
	}
	must.NoError(t, s.Store.Deployment().Adoption().Add(t.Context(), kept))
	read := func(query string) (all []tallyView, next string) {
		w := send(a, get("/test?from=2026-01-01&to=2026-01-02"+query))
		if err := json.Unmarshal(w.Body.Bytes(), &all); err != nil || w.Code != 200 {
			t.Fatalf("%s: %d %s, %v", query, w.Code, w.Body, err)
		}
		if link := w.Header().Get("Link"); link != "" {
			u, err := url.Parse(link[1:strings.IndexByte(link, '>')])
			if err != nil || u.Query().Get("from") != "2026-01-01" {
				t.Fatalf("%s: %v", link, err)
			}
			next = "&cursor=" + u.Query().Get("cursor")
		}
		return all, next
	}
	whole, next := read("")
	if len(whole) != len(kept) || next != "" || !slices.IsSortedFunc(whole, func(a, b tallyView) int {
		return cmp.Or(cmp.Compare(a.Day, b.Day), cmp.Compare(a.Platform, b.Platform), cmp.Compare(a.Version, b.Version))
	}) {
		t.Fatalf("the whole has %d counts, and then %q", len(whole), next)
	}
	paged, next := read("&limit=700")
	pages := 1
	for ; next != ""; pages++ {
		var part []tallyView
		part, next = read("&limit=700" + next)
		paged = append(paged, part...)
	}
	if pages != 3 || !slices.Equal(paged, whole) {
		t.Errorf("%d pages have %d counts of %d", pages, len(paged), len(whole))
	}
	for _, query := range []string{"limit=0", "limit=1001", "cursor=", "cursor=x", "cursor=" + body.Position{Key: "2026-01-02/LINUX"}.Cursor(), "cursor=" + body.Position{ID: body.NilID}.Cursor()} {
		refused(t, send(a, get("/test?"+query)), 400)
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
