package httpapi

import (
	"encoding/base64"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"
	"pgregory.net/rapid"

	"collab/adapters/memory"
	"collab/app/access"
	"collab/app/releases"
	"collab/domain/id"
	"collab/domain/release"
	"collab/test/must"
)

var published = time.Date(2026, 3, 1, 12, 30, 15, 250e6, time.UTC)

// Devices in the first ten buckets, and in a later one.
const (
	reached10 = "device-9"
	missed10  = "device-1"
)

// released returns a release that every updater can install. The target is a platform and architecture, such as
// win32/x64, and a channel, such as win32/x64/beta, unless that is stable.
func released(t testing.TB, version, target string, change ...func(*release.Release)) release.Release {
	t.Helper()
	v := must.Do(release.ParseVersion(version)).Or(t)
	part := append(strings.Split(strings.ToUpper(target), "/"), string(release.Stable))
	extension := map[string]string{"WIN32": ".exe", "DARWIN": ".zip", "LINUX": ".AppImage"}[part[0]]
	r := release.Release{
		Version: v, Target: release.Target{Platform: release.Platform(part[0]), Arch: release.Arch(part[1]), Channel: release.Channel(part[2])},
		Settings: release.Settings{
			DownloadURL: "https://dl.example.com/App-" + version + "-" + strings.ToLower(part[1]) + extension,
			SHA512:      new(strings.Repeat("ab", 64)), SHA1: new(strings.Repeat("0d", 20)), Signature: new("c2lnbmVk"), FileSizeBytes: new(int64(1234)),
			Rollout: 100, Active: true,
		},
		PublishedAt: published, UpdatedAt: published,
	}
	for _, fn := range change {
		fn(&r)
	}
	return r
}

func rollout(percent int) func(*release.Release) {
	return func(r *release.Release) { r.Rollout = percent }
}

func from(address string) func(*release.Release) {
	return func(r *release.Release) { r.DownloadURL = address }
}

func noted(notes string) func(*release.Release) {
	return func(r *release.Release) { r.Notes = &notes }
}

func least(version string) func(*release.Release) {
	return func(r *release.Release) { r.MinOSVersion = &version }
}

// signed64 sets a signature of 64 bytes, as Sparkle requires.
func signed64(r *release.Release) {
	r.Signature = new(base64.StdEncoding.EncodeToString(make([]byte, 64)))
}

// newReleases returns the use cases with the releases.
func newReleases(t testing.TB, all []release.Release) *releases.Releases {
	t.Helper()
	store := memory.NewStore()
	s := releases.New(releases.Options{Store: store, From: access.From(store), Clock: memory.NewClock(published), Log: slog.New(slog.DiscardHandler)})
	for i, r := range all {
		r.ID = id.Release(fmt.Sprintf("00000000-0000-7000-8000-%012x", i))
		must.NoError(t, store.Deployment().Releases().Add(t.Context(), r))
	}
	must.NoError(t, s.Refresh(t.Context()))
	return s
}

// serveReleases returns an interface with the releases.
func serveReleases(t testing.TB, all ...release.Release) (*api, *releases.Releases) {
	t.Helper()
	s := newReleases(t, all)
	return newAPI(t, func(o *Options) { o.Releases = s }), s
}

const feeds = prefix + "/updates/feeds/"

// parsedElectron is a feed as electron-updater decodes it.
type parsedElectron struct {
	Version string
	Files   []struct {
		URL    string
		SHA512 string
		Size   *int64
	}
	ReleaseDate          string  `yaml:"releaseDate"`
	ReleaseNotes         *string `yaml:"releaseNotes"`
	MinimumSystemVersion string  `yaml:"minimumSystemVersion"`
	StagingPercentage    *int    `yaml:"stagingPercentage"`
	Path                 *string
}

// files returns the names of the feed's files.
func (f parsedElectron) files() string {
	var all []string
	for _, file := range f.Files {
		all = append(all, file.URL[strings.LastIndexByte(file.URL, '/')+1:])
	}
	return strings.Join(all, " ")
}

