package release

import (
	"cmp"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"collab/domain/check"
	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/patch"
)

// Platform is an operating system.
type Platform string

const (
	Darwin Platform = "DARWIN"
	Win32  Platform = "WIN32"
	Linux  Platform = "LINUX"
)

// Arch is a processor architecture.
type Arch string

// The architectures. A Universal release runs on all of its platform.
const (
	X64       Arch = "X64"
	ARM64     Arch = "ARM64"
	Universal Arch = "UNIVERSAL"
)

// Channel is a release channel, to which devices subscribe.
type Channel string

const (
	Stable Channel = "STABLE"
	Beta   Channel = "BETA"
	Canary Channel = "CANARY"
)

// All values, which are never changed.
var (
	platforms = []Platform{Darwin, Win32, Linux}
	arches    = []Arch{X64, ARM64, Universal}
	channels  = []Channel{Stable, Beta, Canary}
)

// ParsePlatform reads a platform in any case. Invalid for any other.
func ParsePlatform(field, s string) (Platform, error) { return parse(field, s, platforms) }

// ParseArch reads an architecture in any case. Invalid for any other.
func ParseArch(field, s string) (Arch, error) { return parse(field, s, arches) }

// ParseChannel reads a channel in any case. Invalid for any other.
func ParseChannel(field, s string) (Channel, error) { return parse(field, s, channels) }

func parse[T ~string](field, s string, all []T) (T, error) {
	for _, v := range all {
		if strings.EqualFold(s, string(v)) {
			return v, nil
		}
	}
	names := make([]string, len(all))
	for i, v := range all {
		names[i] = strings.ToLower(string(v))
	}
	return "", fault.Field(field, "must be one of %s", strings.Join(names, ", "))
}

// Bounds.
const (
	maxNotes     = 64 << 10 // characters of release notes
	maxOSVersion = 100      // characters
	maxSignature = 8 << 10  // characters
	maxFileSize  = 1 << 40  // bytes
)

// Target is the platform, architecture and channel of a release. A target has at most one release of a version.
type Target struct {
	Platform Platform
	Arch     Arch
	Channel  Channel
}

// Compare orders targets by platform, architecture and channel.
func (t Target) Compare(o Target) int {
	return cmp.Or(cmp.Compare(t.Platform, o.Platform), cmp.Compare(t.Arch, o.Arch), cmp.Compare(t.Channel, o.Channel))
}

// Within reports whether t is among the targets that of selects; an empty field selects all.
func (t Target) Within(of Target) bool {
	return (of.Platform == "" || of.Platform == t.Platform) && (of.Arch == "" || of.Arch == t.Arch) && (of.Channel == "" || of.Channel == t.Channel)
}

// Release is a version of the application for one target, as it is offered.
// Releases are the deployment's, not an organisation's.
type Release struct {
	ID      id.Release
	Version Version
	Target
	Settings
	Guard
	PublishedAt time.Time
	UpdatedAt   time.Time
}

// Entry has the fields of a release that decide which devices it is offered to,
// without the settings that the offer contains.
type Entry struct {
	ID      id.Release
	Version Version
	Target
	Rollout int
	Active  bool
	Paused  bool
}

// Entry returns the fields that decide which devices the release is offered to.
func (r Release) Entry() Entry {
	return Entry{r.ID, r.Version, r.Target, r.Rollout, r.Active, r.PausedAt != nil}
}

// MaxReleases is how many releases a deployment has at most. Each server has the
// entries of all of them in memory.
const MaxReleases = 10_000

// CheckLimit decides whether a deployment with so many releases may publish one more.
func CheckLimit(releases int) error {
	if releases >= MaxReleases {
		return fault.New(fault.Conflict, "There are %d releases already, which is the most that there can be", MaxReleases)
	}
	return nil
}

// Settings are the fields of a release that can be changed. Nil: not given.
type Settings struct {
	DownloadURL   string
	SHA512        *string // of the download, in hexadecimal
	SHA1          *string // of the download, in hexadecimal, for updaters that want it
	FileSizeBytes *int64
	Notes         *string // Markdown
	MinOSVersion  *string
	Signature     *string
	Mandatory     bool
	Rollout       int // percent of all devices
	Active        bool
}

// Draft has the fields of a new release, as texts.
type Draft struct {
	Version     string
	Platform    string
	Arch        string
	Channel     string // empty: stable
	Settings    Settings
	Guard       GuardPatch
	PublishedAt *time.Time // nil: now
}

