package httpapi

import (
	"cmp"
	"net/http"
	"strings"
	"sync"
	"time"

	"collab/adapters/encode"
	"collab/adapters/httpapi/body"
	"collab/adapters/httpapi/limit"
	"collab/adapters/httpapi/stream"
	"collab/app/releases"
	"collab/domain/calendar"
	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/org"
	"collab/domain/release"
)

const (
	maxClients = 100 // limit of the devices in one request for an explanation

	reportDays    = 30  // of a report by default
	maxReportDays = 400 // and at most
)

type releaseView struct {
	ID            id.Release       `json:"id"`
	Version       string           `json:"version"`
	Platform      release.Platform `json:"platform"`
	Arch          release.Arch     `json:"arch"`
	Channel       release.Channel  `json:"channel"`
	DownloadURL   string           `json:"downloadUrl"`
	SHA512        *string          `json:"sha512"`
	SHA512Base64  *string          `json:"sha512Base64"`
	SHA1          *string          `json:"sha1"`
	FileSizeBytes *int64           `json:"fileSizeBytes"`
	Notes         *string          `json:"releaseNotes"`
	MinOSVersion  *string          `json:"minOsVersion"`
	Signature     *string          `json:"signature"`
	Mandatory     bool             `json:"mandatory"`
	Rollout       int              `json:"rolloutPercentage"`
	Active        bool             `json:"active"`
	PausedAt      *jsonTime        `json:"pausedAt"`
	Halt          *outcomesView    `json:"pausedByReports"`
	Limit         *int             `json:"failureLimit"`
	Minimum       *int             `json:"failureMinimum"`
	PublishedAt   jsonTime         `json:"publishedAt"`
	UpdatedAt     jsonTime         `json:"updatedAt"`
}

type outcomesView struct {
	Succeeded int64 `json:"succeeded"`
	Failed    int64 `json:"failed"`
}

func viewRelease(r release.Release) releaseView {
	var halt *outcomesView
	if r.Halt != (release.Outcomes{}) {
		halt = new(outcomesView(r.Halt))
	}
	var minimum *int
	if r.FailureMinimum > 0 {
		minimum = &r.FailureMinimum
	}
	return releaseView{
		PausedAt: timeOrNull(r.PausedAt), Halt: halt, Limit: r.FailureLimit, Minimum: minimum, ID: r.ID,
		Version: r.Version.String(), Platform: r.Platform, Arch: r.Arch, Channel: r.Channel, DownloadURL: r.DownloadURL,
		SHA512: r.SHA512, SHA512Base64: inBase64(r.SHA512), SHA1: r.SHA1, FileSizeBytes: r.FileSizeBytes, Notes: r.Notes,
		MinOSVersion: r.MinOSVersion, Signature: r.Signature, Mandatory: r.Mandatory, Rollout: r.Rollout, Active: r.Active,
		PublishedAt: jsonTime(r.PublishedAt), UpdatedAt: jsonTime(r.UpdatedAt),
	}
}

// inBase64 returns a digest in base64, as some updaters need it.
func inBase64(digest *string) *string {
	if digest == nil {
		return nil
	}
	return new(release.Base64(*digest))
}

func positionOfRelease(r release.Release) body.Position { return body.Position{ID: string(r.ID)} }

// offerView is a release in the response to an update check, after the device's version.
type offerView struct {
	LatestVersion string          `json:"latestVersion"`
	Version       string          `json:"version"` // the same, for older clients
	Mandatory     bool            `json:"mandatory"`
	Notes         *string         `json:"releaseNotes"`
	DownloadURL   string          `json:"downloadUrl"`
	Signature     *string         `json:"signature"`
	FileSizeBytes *int64          `json:"fileSizeBytes"`
	SHA512        *string         `json:"sha512"`
	SHA512Base64  *string         `json:"sha512Base64"`
	MinOSVersion  *string         `json:"minOsVersion"`
	Channel       release.Channel `json:"channel"`
	PublishedAt   jsonTime        `json:"publishedAt"`
}

func viewOffer(r *release.Release) offerView {
	return offerView{
		LatestVersion: r.Version.String(), Version: r.Version.String(), Mandatory: r.Mandatory, Notes: r.Notes,
		DownloadURL: r.DownloadURL, Signature: r.Signature, FileSizeBytes: r.FileSizeBytes, SHA512: r.SHA512,
		SHA512Base64: inBase64(r.SHA512), MinOSVersion: r.MinOSVersion, Channel: r.Channel, PublishedAt: jsonTime(r.PublishedAt),
	}
}