func TestElectronFeed(t *testing.T) {
	both := []release.Release{released(t, "2.0.0", "win32/x64"), released(t, "2.0.0", "win32/arm64")}
	for name, test := range map[string]struct {
		all    []release.Release
		file   string
		device string // in the header
		files  string // empty: no update
	}{
		"Windows":                         {all: both[:1], file: "latest.yml", files: "App-2.0.0-x64.exe"},
		"current version":                 {all: both[:1], file: "latest.yml?version=2.0.0"},
		"both architectures":              {all: both, file: "latest.yml", files: "App-2.0.0-x64.exe App-2.0.0-arm64.exe"},
		"other name of the architecture":  {all: both, file: "latest.yml?arch=AMD64", files: "App-2.0.0-x64.exe"},
		"one architecture is older":       {all: []release.Release{both[0], released(t, "1.9.0", "win32/arm64")}, file: "latest.yml"},
		"one architecture is not reached": {all: []release.Release{both[0], released(t, "2.0.0", "win32/arm64", rollout(10))}, file: "latest.yml", device: missed10},
		"one architecture is reached":     {all: []release.Release{both[0], released(t, "2.0.0", "win32/arm64", rollout(10))}, file: "latest.yml", device: reached10, files: "App-2.0.0-x64.exe App-2.0.0-arm64.exe"},
		"only ARM64":                      {all: both[1:], file: "latest.yml"},
		"exact and universal":             {all: []release.Release{released(t, "2.0.0", "darwin/universal"), released(t, "2.0.0", "darwin/arm64")}, file: "latest-mac.yml", files: "App-2.0.0-universal.zip App-2.0.0-arm64.zip"},
		"other platform":                  {all: both, file: "latest-mac.yml"},
		"Linux":                           {all: []release.Release{released(t, "2.0.0", "linux/x64")}, file: "latest-linux.yml", files: "App-2.0.0-x64.AppImage"},
		"Linux on ARM64":                  {all: []release.Release{released(t, "2.0.0", "linux/arm64")}, file: "latest-linux-arm64.yml", files: "App-2.0.0-arm64.AppImage"},
		"Linux, other architecture":       {all: []release.Release{released(t, "2.0.0", "linux/arm64")}, file: "latest-linux.yml"},
		"beta":                            {all: []release.Release{released(t, "2.0.0", "win32/x64/beta")}, file: "beta.yml", files: "App-2.0.0-x64.exe"},
		"beta in the query, too":          {all: []release.Release{released(t, "2.0.0", "win32/x64/beta")}, file: "beta.yml?channel=beta", files: "App-2.0.0-x64.exe"},
		"canary":                          {all: []release.Release{released(t, "2.0.0", "darwin/x64/canary")}, file: "canary-mac.yml", files: "App-2.0.0-x64.zip"},
		"header before query":             {all: []release.Release{released(t, "2.0.0", "win32/x64", rollout(10))}, file: "latest.yml?clientId=" + reached10, device: missed10},
		"no digest":                       {all: []release.Release{released(t, "2.0.0", "win32/x64", func(r *release.Release) { r.SHA512 = nil })}, file: "latest.yml"},
		"Squirrel package":                {all: []release.Release{released(t, "2.0.0", "win32/x64", from("https://dl.example.com/App-2.0.0-full.nupkg"))}, file: "latest.yml"},
		"macOS disk image":                {all: []release.Release{released(t, "2.0.0", "darwin/x64", from("https://dl.example.com/App.DMG?a=b"))}, file: "latest-mac.yml"},
		"parameters of the updater":       {all: both[:1], file: "latest.yml?noCache=1abc&noCache=2", files: "App-2.0.0-x64.exe"},
		"one architecture has no digest":  {all: []release.Release{both[0], released(t, "2.0.0", "win32/arm64", func(r *release.Release) { r.SHA512 = nil })}, file: "latest.yml"},
	} {
		t.Run(name, func(t *testing.T) {
			a, _ := serveReleases(t, test.all...)
			r := get(feeds + "electron/" + test.file)
			if test.device != "" {
				r.Header.Set(stagingHeader, test.device)
			}
			w := send(a, r)
			must.Is(t, http.StatusOK, w.Code)
			checkHeader(t, w.Header(), map[string]string{"Content-Type": yamlType[0], "Vary": stagingHeader})
			var feed parsedElectron
			must.NoError(t, yaml.Unmarshal(w.Body.Bytes(), &feed))
			if feed.files() != test.files || feed.Path != nil {
				t.Fatalf("the files are %q, want %q:\n%s", feed.files(), test.files, w.Body)
			}
			if test.files != "" {
				file := feed.Files[0]
				if feed.Version != "2.0.0" || feed.StagingPercentage != nil || feed.ReleaseDate != "2026-03-01T12:30:15.250Z" ||
					file.SHA512 != base64.StdEncoding.EncodeToString([]byte(strings.Repeat("\xab", 64))) || *file.Size != 1234 {
					t.Fatalf("the feed is\n%s", w.Body)
				}
				return
			}
			_, version, _ := strings.Cut(test.file, "version=")
			if version == "" {
				version = "0.0.0"
			}
			if feed.Version != version || feed.Files == nil || feed.StagingPercentage == nil || *feed.StagingPercentage != 0 || feed.ReleaseDate != "" {
				t.Fatalf("the feed is\n%s", w.Body)
			}
		})
	}
}