// Hosts are where downloads may come from.
type Hosts struct {
	Names      []string               // empty: any
	AllowsHTTP func(host string) bool // reports whether http is allowed, not https alone; nil: it never is
}

// New makes a release at now.
func New(releaseID id.Release, d Draft, from Hosts, now time.Time) (Release, error) {
	r := Release{ID: releaseID, Settings: d.Settings, PublishedAt: now, UpdatedAt: now}
	if d.PublishedAt != nil {
		r.PublishedAt = storedTime(*d.PublishedAt)
	}
	if d.Channel == "" {
		d.Channel = string(Stable)
	}
	var c check.List
	var err error
	r.Version, err = ParseVersion(d.Version)
	c.AddError(err)
	r.Platform, err = ParsePlatform("platform", d.Platform)
	c.AddError(err)
	r.Arch, err = ParseArch("arch", d.Arch)
	c.AddError(err)
	r.Channel, err = ParseChannel("channel", d.Channel)
	c.AddError(err)
	from.check(&c, r.DownloadURL)
	r.check(&c)
	return r, c.Err()
}

// Patch is a change of some settings.
type Patch struct {
	DownloadURL   patch.Field[string]
	SHA512        patch.Field[string]
	SHA1          patch.Field[string]
	FileSizeBytes patch.Field[int64]
	Notes         patch.Field[string]
	MinOSVersion  patch.Field[string]
	Signature     patch.Field[string]
	Mandatory     patch.Field[bool]
	Rollout       patch.Field[int]
	Active        patch.Field[bool]
	PublishedAt   patch.Field[time.Time]
	GuardPatch
}

// Apply returns the release after a change at now. UpdatedAt stays if the change
// has no effect.
func (r Release) Apply(p Patch, from Hosts, now time.Time) (Release, error) {
	var c check.List
	was := r
	set(&c, "downloadUrl", p.DownloadURL, &r.DownloadURL)
	set(&c, "mandatory", p.Mandatory, &r.Mandatory)
	set(&c, "rolloutPercentage", p.Rollout, &r.Rollout)
	set(&c, "active", p.Active, &r.Active)
	set(&c, "publishedAt", p.PublishedAt, &r.PublishedAt)
	r.PublishedAt = storedTime(r.PublishedAt)
	r.SHA512 = p.SHA512.Over(r.SHA512)
	r.SHA1 = p.SHA1.Over(r.SHA1)
	r.FileSizeBytes = p.FileSizeBytes.Over(r.FileSizeBytes)
	r.Notes = p.Notes.Over(r.Notes)
	r.MinOSVersion = p.MinOSVersion.Over(r.MinOSVersion)
	r.Signature = p.Signature.Over(r.Signature)
	paused := r.PausedAt != nil
	if value, ok := p.Paused.Get(); ok {
		paused = value
	}
	// A release on a host that is not allowed any more can still be withdrawn.
	if r.DownloadURL != was.DownloadURL || r.Active && r.Rollout > 0 && !paused {
		from.check(&c, r.DownloadURL)
	}
	r.check(&c)
	if !r.Same(was) {
		r.UpdatedAt = now
	}
	return r, c.Err()
}

// Same reports whether two states of a release have the same settings and guard.
func (r Release) Same(was Release) bool {
	return r.Guard.same(was.Guard) && r.DownloadURL == was.DownloadURL && equal(r.SHA512, was.SHA512) && equal(r.SHA1, was.SHA1) &&
		equal(r.FileSizeBytes, was.FileSizeBytes) && equal(r.Notes, was.Notes) && equal(r.MinOSVersion, was.MinOSVersion) &&
		equal(r.Signature, was.Signature) && r.Mandatory == was.Mandatory && r.Rollout == was.Rollout && r.Active == was.Active &&
		r.PublishedAt.Equal(was.PublishedAt)
}

func equal[T comparable](a, b *T) bool {
	return a == b || a != nil && b != nil && *a == *b
}

// storedTime returns a time in the precision in which it is stored.
func storedTime(t time.Time) time.Time { return t.UTC().Truncate(time.Millisecond) }

// set changes a setting that cannot be null.
func set[T any](c *check.List, field string, p patch.Field[T], to *T) {
	if v, ok := check.NonNull(c, field, p); ok {
		*to = v
	}
}