// checkResponse is the response to a check without the device's version, which is in the request's
// address, so that the tag does not depend on it.
type checkResponse struct {
	before, after []byte
	tag           string
}

var noUpdate = checkResponse{before: []byte(`{"updateAvailable":false,"currentVersion":`), after: []byte("}\n"), tag: `"none"`}

var updateAvailable = []byte(`{"updateAvailable":true,"currentVersion":`)

// offers are the responses that offer releases of one snapshot. Each is encoded at its first use.
type offers struct {
	snapshot  *release.Snapshot
	responses sync.Map // *release.Release to *checkResponse
}

// offer returns the response that offers a release.
func (a *api) offer(r *release.Release) (*checkResponse, error) {
	known, now := a.offers.Load(), a.Releases.Snapshot()
	if known == nil || known.snapshot != now {
		known = &offers{snapshot: now}
		a.offers.Store(known)
	}
	if cached, ok := known.responses.Load(r); ok {
		return cached.(*checkResponse), nil
	}
	view, err := appendView(nil, viewOffer(r))
	if err != nil {
		return nil, err
	}
	view[0] = ',' // the fields follow others
	offered := &checkResponse{before: updateAvailable, tag: contentTag(view), after: append(view, '\n')}
	known.responses.Store(r, offered)
	return offered, nil
}

var cacheMinute = []string{"public, max-age=60"}

// checkForUpdate says whether there is a newer version for a device, from memory.
func (a *api) checkForUpdate(c *call) error {
	q, version, err := readCheck(c.r.URL.RawQuery)
	if err != nil {
		return err
	}
	update := &noUpdate
	if offered := a.Releases.Offer(q); offered != nil {
		if update, err = a.offer(offered); err != nil {
			return err
		}
	}
	// Small responses are part of a connection's memory.
	if size := int64(len(update.before) + len(update.after)); size > requestMemory {
		if err := c.Hold(size); err != nil {
			return err
		}
	}
	if q.Client == "" {
		c.public(cacheMinute)
	}
	if c.notModified(update.tag) {
		return nil
	}
	c.Set("Etag", update.tag)
	b := stream.GetBuffer()
	defer stream.PutBuffer(b)
	*b = append(*b, update.before...)
	*b = encode.AppendString(*b, version)
	*b = append(*b, update.after...)
	c.send(http.StatusOK, *b)
	return nil
}

// deviceQuery has the parameters of a device's query. Updaters and caches add others, which
// are ignored.
type deviceQuery struct{ version, platform, arch, channel, client body.Parameter }

// parameter returns the destination of a parameter, nil for one that is ignored.
func (d *deviceQuery) parameter(name string) *body.Parameter {
	switch name {
	case "version":
		return &d.version
	case "platform":
		return &d.platform
	case "arch":
		return &d.arch
	case "channel":
		return &d.channel
	case "clientId":
		return &d.client
	}
	return nil
}

// readAudience reads the channel, stable by default, and the device's id.
func (d *deviceQuery) readAudience(q *releases.Check) (err error) {
	q.Channel = release.Stable
	if d.channel.Given {
		if q.Channel, err = release.ParseChannel("channel", d.channel.Text); err != nil {
			return err
		}
	}
	if d.client.Given {
		q.Client, err = release.ParseClient("clientId", d.client.Text)
	}
	return err
}

// readCheck reads the query of a check, and the version as given.
func readCheck(query string) (q releases.Check, at string, err error) {
	var d deviceQuery
	if err := body.ReadParameters(query, d.parameter); err != nil {
		return q, "", err
	}
	for _, p := range []struct {
		name  string
		given bool
	}{{"version", d.version.Given}, {"platform", d.platform.Given}, {"arch", d.arch.Given}} {
		if !p.given {
			return q, "", fault.Field(p.name, "is required")
		}
	}
	if q.Version, q.Target, err = parseTarget(d.version.Text, d.platform.Text, d.arch.Text); err == nil {
		err = d.readAudience(&q)
	}
	return q, d.version.Text, err
}