func TestElectronFeedMinimumSystemVersion(t *testing.T) {
	for _, test := range []struct {
		all  []release.Release
		file string
		want string
	}{
		{[]release.Release{released(t, "2.0.0", "win32/x64", least("10.0.19045"))}, "latest.yml", "10.0.19045"},
		{[]release.Release{released(t, "2.0.0", "win32/x64", least("Windows 11"))}, "latest.yml", ""},
		{[]release.Release{released(t, "2.0.0", "linux/x64", least("5.4.0"))}, "latest-linux.yml", "5.4.0"},
		{[]release.Release{released(t, "2.0.0", "linux/x64", least("22.04"))}, "latest-linux.yml", ""},
		{[]release.Release{released(t, "2.0.0", "darwin/x64", least("13.0.0"))}, "latest-mac.yml", ""},
		{[]release.Release{released(t, "2.0.0", "win32/x64", least("10.0.19045")), released(t, "2.0.0", "win32/arm64", least("10.0.22000"))}, "latest.yml", ""},
		{[]release.Release{released(t, "2.0.0", "win32/x64", least("10.0.22000")), released(t, "2.0.0", "win32/arm64", least("10.0.22000"))}, "latest.yml", "10.0.22000"},
	} {
		a, _ := serveReleases(t, test.all...)
		var feed parsedElectron
		must.NoError(t, yaml.Unmarshal(send(a, get(feeds+"electron/"+test.file)).Body.Bytes(), &feed))
		if feed.MinimumSystemVersion != test.want || len(feed.Files) != len(test.all) {
			t.Errorf("the version of %s is %q, want %q", test.file, feed.MinimumSystemVersion, test.want)
		}
	}
}

