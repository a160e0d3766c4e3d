package httpapi

import (
	"cmp"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"encoding/xml"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"collab/adapters/httpapi/body"
	"collab/app/releases"
	"collab/domain/fault"
	"collab/domain/release"
)

// stagingHeader is the header in which electron-updater sends a device's id.
const stagingHeader = "X-User-Staging-Id"

var (
	feedArchs = map[string]release.Arch{
		"x64": release.X64, "x86_64": release.X64, "amd64": release.X64,
		"arm64": release.ARM64, "aarch64": release.ARM64,
		"universal": release.Universal,
	}
	feedPlatforms = map[string]release.Platform{
		"darwin": release.Darwin, "macos": release.Darwin,
		"win32": release.Win32, "windows": release.Win32,
		"linux": release.Linux,
	}
)

func feedArch(name string) (release.Arch, error) {
	if a, ok := feedArchs[strings.ToLower(name)]; ok {
		return a, nil
	}
	return "", fault.Field("arch", "must be one of x64, arm64, universal")
}

// device parses the query of a feed. Both the architecture and the version may be missing.
func (c *call) device() (d deviceQuery, q releases.Check, err error) {
	err = body.ReadParameters(c.r.URL.RawQuery, func(name string) *body.Parameter {
		if name == "platform" {
			return nil // it is in the path
		}
		return d.parameter(name)
	})
	if err == nil {
		err = d.readAudience(&q)
	}
	return d, q, err
}

// readTarget reads the architecture and the version, where they are given.
func (d deviceQuery) readTarget(q *releases.Check) (err error) {
	if d.arch.Given {
		if q.Arch, err = feedArch(d.arch.Text); err != nil {
			return err
		}
	}
	if d.version.Given {
		q.Version, err = release.ParseVersion(d.version.Text)
	}
	return err
}

// readDevice reads the device from a path that has its architecture and version.
func (c *call) readDevice(platform release.Platform) (releases.Check, error) {
	_, q, err := c.device()
	if err != nil {
		return q, err
	}
	q.Platform = platform
	if q.Arch, err = feedArch(c.vars["arch"]); err != nil {
		return q, err
	}
	q.Version, err = release.ParseVersion(c.vars["version"])
	return q, err
}

var (
	yamlType    = []string{"text/yaml; charset=utf-8"}
	releaseType = []string{"text/plain; charset=utf-8"}
	rssType     = []string{"application/rss+xml; charset=utf-8"}
)

// feed replies with a feed, which is empty if there is no update. Feeds that are the same
// for all devices are cached for a minute. The body is charged to the call, as a client may
// read it slowly.
func (c *call) feed(q releases.Check, mime []string, body []byte) error {
	if err := c.Hold(int64(len(body))); err != nil {
		return err
	}
	if q.Client == "" {
		c.public(cacheMinute)
	}
	if len(body) == 0 {
		c.WriteHeader(http.StatusNoContent)
		return nil
	}
	return c.sendTagged(mime, contentTag(body), body)
}

// fileName returns the name of the file that an address leads to, in lower case.
func fileName(address string) string {
	path, _, _ := strings.Cut(address, "?")
	path, _, _ = strings.Cut(path, "#")
	return strings.ToLower(path[strings.LastIndexByte(path, '/')+1:])
}

// isMacInstaller reports whether a file is an image or a package of macOS.
func isMacInstaller(name string) bool {
	return strings.HasSuffix(name, ".dmg") || strings.HasSuffix(name, ".pkg")
}

// electronFiles are the names that electron-updater uses for its feeds: with the system's
// name except for Windows, and with the architecture for Linux unless it is X64.
var electronFiles = regexp.MustCompile(`\A(latest|beta|canary)(?:(-mac)|(-linux)(?:-(arm64))?)?\.yml\z`)

// yamlText is a text that every YAML parser reads as a string.
type yamlText string