// parseTarget parses a device's version, and its target without the channel.
func parseTarget(version, platform, arch string) (v release.Version, target release.Target, err error) {
	if v, err = release.ParseVersion(version); err != nil {
		return v, target, err
	}
	if target.Platform, err = release.ParsePlatform("platform", platform); err != nil {
		return v, target, err
	}
	target.Arch, err = release.ParseArch("arch", arch)
	return v, target, err
}

func (a *api) readReleaseDraft(o *body.Fields) (release.Draft, error) {
	d := release.Draft{
		Version: body.Required(o, "version", body.Text), Platform: body.Required(o, "platform", body.Text), Arch: body.Required(o, "arch", body.Text),
		Channel: body.OrZero(o, "channel", asChannel),
		Settings: release.Settings{
			DownloadURL: body.Required(o, "downloadUrl", body.Text), SHA512: body.Optional(o, "sha512", body.Text), SHA1: body.Optional(o, "sha1", body.Text),
			FileSizeBytes: body.Optional(o, "fileSizeBytes", body.Integer), Notes: body.Optional(o, "releaseNotes", body.Text),
			MinOSVersion: body.Optional(o, "minOsVersion", body.Text), Signature: body.Optional(o, "signature", body.Text),
			Mandatory: body.OrZero(o, "mandatory", body.Bool),
			Rollout:   body.OrElse(o, "rolloutPercentage", body.Count, 100),
			Active:    body.OrElse(o, "active", body.Bool, true),
		},
		Guard:       release.GuardPatch{FailureLimit: body.Field(o, "failureLimit", body.Count), FailureMinimum: body.Field(o, "failureMinimum", body.Count)},
		PublishedAt: body.Optional(o, "publishedAt", body.Instant),
	}
	return d, o.Err(func() error {
		r, err := release.New("", d, a.Releases.Hosts, time.Time{})
		if err == nil {
			_, err = r.Guarded(d.Guard, "", release.Outcomes{}, time.Time{})
		}
		return err
	})
}

// maxReleaseView is the most bytes that the view of a release has, most of which are its notes.
const maxReleaseView = 448 << 10

func (a *api) publishRelease(c *call, actor org.Actor, d release.Draft) error {
	if err := c.holdRecordMemory(maxReleaseView); err != nil {
		return err
	}
	return replyWith(c, http.StatusCreated, viewRelease)(a.Releases.Publish(c.r.Context(), actor, d))
}

// asChannel reads the name of a channel, which must not be empty.
var asChannel = body.Parsed("must not be empty", func(text string) (string, bool) { return text, text != "" })

func readReleasePatch(o *body.Fields) (release.Patch, error) {
	for _, name := range []string{"version", "platform", "arch", "channel"} {
		if _, given := o.Find(name); given {
			o.Refuse(name, "cannot be changed; publish another release")
		}
	}
	p := release.Patch{
		DownloadURL: body.Field(o, "downloadUrl", body.Text), SHA512: body.Field(o, "sha512", body.Text), SHA1: body.Field(o, "sha1", body.Text),
		FileSizeBytes: body.Field(o, "fileSizeBytes", body.Integer), Notes: body.Field(o, "releaseNotes", body.Text),
		MinOSVersion: body.Field(o, "minOsVersion", body.Text), Signature: body.Field(o, "signature", body.Text),
		Mandatory: body.Field(o, "mandatory", body.Bool), Rollout: body.Field(o, "rolloutPercentage", body.Count), Active: body.Field(o, "active", body.Bool),
		PublishedAt: body.Field(o, "publishedAt", body.Instant),
		GuardPatch: release.GuardPatch{
			FailureLimit:   body.Field(o, "failureLimit", body.Count),
			FailureMinimum: body.Field(o, "failureMinimum", body.Count),
			Paused:         body.Field(o, "paused", body.Bool),
		},
	}
	return p, o.Err()
}

func (a *api) listReleases(c *call) error {
	q, p, err := c.listQuery()
	if err != nil {
		return err
	}
	p.Waits = true // the notes may have gigabytes
	read := func(actor org.Actor, each func(release.Release) error) error {
		return a.Releases.List(c.r.Context(), actor, id.Release(p.After.ID), p.Fetch(), each)
	}
	return list(a, c, q, p, positionOfRelease, viewAppender(viewRelease), read)
}