func TestElectronFeedRoundTrips(t *testing.T) {
	rapid.Check(t, func(tt *rapid.T) {
		text := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{
			"", " ", "~", "null", "yes", "0x10", "1_000", "2026-01-01", "'", `"`, `\`, "---", "...", "- a", "a: b", "# c", "%YAML 1.2", "&a", "*a", "!!binary YQ==", "|",
			"\r\n", "\n\n ", "\t", "\u0085", "\u2028", "\ufeff", "\u007f", "\x1b", "\U0010ffff", "files:\n  - url: https://evil.example.com", "\"\nversion: 9.9.9\nx: \"",
		}), rapid.StringOf(rapid.SampledFrom([]rune("\"\\\n\r\t :#-'{}[]&*!|>%@`,?~\u0085\u2028\u2029\ufeff\u0001é😀"))))
		notes, address := text.Draw(tt, "notes"), text.Draw(tt, "url")
		r := released(t, "2.0.0", "win32/x64", noted(notes), from(address))
		body := must.Do(yaml.Marshal(viewElectron(release.Version{}, []*release.Release{&r}))).Or(tt)
		var feed parsedElectron
		if err := yaml.Unmarshal(body, &feed); err != nil {
			tt.Fatalf("%v in\n%s", err, body)
		}
		if feed.ReleaseNotes == nil || *feed.ReleaseNotes != notes || len(feed.Files) != 1 || feed.Files[0].URL != address || feed.Version != "2.0.0" {
			tt.Fatalf("%q and %q became %+v in\n%s", notes, address, feed, body)
		}
		var node yaml.Node
		must.NoError(tt, yaml.Unmarshal(body, &node))
		if keys := node.Content[0].Content; len(keys) != 8 {
			tt.Fatalf("%d keys and values in\n%s", len(keys), body)
		}
	})
}

func TestSquirrelMacAndTauriFeeds(t *testing.T) {
	unsigned, empty := func(r *release.Release) { r.Signature = nil }, func(r *release.Release) { r.Signature = new("") }
	const mac, tauri = `{"name":"2.0.0","url":"https://dl.example.com/App-2.0.0-%s"`, `{"version":"2.0.0","url":"https://dl.example.com/App-2.0.0-%s","signature":"c2lnbmVk"`
	for name, test := range map[string]struct {
		target string // of the only release
		change func(*release.Release)
		path   string
		feed   string // empty: 204
		file   string
	}{
		"archive":           {target: "darwin/arm64", path: "squirrel/darwin/arm64/v1.0", feed: mac, file: "arm64.zip"},
		"universal archive": {target: "darwin/universal", path: "squirrel/darwin/x64/1.0.0", feed: mac, file: "universal.zip"},
		"disk image":        {target: "darwin/arm64", change: from("https://dl.example.com/App.dmg#x"), path: "squirrel/darwin/arm64/1.0.0"},
		"Windows":           {target: "win32/x64", path: "tauri/windows/x86_64/1.0.0", feed: tauri, file: "x64.exe"},
		"Linux":             {target: "linux/arm64", path: "tauri/linux/aarch64/1.0.0", feed: tauri, file: "arm64.AppImage"},
		"macOS":             {target: "darwin/universal", path: "tauri/darwin/aarch64/1.0.0", feed: tauri, file: "universal.zip"},
		"no signature":      {target: "win32/x64", change: unsigned, path: "tauri/windows/x86_64/1.0.0"},
		"empty signature":   {target: "win32/x64", change: empty, path: "tauri/windows/x86_64/1.0.0"},
	} {
		t.Run(name, func(t *testing.T) {
			r := released(t, "2.0.0", test.target)
			if test.change != nil {
				test.change(&r)
			}
			a, _ := serveReleases(t, r)
			w := send(a, get(feeds+test.path))
			status, want := http.StatusNoContent, ""
			if test.feed != "" {
				status, want = http.StatusOK, fmt.Sprintf(test.feed, test.file)+`,"pub_date":"2026-03-01T12:30:15Z"}`+"\n"
			}
			if w.Code != status || w.Body.String() != want {
				t.Errorf("%d %s, want %d %s", w.Code, w.Body, status, want)
			}
		})
	}
}

// The expressions with which Squirrel.Windows parses a line, and the version in a file's name.
var (
	squirrelEntry   = regexp.MustCompile(`^([0-9a-fA-F]{40})\s+(\S+)\s+(\d+)[\r]*$`)
	squirrelSuffix  = regexp.MustCompile(`(-full|-delta)?\.nupkg$`)
	squirrelVersion = regexp.MustCompile(`\d+(\.\d+){0,3}(-[A-Za-z][0-9A-Za-z-]*)?$`)
	squirrelComment = regexp.MustCompile(`\s*#.*$`)
)

// readSquirrel parses the only line of a list as Squirrel.Windows does.
func readSquirrel(t testing.TB, list string) (sha1, address, version string, size int) {
	t.Helper()
	line, rest, ok := strings.Cut(list, "\n")
	m := squirrelEntry.FindStringSubmatch(squirrelComment.ReplaceAllString(line, ""))
	if !ok || rest != "" || m == nil {
		t.Fatalf("the list is %q", list)
	}
	name := m[2]
	if u, err := url.Parse(m[2]); err == nil && u.Host != "" {
		name = u.Path[strings.LastIndexByte(u.Path, '/')+1:]
	}
	size = must.Do(strconv.Atoi(m[3])).Or(t)
	return m[1], m[2], squirrelVersion.FindString(squirrelSuffix.ReplaceAllString(name, "")), size
}

func TestSquirrelWindowsFeed(t *testing.T) {
	const address = "https://dl.example.com/a/App-2.0.0-full.nupkg"
	pack := func(version, address string, change ...func(*release.Release)) []release.Release {
		return []release.Release{released(t, version, "win32/x64", append([]func(*release.Release){from(address)}, change...)...)}
	}
	for name, test := range map[string]struct {
		all     []release.Release
		path    string
		version string // empty: no update
	}{
		"no release":                {path: "x64/1.0.0/RELEASES"},
		"update":                    {all: pack("2.0.0", address), path: "x64/1.0.0/RELEASES", version: "2.0.0"},
		"parameters of the updater": {all: pack("2.0.0", address), path: "x64/1.0.0/RELEASES?id=App&localVersion=1.0.0&arch=amd64", version: "2.0.0"},
		"other architecture":        {all: pack("2.0.0", address), path: "arm64/1.0.0/RELEASES?arch=amd64"},
		"query in the address":      {all: pack("2.0.0", address+"?signed=a%20b"), path: "x64/1.0.0/RELEASES", version: "2.0.0"},
		"prerelease":                {all: pack("2.0.0-beta.1", "https://dl.example.com/App-2.0.0-beta1-full.nupkg"), path: "x64/1.0.0/RELEASES", version: "2.0.0-beta1"},
		"build metadata":            {all: pack("2.0.0+7", address), path: "x64/1.0.0/RELEASES", version: "2.0.0"},
		"name without full":         {all: pack("2.0.0", "https://dl.example.com/my-app-2.0.0.nupkg"), path: "x64/1.0.0/RELEASES", version: "2.0.0"},
		"current version":           {all: pack("2.0.0", address), path: "x64/2.0.0/RELEASES"},
		"not reached":               {all: pack("2.0.0", address, rollout(10)), path: "x64/1.0.0/RELEASES?clientId=" + missed10},
		"reached":                   {all: pack("2.0.0", address, rollout(10)), path: "x64/1.0.0/RELEASES?clientId=" + reached10, version: "2.0.0"},
		"no digest":                 {all: pack("2.0.0", address, func(r *release.Release) { r.SHA1 = nil }), path: "x64/1.0.0/RELEASES"},
		"no size":                   {all: pack("2.0.0", address, func(r *release.Release) { r.FileSizeBytes = nil }), path: "x64/1.0.0/RELEASES"},
		"empty file":                {all: pack("2.0.0", address, func(r *release.Release) { r.FileSizeBytes = new(int64) }), path: "x64/1.0.0/RELEASES"},
		"installer":                 {all: pack("2.0.0", "https://dl.example.com/App-2.0.0.exe"), path: "x64/1.0.0/RELEASES"},
		"other version in the name": {all: pack("2.0.1", address), path: "x64/1.0.0/RELEASES"},
		"no version in the name":    {all: pack("2.0.0", "https://dl.example.com/App-full.nupkg"), path: "x64/1.0.0/RELEASES"},
		"numeric prerelease":        {all: pack("2.0.0-1", "https://dl.example.com/App-2.0.0-1-full.nupkg"), path: "x64/1.0.0/RELEASES"},
		"delta package":             {all: pack("2.0.0", "https://dl.example.com/App-2.0.0-delta.nupkg"), path: "x64/1.0.0/RELEASES"},
		"fragment":                  {all: pack("2.0.0", address+"#x"), path: "x64/1.0.0/RELEASES"},
		"encoded name":              {all: pack("2.0.0", "https://dl.example.com/%3Aa-2.0.0-full.nupkg"), path: "x64/1.0.0/RELEASES"},
	} {
		t.Run(name, func(t *testing.T) {
			a, _ := serveReleases(t, test.all...)
			w := send(a, get(feeds+"squirrel/win32/"+test.path))
			if w.Code != http.StatusOK {
				t.Fatalf("%d %s", w.Code, w.Body)
			}
			sha1, address, version, size := readSquirrel(t, w.Body.String())
			if test.version == "" {
				if version != "0.0.0" || strings.Contains(address, "/") {
					t.Fatalf("the list is %q", w.Body)
				}
				return
			}
			if version != test.version || address != test.all[0].DownloadURL || size != 1234 || sha1 != strings.Repeat("0D", 20) {
				t.Fatalf("the list is %q", w.Body)
			}
		})
	}
}

// parsedAppcast is an appcast as Sparkle decodes it.
type parsedAppcast struct {
	XMLName xml.Name `xml:"rss"`
	Version string   `xml:"version,attr"`
	Items   []struct {
		Title        string    `xml:"title"`
		PubDate      string    `xml:"pubDate"`
		Version      string    `xml:"http://www.andymatuschak.org/xml-namespaces/sparkle version"`
		ShortVersion string    `xml:"http://www.andymatuschak.org/xml-namespaces/sparkle shortVersionString"`
		Minimum      string    `xml:"http://www.andymatuschak.org/xml-namespaces/sparkle minimumSystemVersion"`
		Critical     *struct{} `xml:"http://www.andymatuschak.org/xml-namespaces/sparkle criticalUpdate"`
		Description  *struct {
			Format string `xml:"http://www.andymatuschak.org/xml-namespaces/sparkle format,attr"`
			Text   string `xml:",chardata"`
		} `xml:"description"`
		Enclosure struct {
			URL       string `xml:"url,attr"`
			Length    string `xml:"length,attr"`
			Type      string `xml:"type,attr"`
			Signature string `xml:"http://www.andymatuschak.org/xml-namespaces/sparkle edSignature,attr"`
		} `xml:"enclosure"`
	} `xml:"channel>item"`
}

func parseAppcast(t testing.TB, body []byte) parsedAppcast {
	t.Helper()
	var cast parsedAppcast
	if err := xml.Unmarshal(body, &cast); err != nil {
		t.Fatalf("%v in\n%s", err, body)
	}
	return cast
}

func TestAppcast(t *testing.T) {
	for name, test := range map[string]struct {
		all   []release.Release
		query string
		url   string // empty: no item
	}{
		"no release":      {},
		"universal":       {all: []release.Release{released(t, "2.0.0", "darwin/universal")}, url: "https://dl.example.com/App-2.0.0-universal.zip"},
		"no parameter":    {all: []release.Release{released(t, "2.0.0", "darwin/arm64")}},
		"architecture":    {all: []release.Release{released(t, "2.0.0", "darwin/arm64")}, query: "?arch=arm64", url: "https://dl.example.com/App-2.0.0-arm64.zip"},
		"version":         {all: []release.Release{released(t, "2.0.0", "darwin/universal")}, query: "?version=1.0.0", url: "https://dl.example.com/App-2.0.0-universal.zip"},
		"system profile":  {all: []release.Release{released(t, "2.0.0", "darwin/universal")}, query: "?appName=App&appVersion=1&cpuType=16777228&osVersion=14.1", url: "https://dl.example.com/App-2.0.0-universal.zip"},
		"escaped address": {all: []release.Release{released(t, "2.0.0", "darwin/universal", from("https://dl.example.com/App.zip?a=1&b='2'"))}, url: "https://dl.example.com/App.zip?a=1&b='2'"},
	} {
		t.Run(name, func(t *testing.T) {
			a, _ := serveReleases(t, test.all...)
			w := send(a, get(feeds+"sparkle/appcast.xml"+test.query))
			cast := parseAppcast(t, w.Body.Bytes())
			if w.Code != http.StatusOK || w.Header().Get("Content-Type") != rssType[0] || cast.Version != "2.0" {
				t.Fatalf("%d %v %s", w.Code, w.Header(), w.Body)
			}
			if items := min(1, len(test.url)); len(cast.Items) != items {
				t.Fatalf("the appcast is %s, want %d items", w.Body, items)
			}
			if test.url == "" {
				return
			}
			item := cast.Items[0]
			if item.Version != "2.0.0" || item.ShortVersion != "2.0.0" || item.PubDate != "Sun, 01 Mar 2026 12:30:15 +0000" || item.Enclosure.URL != test.url ||
				item.Enclosure.Length != "1234" || item.Enclosure.Type != "application/octet-stream" || item.Enclosure.Signature != "" || item.Critical != nil || item.Minimum != "" || item.Description != nil {
				t.Fatalf("the appcast is %s", w.Body)
			}
		})
	}
	t.Run("all fields", func(t *testing.T) {
		a, _ := serveReleases(t, released(t, "2.0.0", "darwin/universal", signed64, least("13.0"), noted("*New*"), func(r *release.Release) { r.Mandatory = true }))
		w := send(a, get(feeds+"sparkle/appcast.xml"))
		item := parseAppcast(t, w.Body.Bytes()).Items[0]
		if item.Enclosure.Signature != strings.Repeat("A", 86)+"==" || item.Minimum != "13.0" || item.Critical == nil || item.Description == nil || item.Description.Format != "markdown" || item.Description.Text != "*New*" {
			t.Fatalf("the appcast is %s", w.Body)
		}
	})
	t.Run("minimum version without a number", func(t *testing.T) {
		a, _ := serveReleases(t, released(t, "2.0.0", "darwin/universal", least("Ventura")))
		must.Is(t, "", parseAppcast(t, send(a, get(feeds+"sparkle/appcast.xml")).Body.Bytes()).Items[0].Minimum)
	})
}

func TestUpdateFeedsRefuseInvalidRequests(t *testing.T) {
	a, _ := serveReleases(t, released(t, "2.0.0", "win32/x64"))
	long := strings.Repeat("x", 201)
	for target, status := range map[string]int{
		"electron/latest.yaml":                                           404,
		"electron/alpha.yml":                                             404,
		"electron/latest-win.yml":                                        404,
		"electron/latest-linux-ia32.yml":                                 404,
		"electron/latest-mac-arm64.yml":                                  404,
		"electron/latest.yml%0a":                                         404,
		"electron/..%2flatest.yml":                                       404,
		"electron/latest.yml?arch=mips":                                  400,
		"electron/latest.yml?version=latest":                             400,
		"electron/latest.yml?channel=alpha":                              400,
		"electron/beta.yml?channel=canary":                               400,
		"electron/latest.yml?clientId=":                                  400,
		"electron/latest.yml?clientId=" + long:                           400,
		"electron/latest.yml?clientId=%ff":                               400,
		"electron/latest.yml?clientId=a&clientId=b":                      400,
		"electron/latest.yml?clientId=%zz":                               400,
		"squirrel/darwin/ia32/1.0.0":                                     400,
		"squirrel/darwin/x64/one":                                        400,
		"squirrel/darwin/x64/" + strings.Repeat("1", 200):                400,
		"squirrel/darwin/x64":                                            404,
		"squirrel/win32/x64/1.0.0":                                       404,
		"squirrel/win32/x64/1.0.0/RELEASES?channel=nightly":              400,
		"squirrel/linux/x64/1.0.0":                                       404,
		"tauri/android/x86_64/1.0.0":                                     400,
		"tauri/windows/i686/1.0.0":                                       400,
		"tauri/windows/x86_64/%7B%7Bcurrent_version%7D%7D":               400,
		"tauri/windows/x86_64/1.0.0?clientId=" + url.QueryEscape("\xfe"): 400,
		"sparkle/appcast.xml?arch=ppc":                                   400,
		"sparkle/appcast.xml?version=1.2.3.4":                            400,
		"sparkle/other.xml":                                              404,
	} {
		checkError(t, send(a, get(feeds+target)), status)
	}
	for _, ids := range [][]string{{""}, {long}, {"a", "b"}, {"\xff"}} {
		r := get(feeds + "electron/latest.yml")
		r.Header[stagingHeader] = ids
		if e := checkError(t, send(a, r), 400); !strings.Contains(e.Message, stagingHeader) {
			t.Errorf("%q: %s", ids, e.Message)
		}
	}
}

func TestUpdateFeedsCountChecks(t *testing.T) {
	a, s := serveReleases(t, released(t, "2.0.0", "win32/x64"), released(t, "2.0.0", "win32/arm64"), released(t, "2.0.0", "darwin/universal"), released(t, "1.0.0", "darwin/arm64"))
	for _, path := range []string{
		"electron/latest.yml", "electron/latest.yml?arch=arm64&version=1.0.0", "electron/latest-mac.yml?version=2.0.0",
		"squirrel/darwin/arm64/1.0.0", "squirrel/win32/x64/1.0.0/RELEASES",
	} {
		if w := send(a, get(feeds+path)); w.Code >= 300 {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
	}
	must.NoError(t, s.FlushCounts(t.Context()))
	all := must.Do(s.Store.Deployment().Adoption().List(t.Context(), "2026-03-01", "2026-03-01", release.Target{}, release.CheckCount{}, 0)).Or(t)
	var got []string
	for _, c := range all {
		got = append(got, fmt.Sprintf("%s %s %s %d %d", c.Platform, c.Arch, c.Version, c.Checks, c.Offered))
	}
	want := []string{
		"DARWIN ARM64 1.0.0 1 1", "DARWIN UNIVERSAL 2.0.0 1 0",
		"WIN32 ARM64 1.0.0 1 1", "WIN32 UNIVERSAL other 1 1", "WIN32 X64 1.0.0 1 0",
	}
	slices.Sort(got)
	must.Equal(t, want, got)
}

func TestUpdateFeedsOfferWhatChecksOffer(t *testing.T) {
	a := newAPI(t)
	targets := map[string]string{"win32": "latest.yml", "darwin": "latest-mac.yml", "linux": "latest-linux.yml"}
	tauri := map[string]string{"win32": "windows", "darwin": "darwin", "linux": "linux"}
	// offered checks that the feeds offer what the check offers, and returns the address of that.
	offered := func(tt rapid.TB, p, arch, at, query string) (want string) {
		w := send(a, get(prefix+"/updates/check?version="+at+"&platform="+p+"&arch="+arch+"&"+query))
		var check struct {
			UpdateAvailable bool   `json:"updateAvailable"`
			DownloadURL     string `json:"downloadUrl"`
		}
		if err := json.Unmarshal(w.Body.Bytes(), &check); err != nil || w.Code != 200 {
			tt.Fatalf("%d %s", w.Code, w.Body)
		}
		if check.UpdateAvailable {
			want = check.DownloadURL
		}
		electron := func(query string) (feed parsedElectron) {
			must.NoError(tt, yaml.Unmarshal(send(a, get(feeds+"electron/"+targets[p]+query)).Body.Bytes(), &feed))
			return feed
		}
		got := ""
		for _, file := range electron("?arch=" + arch + "&version=" + at + "&" + query).Files {
			got += file.URL
		}
		must.Is(tt, want, got)
		// Without an architecture in the query, the first file is that of X64.
		if files := electron("?version=" + at + "&" + query).Files; arch == "x64" && len(files) > 0 {
			must.Is(tt, want, files[0].URL)
		}
		update := func(path string) string {
			w := send(a, get(feeds+path+"/"+arch+"/"+at+"?"+query))
			if w.Code != 200 {
				return ""
			}
			return read[updateView](t, w, 200).URL
		}
		must.Is(tt, want, update("tauri/"+tauri[p]))
		if p != "darwin" {
			return want
		}
		must.Is(tt, want, update("squirrel/darwin"))
		got = ""
		for _, item := range parseAppcast(t, send(a, get(feeds+"sparkle/appcast.xml?arch="+arch+"&version="+at+"&"+query)).Body.Bytes()).Items {
			got += item.Enclosure.URL
		}
		must.Is(tt, want, got)
		return want
	}
	for p := range targets {
		a.Releases = newReleases(t, []release.Release{released(t, "2.0.0", p+"/x64", signed64)})
		if offered(t, p, "x64", "1.0.0", "channel=stable") == "" {
			t.Errorf("%s: the check offers no update", p)
		}
	}
	rapid.Check(t, func(tt *rapid.T) {
		version := rapid.SampledFrom([]string{"1.0.0", "1.0.0-beta.1", "1.1.0", "2.0.0", "2.0.0-rc.1"})
		platform := rapid.SampledFrom([]string{"win32", "darwin", "linux"})
		channel := rapid.SampledFrom([]string{"stable", "beta"})
		p, at, arch := platform.Draw(tt, "platform"), version.Draw(tt, "at"), rapid.SampledFrom([]string{"x64", "arm64"}).Draw(tt, "arch")
		var all []release.Release
		for _, key := range rapid.SliceOfNDistinct(rapid.Custom(func(tt *rapid.T) string {
			arch := rapid.SampledFrom([]string{"x64", "arm64", "universal"}).Draw(tt, "arch")
			return version.Draw(tt, "version") + " " + rapid.OneOf(rapid.Just(p), platform).Draw(tt, "platform") + "/" + arch + "/" + channel.Draw(tt, "channel")
		}), 0, 12, rapid.ID).Draw(tt, "releases") {
			v, target, _ := strings.Cut(key, " ")
			r := released(t, v, target, rollout(rapid.SampledFrom([]int{0, 5, 50, 100}).Draw(tt, "rollout")), signed64)
			r.Active = rapid.Bool().Draw(tt, "active")
			all = append(all, r)
		}
		a.Releases = newReleases(t, all)
		query := "channel=" + channel.Draw(tt, "channel")
		if client := rapid.SampledFrom([]string{"", reached10, missed10, "device-0"}).Draw(tt, "client"); client != "" {
			query += "&clientId=" + client
		}
		offered(tt, p, arch, at, query)
	})
}