// check checks the settings but the address, and normalises the digests.
func (r *Release) check(c *check.List) {
	if r.SHA512 != nil {
		r.SHA512 = digest(c, "sha512", *r.SHA512, sha512.Size)
	}
	if r.SHA1 != nil {
		r.SHA1 = digest(c, "sha1", *r.SHA1, sha1Size)
	}
	if r.FileSizeBytes != nil && (*r.FileSizeBytes < 0 || *r.FileSizeBytes > maxFileSize) {
		c.Add("fileSizeBytes", "must be 0 to %d", int64(maxFileSize))
	}
	for _, t := range []struct {
		field string
		value *string
		limit int
	}{{"releaseNotes", r.Notes, maxNotes}, {"minOsVersion", r.MinOSVersion, maxOSVersion}, {"signature", r.Signature, maxSignature}} {
		if t.value != nil {
			c.Text(t.field, *t.value, t.limit)
		}
	}
	if r.Rollout < 0 || r.Rollout > 100 {
		c.Add("rolloutPercentage", "must be 0 to 100")
	}
}

// Describe describes the release in a few words.
func (r Release) Describe() string {
	return fmt.Sprintf("%s %s %s %s, %s", r.Version, r.Platform, r.Arch, r.Channel, r.state())
}

func (r Release) state() string {
	s := fmt.Sprintf("%d %%", r.Rollout)
	if r.Mandatory {
		s += ", mandatory"
	}
	if !r.Active {
		s += ", not active"
	}
	if r.PausedAt != nil {
		s += ", paused"
	}
	if r.FailureLimit != nil {
		s += fmt.Sprintf(", at most %d %% failures", *r.FailureLimit)
	}
	return s
}

// Difference describes in a few words how the release was changed to now.
func (r Release) Difference(now Release) string {
	s := now.Describe()
	if was := r.state(); was != now.state() {
		s += ", was " + was
	}
	if r.DownloadURL != now.DownloadURL {
		s += ", another download"
	}
	return s
}

const sha1Size = 20 // bytes

// digest returns a digest of so many bytes in hexadecimal, which may come in base64.
func digest(c *check.List, field, s string, size int) *string {
	raw, err := hex.DecodeString(s)
	if err != nil || len(raw) != size {
		if raw, err = base64.StdEncoding.DecodeString(s); err != nil || len(raw) != size {
			c.Add(field, "must be the digest in hexadecimal or base64")
			return nil
		}
	}
	return new(hex.EncodeToString(raw))
}

// Base64 returns a digest that is kept in hexadecimal in base64.
func Base64(digest string) string {
	raw, _ := hex.DecodeString(digest) // checked when stored
	return base64.StdEncoding.EncodeToString(raw)
}

// check checks the address of a download.
func (h Hosts) check(c *check.List, address string) {
	const field = "downloadUrl"
	if len(address) > check.MaxURL {
		c.Add(field, "must be at most %d characters", check.MaxURL)
		return
	}
	scheme, rest, ok := strings.Cut(address, "://")
	authority := rest
	if i := strings.IndexAny(rest, "/?#"); i >= 0 {
		authority = rest[:i]
	}
	host, port := authority, ""
	if i := strings.LastIndexByte(authority, ':'); i > strings.LastIndexByte(authority, ']') {
		host, port = authority[:i], authority[i+1:]
	}
	host = strings.ToLower(host)
	ok = ok && isHost(host) && isPort(port) && !strings.ContainsAny(rest, "\"<>\\^`{|}") && printable(rest)
	switch strings.ToLower(scheme) {
	case "https":
	case "http":
		ok = ok && h.AllowsHTTP != nil && h.AllowsHTTP(strings.Trim(host, "[]"))
	default:
		ok = false
	}
	if !ok {
		c.Add(field, "must be an https address")
		return
	}
	if len(h.Names) > 0 && !slices.ContainsFunc(h.Names, func(name string) bool { return strings.EqualFold(name, host) }) {
		c.Add(field, "must be on one of the hosts that releases come from")
	}
}

// printable reports whether s is printable ASCII, as addresses are.
func printable(s string) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

const digits = "0123456789"

// isHost reports whether s, in lower case, is a name, an IPv4 address or, in
// brackets, an IPv6 address, as far as their characters tell.
func isHost(s string) bool {
	if inner, ok := strings.CutPrefix(s, "["); ok {
		inner, ok = strings.CutSuffix(inner, "]")
		return ok && inner != "" && strings.Trim(inner, digits+"abcdef:.") == ""
	}
	return s != "" && strings.Trim(s, digits+"abcdefghijklmnopqrstuvwxyz-._") == ""
}

// isPort reports whether s is empty or a valid port. Updaters fail on an address
// with another one.
func isPort(s string) bool {
	_, err := strconv.ParseUint(s, 10, 16)
	return s == "" || err == nil && len(s) <= 5
}