type (
	rolloutView struct {
		Release id.Release   `json:"release"`
		Rollout int          `json:"rolloutPercentage"`
		Devices []deviceView `json:"devices"`
	}
	deviceView struct {
		Client  string         `json:"clientId"`
		Bucket  int            `json:"bucket"`
		Offered bool           `json:"offered"`
		Reason  release.Reason `json:"reason"`
	}
)

func (a *api) explainRollout(c *call, actor org.Actor, r id.Release) error {
	q, err := c.query("clientIds")
	if err != nil {
		return err
	}
	text, given := q.Get("clientIds")
	if !given {
		return fault.Field("clientIds", "is required")
	}
	clients := strings.Split(text, ",")
	if len(clients) > maxClients {
		return fault.Field("clientIds", "must name 1 to %d devices", maxClients)
	}
	for _, client := range clients {
		if _, err := release.ParseClient("clientIds", client); err != nil {
			return err
		}
	}
	release, eligibilities, err := a.Releases.Rollout(c.r.Context(), actor, r, clients)
	if err != nil {
		return err
	}
	devices := viewEach(func(d releases.Eligibility) deviceView { return deviceView(d) })(eligibilities)
	return c.reply(http.StatusOK, rolloutView{Release: release.ID, Rollout: release.Rollout, Devices: devices})
}

type progressView struct {
	Release id.Release   `json:"release"`
	From    calendar.Day `json:"from"`
	To      calendar.Day `json:"to"`
	Devices int64        `json:"devices"`
	Reports outcomesView `json:"reports"`
}

func viewProgress(p releases.Progress) progressView {
	return progressView{p.Release, p.First, p.Last, p.Devices, outcomesView(p.Counted)}
}

// maxReport is the largest report of an installation, in bytes.
const maxReport = 4 << 10

// reportInstallation counts an installation that a device reports. The response does not say whether
// it was counted.
func (a *api) reportInstallation(c *call) error {
	data, err := c.read(maxReport)
	if err != nil {
		return err
	}
	o, err := body.ParseFields(c.r.Header.Get("Content-Type"), data, c)
	if err != nil {
		return err
	}
	version, platform, arch := body.Required(o, "version", body.Text), body.Required(o, "platform", body.Text), body.Required(o, "arch", body.Text)
	channel := cmp.Or(body.OrZero(o, "channel", asChannel), string(release.Stable))
	outcome := body.Required(o, "outcome", body.OneOf("success", "failure"))
	if err := o.Err(); err != nil {
		return err
	}
	at, target, err := parseTarget(version, platform, arch)
	if err == nil {
		target.Channel, err = release.ParseChannel("channel", channel)
	}
	if err == nil {
		a.Releases.Report(target, at, outcome == "failure", limit.Network(c.address))
	}
	return c.succeedUnless(err)
}

type reportView struct {
	Hour      jsonTime `json:"hour"`
	Succeeded int64    `json:"succeeded"`
	Failed    int64    `json:"failed"`
}

func viewReport(r release.Report) reportView {
	return reportView{jsonTime(r.Hour), r.Succeeded, r.Failed}
}

func positionOfReport(r release.Report) body.Position {
	return body.Position{Key: r.Hour.UTC().Format(time.RFC3339)}
}

// parseReportCursor reads the cursor of a list of reports.
func parseReportCursor(text string) (body.Position, bool) {
	p, ok := body.ParseKeyCursor(text)
	_, err := time.Parse(time.RFC3339, p.Key)
	return p, ok && err == nil
}

func (a *api) listReports(c *call) error {
	releaseID, err := pathID[id.Release](c, "id", "Release")
	if err != nil {
		return err
	}
	q, p, err := c.pageQuery(parseReportCursor, []string{"from"})
	if err != nil {
		return err
	}
	after, err := body.InstantParam(q, "from")
	if err != nil {
		return err
	}
	if p.After.Key != "" {
		after, _ = time.Parse(time.RFC3339, p.After.Key)
	} else if !after.IsZero() {
		after = after.Add(-time.Millisecond)
	}
	read := func(actor org.Actor, each func(release.Report) error) error {
		all, err := a.Releases.Reports(c.r.Context(), actor, releaseID, after, p.Fetch())
		for _, r := range all {
			if err := each(r); err != nil {
				return err
			}
		}
		return err
	}
	return list(a, c, q, p, positionOfReport, viewAppender(viewReport), read)
}