// MarshalYAML puts the text in double quotes.
func (s yamlText) MarshalYAML() (any, error) {
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Style: yaml.DoubleQuotedStyle, Value: string(s)}, nil
}

type (
	electronFeed struct {
		Version              yamlText       `yaml:"version"`
		Files                []electronFile `yaml:"files"`
		ReleaseDate          yamlText       `yaml:"releaseDate,omitempty"`
		ReleaseNotes         *yamlText      `yaml:"releaseNotes,omitempty"`
		MinimumSystemVersion yamlText       `yaml:"minimumSystemVersion,omitempty"`
		StagingPercentage    *int           `yaml:"stagingPercentage,omitempty"`
	}
	electronFile struct {
		URL    yamlText `yaml:"url"`
		SHA512 yamlText `yaml:"sha512"`
		Size   *int64   `yaml:"size,omitempty"`
	}
)

// electronUpdates is the feed of electron-updater, which needs one even without an update.
func (a *api) electronUpdates(c *call) error {
	c.Header().Add("Vary", stagingHeader)
	d, q, err := c.device()
	if err != nil {
		return err
	}
	if err := d.readTarget(&q); err != nil {
		return err
	}
	if id := c.r.Header[stagingHeader]; len(id) > 0 {
		if len(id) > 1 {
			return fault.Field(stagingHeader, "must not be repeated")
		}
		if q.Client, err = release.ParseClient(stagingHeader, id[0]); err != nil {
			return err
		}
	}
	file := electronFiles.FindStringSubmatch(c.vars["file"])
	if file == nil {
		return fault.Missing("Feed")
	}
	if file[1] != "latest" {
		channel, _ := release.ParseChannel("channel", file[1])
		if d.channel.Given && q.Channel != channel {
			return fault.Field("channel", "must be that of the file")
		}
		q.Channel = channel
	}
	switch {
	case file[2] != "":
		q.Platform = release.Darwin
	case file[3] != "":
		q.Platform = release.Linux
		if q.Arch == "" {
			q.Arch = feedArchs[cmp.Or(file[4], "x64")]
		}
	default:
		q.Platform = release.Win32
	}
	body, err := yaml.Marshal(viewElectron(q.Version, a.Releases.Feed(q, fitsElectron)))
	if err != nil {
		return err
	}
	return c.feed(q, yamlType, body)
}

// fitsElectron reports whether electron-updater accepts a release: it refuses files without
// a digest, takes any file of Windows for an installer, and accepts no image or package of
// macOS.
func fitsElectron(r *release.Release) bool {
	switch name := fileName(r.DownloadURL); {
	case r.SHA512 == nil:
		return false
	case r.Platform == release.Win32:
		return !strings.HasSuffix(name, ".nupkg")
	case r.Platform == release.Darwin:
		return !isMacInstaller(name)
	}
	return true
}

// kernelVersion matches the versions that electron-updater compares with the kernel's.
var kernelVersion = regexp.MustCompile(`\A[0-9]+\.[0-9]+\.[0-9]+\z`)

// viewElectron returns a feed of the releases of one version, or, if there are none, one
// that offers nothing to a device at the version: it has a rollout of 0 percent and no
// files, so that devices that accept downgrades ignore it, too.
func viewElectron(at release.Version, all []*release.Release) electronFeed {
	if len(all) == 0 {
		version, nobody := at.String(), 0
		return electronFeed{Version: yamlText(cmp.Or(version, "0.0.0")), Files: []electronFile{}, StagingPercentage: &nobody}
	}
	first := all[0]
	feed := electronFeed{Version: yamlText(first.Version.String()), ReleaseDate: yamlText(first.PublishedAt.UTC().Format(milliseconds))}
	if first.Notes != nil {
		notes := yamlText(*first.Notes)
		feed.ReleaseNotes = &notes
	}
	minOS := valueOrEmpty(first.MinOSVersion)
	for _, r := range all {
		feed.Files = append(feed.Files, electronFile{URL: yamlText(r.DownloadURL), SHA512: yamlText(release.Base64(*r.SHA512)), Size: r.FileSizeBytes})
		if valueOrEmpty(r.MinOSVersion) != minOS {
			minOS = ""
		}
	}
	// The kernel of macOS has another version than the system.
	if first.Platform != release.Darwin && kernelVersion.MatchString(minOS) {
		feed.MinimumSystemVersion = yamlText(minOS)
	}
	return feed
}

const milliseconds = "2006-01-02T15:04:05.000Z"

type updateView struct {
	Version   string  `json:"version,omitempty"` // Tauri's
	Name      string  `json:"name,omitempty"`    // Squirrel's
	URL       string  `json:"url"`
	Signature string  `json:"signature,omitempty"`
	Notes     *string `json:"notes,omitempty"`
	PubDate   string  `json:"pub_date"` // without fractions of a second, which Squirrel cannot read
}

// macUpdates is the feed of Squirrel.Mac, which accepts only zip archives.
func (a *api) macUpdates(c *call) error {
	q, err := c.readDevice(release.Darwin)
	if err != nil {
		return err
	}
	return c.update(q, a.Releases.Feed(q, func(r *release.Release) bool {
		return !isMacInstaller(fileName(r.DownloadURL))
	}), func(r *release.Release) updateView { return updateView{Name: r.Version.String()} })
}

// tauriUpdates is the feed of Tauri's updater, which accepts only signed files.
func (a *api) tauriUpdates(c *call) error {
	platform, ok := feedPlatforms[strings.ToLower(c.vars["target"])]
	if !ok {
		return fault.Field("target", "must be one of darwin, linux, windows")
	}
	q, err := c.readDevice(platform)
	if err != nil {
		return err
	}
	return c.update(q, a.Releases.Feed(q, func(r *release.Release) bool {
		return r.Signature != nil && *r.Signature != ""
	}), func(r *release.Release) updateView {
		return updateView{Version: r.Version.String(), Signature: *r.Signature}
	})
}

// update replies with the first of the releases, or with 204 if there is none. View returns
// the fields of one kind of updater.
func (c *call) update(q releases.Check, all []*release.Release, view func(*release.Release) updateView) error {
	if len(all) == 0 {
		return c.feed(q, nil, nil)
	}
	r := all[0]
	v := view(r)
	v.URL, v.Notes, v.PubDate = r.DownloadURL, r.Notes, r.PublishedAt.UTC().Format(time.RFC3339)
	body, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return c.feed(q, jsonType, append(body, '\n'))
}

// noWindowsUpdate is a list of releases for Squirrel.Windows without an update for any
// device: it treats an empty or missing list as a failure.
const noWindowsUpdate = "0000000000000000000000000000000000000000 none-0.0.0-full.nupkg 1\n"

// windowsUpdates is the feed of Squirrel.Windows: a line for one full package.
func (a *api) windowsUpdates(c *call) error {
	q, err := c.readDevice(release.Win32)
	if err != nil {
		return err
	}
	list := noWindowsUpdate
	if all := a.Releases.Feed(q, fitsWindows); len(all) > 0 {
		r := all[0]
		list = strings.ToUpper(*r.SHA1) + " " + r.DownloadURL + " " + strconv.FormatInt(*r.FileSizeBytes, 10) + "\n"
	}
	return c.feed(q, releaseType, []byte(list))
}

// packageFile matches the names of full packages that Squirrel's tools create,
// with the version that Squirrel.Windows reads from there.
var packageFile = regexp.MustCompile(`\A[a-z0-9._-]+-([0-9]+\.[0-9]+\.[0-9]+(?:-[a-z][a-z0-9-]*)?)\.nupkg\z`)