type checkCountView struct {
	Day      calendar.Day     `json:"day"`
	Platform release.Platform `json:"platform"`
	Arch     release.Arch     `json:"arch"`
	Channel  release.Channel  `json:"channel"`
	Version  string           `json:"version"`
	Checks   int64            `json:"checks"`
	Offered  int64            `json:"offered"`
}

func viewCheckCount(t release.CheckCount) checkCountView {
	return checkCountView{
		Day: t.Day, Platform: t.Platform, Arch: t.Arch, Channel: t.Channel, Version: t.Version,
		Checks: t.Checks, Offered: t.Offered,
	}
}

// positionOfCheckCount returns a count's position in the order of a report.
func positionOfCheckCount(t release.CheckCount) body.Position {
	return body.Position{Key: strings.Join([]string{string(t.Day), string(t.Platform), string(t.Arch), string(t.Channel), t.Version}, "/")}
}

// parseCheckCountCursor reads the cursor of a report.
func parseCheckCountCursor(text string) (body.Position, bool) {
	p, ok := body.ParseKeyCursor(text)
	return p, ok && strings.Count(p.Key, "/") == 4
}

// checkCountAt returns the count at a position.
func checkCountAt(p body.Position) (t release.CheckCount) {
	if part := strings.Split(p.Key, "/"); len(part) == 5 {
		t.Day, t.Version = calendar.Day(part[0]), part[4]
		t.Target = release.Target{Platform: release.Platform(part[1]), Arch: release.Arch(part[2]), Channel: release.Channel(part[3])}
	}
	return t
}

func (a *api) adoption(c *call) error {
	q, p, err := c.pageQuery(parseCheckCountCursor, []string{"from", "to", "platform", "arch", "channel"})
	if err != nil {
		return err
	}
	first, last, target, err := readReport(q, a.Releases.Clock.Now())
	if err != nil {
		return err
	}
	// Without a limit it is read in pages, as it may be long.
	read := func(actor org.Actor, each func(release.CheckCount) error) error {
		after, n := checkCountAt(p.After), cmp.Or(p.Fetch(), body.MaxPage)
		for {
			part, err := a.Releases.Adoption(c.r.Context(), actor, first, last, target, after, n)
			if err != nil {
				return err
			}
			for _, t := range part {
				if err := each(t); err != nil {
					return err
				}
			}
			if p.Limit > 0 || len(part) < n {
				return nil
			}
			after = part[n-1]
		}
	}
	return list(a, c, q, p, positionOfCheckCount, viewAppender(viewCheckCount), read)
}

// readReport reads the days and the target of a report.
func readReport(q body.Query, now time.Time) (first, last calendar.Day, target release.Target, err error) {
	first, last, err = readDays(q, now)
	err = cmp.Or(err,
		readParam(q, "platform", release.ParsePlatform, &target.Platform),
		readParam(q, "arch", release.ParseArch, &target.Arch),
		readParam(q, "channel", release.ParseChannel, &target.Channel))
	return first, last, target, err
}

// readDays reads the first and the last day of a report.
func readDays(q body.Query, now time.Time) (first, last calendar.Day, err error) {
	const problem = "must be a day such as 2026-01-31"
	if last, err = body.ParsedParam(q, "to", problem, calendar.ParseDay); err != nil {
		return "", "", err
	}
	last = cmp.Or(last, calendar.DayOf(now))
	daysBefore := func(n int) calendar.Day { return calendar.DayOf(last.Start().AddDate(0, 0, -n)) }
	if first, err = body.ParsedParam(q, "from", problem, calendar.ParseDay); err != nil {
		return "", "", err
	}
	first = cmp.Or(first, daysBefore(reportDays-1))
	switch {
	case first > last:
		return "", "", fault.Field("from", "must not be after to")
	case first < daysBefore(maxReportDays-1):
		return "", "", fault.Field("from", "must be at most %d days before to", maxReportDays-1)
	}
	return first, last, nil
}

// readParam sets to to a parsed parameter, if it is given.
func readParam[T any](q body.Query, name string, parse func(field, text string) (T, error), to *T) (err error) {
	if text, given := q.Get(name); given {
		*to, err = parse(name, text)
	}
	return err
}