// fitsWindows reports whether Squirrel.Windows accepts a release: a package with its digest
// and size whose name has the release's version. Names have no dots in prereleases.
func fitsWindows(r *release.Release) bool {
	if r.SHA1 == nil || r.FileSizeBytes == nil || *r.FileSizeBytes == 0 || strings.ContainsRune(r.DownloadURL, '#') {
		return false
	}
	name, full := strings.CutSuffix(fileName(r.DownloadURL), "-full.nupkg")
	if full {
		name += ".nupkg"
	}
	m := packageFile.FindStringSubmatch(name)
	core, prerelease, _ := strings.Cut(r.Version.Key(), "-")
	version := core
	if prerelease != "" {
		version += "-" + strings.ReplaceAll(prerelease, ".", "")
	}
	return m != nil && strings.EqualFold(m[1], version)
}

// Appcasts of Sparkle.
type (
	appcast struct {
		XMLName xml.Name       `xml:"rss"`
		Version string         `xml:"version,attr"`
		Sparkle string         `xml:"xmlns:sparkle,attr"`
		Channel appcastChannel `xml:"channel"`
	}
	appcastChannel struct {
		Title string        `xml:"title"`
		Items []appcastItem `xml:"item"`
	}
	appcastItem struct {
		Title        string        `xml:"title"`
		PubDate      string        `xml:"pubDate"`
		Version      string        `xml:"sparkle:version"`
		ShortVersion string        `xml:"sparkle:shortVersionString"`
		MinimumOS    string        `xml:"sparkle:minimumSystemVersion,omitempty"`
		Critical     *struct{}     `xml:"sparkle:criticalUpdate"`
		Description  *appcastNotes `xml:"description"`
		Enclosure    appcastFile   `xml:"enclosure"`
	}
	appcastNotes struct {
		Format string `xml:"sparkle:format,attr"`
		Text   string `xml:",chardata"`
	}
	appcastFile struct {
		URL       string `xml:"url,attr"`
		Length    int64  `xml:"length,attr"` // 0: not known
		Type      string `xml:"type,attr"`
		Signature string `xml:"sparkle:edSignature,attr,omitempty"`
	}
)

// appcastUpdates is the feed of Sparkle: an appcast with one item or none.
func (a *api) appcastUpdates(c *call) error {
	d, q, err := c.device()
	if err != nil {
		return err
	}
	q.Platform, q.Arch = release.Darwin, release.Universal
	if err := d.readTarget(&q); err != nil {
		return err
	}
	feed := appcast{
		Version: "2.0", Sparkle: "http://www.andymatuschak.org/xml-namespaces/sparkle",
		Channel: appcastChannel{Title: "Updates"},
	}
	for _, r := range a.Releases.Feed(q, func(*release.Release) bool { return true }) {
		feed.Channel.Items = append(feed.Channel.Items, viewAppcast(r))
	}
	body, err := xml.Marshal(feed)
	if err != nil {
		return err
	}
	return c.feed(q, rssType, append([]byte(xml.Header), append(body, '\n')...))
}

// macVersion are versions of macOS.
var macVersion = regexp.MustCompile(`\A[0-9]+(\.[0-9]+){0,2}\z`)

func viewAppcast(r *release.Release) appcastItem {
	version := r.Version.String()
	item := appcastItem{
		Title: version, PubDate: r.PublishedAt.UTC().Format(time.RFC1123Z), Version: version, ShortVersion: version,
		Enclosure: appcastFile{URL: r.DownloadURL, Type: "application/octet-stream"},
	}
	if minOS := valueOrEmpty(r.MinOSVersion); macVersion.MatchString(minOS) {
		item.MinimumOS = minOS
	}
	if r.Mandatory {
		item.Critical = &struct{}{}
	}
	if r.Notes != nil {
		item.Description = &appcastNotes{"markdown", *r.Notes}
	}
	if r.FileSizeBytes != nil {
		item.Enclosure.Length = *r.FileSizeBytes
	}
	// Sparkle refuses an update with a signature of another kind.
	if r.Signature != nil {
		if raw, err := base64.StdEncoding.DecodeString(*r.Signature); err == nil && len(raw) == ed25519.SignatureSize {
			item.Enclosure.Signature = *r.Signature
		}
	}
	return item
}
