package release_test

import (
	"encoding/base64"
	"encoding/hex"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/patch"
	"collab/domain/release"
	"collab/test/must"
)

const releaseID id.Release = "00000000-0000-7000-8000-000000000001"

var (
	now     = time.Date(2026, 1, 2, 3, 4, 5, 678_000_000, time.UTC)
	anyHost release.Hosts
)

func draft() release.Draft {
	return release.Draft{Version: "1.2.3", Platform: "DARWIN", Arch: "ARM64", Settings: release.Settings{DownloadURL: "https://dl.example.com/a.zip", Rollout: 100, Active: true}}
}

func made(t testing.TB) release.Release {
	t.Helper()
	return must.Do(release.New(releaseID, draft(), anyHost, now)).Or(t)
}

// fields returns the fields that an error complains of.
func fields(err error) (all []string) {
	var f *fault.Error
	if errors.As(err, &f) {
		for _, p := range f.Problems {
			all = append(all, p.Field)
		}
	}
	return all
}

func TestEnumerationsAreReadInAnyCase(t *testing.T) {
	for _, s := range []string{"darwin", "DARWIN", "Darwin", "dArWiN"} {
		if p, err := release.ParsePlatform("platform", s); err != nil || p != release.Darwin {
			t.Errorf("%q is %q, %v", s, p, err)
		}
	}
	for _, s := range []string{"", " darwin", "darwin ", "darwin\n", "macos", "x64,darwin", "*", "darwin\x00", "\xff", "ｌｉｎｕｘ"} {
		if p, err := release.ParsePlatform("platform", s); !fault.Is(err, fault.Invalid) || !slices.Equal(fields(err), []string{"platform"}) {
			t.Errorf("%q is %q, %v", s, p, err)
		}
	}
}

func TestADraftBecomesARelease(t *testing.T) {
	d := draft()
	d.Version, d.Platform, d.Arch = "v1.2-rc.1+b", "win32", "x64"
	r, err := release.New(releaseID, d, anyHost, now)
	must.NoError(t, err)
	want := release.Target{Platform: release.Win32, Arch: release.X64, Channel: release.Stable}
	if r.ID != releaseID || r.Version.String() != "1.2.0-rc.1+b" || r.Target != want || r.PublishedAt != now || r.UpdatedAt != now || !reflect.DeepEqual(r.Settings, d.Settings) {
		t.Errorf("it is %+v", r)
	}
	d.Channel = "canary"
	d.PublishedAt = new(time.Date(2031, 1, 2, 3, 4, 5, 678_999_999, time.FixedZone("east", 3600)))
	r, err = release.New(releaseID, d, anyHost, now)
	if err != nil || r.Channel != release.Canary || r.PublishedAt != time.Date(2031, 1, 2, 2, 4, 5, 678_000_000, time.UTC) || r.UpdatedAt != now {
		t.Errorf("it is %+v, %v", r, err)
	}
}

func TestADraftReportsAllProblems(t *testing.T) {
	_, err := release.New(releaseID, release.Draft{
		Version: "latest", Platform: "macos", Arch: "x86", Channel: "nightly", Settings: release.Settings{
			DownloadURL: "ftp://a/b", SHA512: new("x"), SHA1: new("x"), FileSizeBytes: new(int64(-1)), Notes: new("\x00"),
			MinOSVersion: new("\xff"), Signature: new("\x00"), Rollout: 101,
		},
	}, anyHost, now)
	want := []string{"version", "platform", "arch", "channel", "downloadUrl", "sha512", "sha1", "fileSizeBytes", "releaseNotes", "minOsVersion", "signature", "rolloutPercentage"}
	if got := fields(err); !fault.Is(err, fault.Invalid) || !slices.Equal(got, want) {
		t.Errorf("complaints about %q, %v", got, err)
	}
}

func TestTheBoundsOfSettings(t *testing.T) {
	text := func(n int) *string { return new(strings.Repeat("ü", n)) }
	for _, c := range []struct {
		field string
		set   func(*release.Settings)
		ok    bool
	}{
		{"rolloutPercentage", func(s *release.Settings) { s.Rollout = 0 }, true},
		{"rolloutPercentage", func(s *release.Settings) { s.Rollout = 100 }, true},
		{"rolloutPercentage", func(s *release.Settings) { s.Rollout = -1 }, false},
		{"rolloutPercentage", func(s *release.Settings) { s.Rollout = 101 }, false},
		{"fileSizeBytes", func(s *release.Settings) { s.FileSizeBytes = new(int64(0)) }, true},
		{"fileSizeBytes", func(s *release.Settings) { s.FileSizeBytes = new(int64(1 << 40)) }, true},
		{"fileSizeBytes", func(s *release.Settings) { s.FileSizeBytes = new(int64(1<<40 + 1)) }, false},
		{"fileSizeBytes", func(s *release.Settings) { s.FileSizeBytes = new(int64(-1)) }, false},
		{"releaseNotes", func(s *release.Settings) { s.Notes = new("") }, true},
		{"releaseNotes", func(s *release.Settings) { s.Notes = text(64 << 10) }, true},
		{"releaseNotes", func(s *release.Settings) { s.Notes = text(64<<10 + 1) }, false},
		{"minOsVersion", func(s *release.Settings) { s.MinOSVersion = text(100) }, true},
		{"minOsVersion", func(s *release.Settings) { s.MinOSVersion = text(101) }, false},
		{"signature", func(s *release.Settings) { s.Signature = text(8 << 10) }, true},
		{"signature", func(s *release.Settings) { s.Signature = text(8<<10 + 1) }, false},
		{"downloadUrl", func(s *release.Settings) { s.DownloadURL = "https://a/" + strings.Repeat("b", 2038) }, true},
		{"downloadUrl", func(s *release.Settings) { s.DownloadURL = "https://a/" + strings.Repeat("b", 2039) }, false},
	} {
		d := draft()
		c.set(&d.Settings)
		_, err := release.New(releaseID, d, anyHost, now)
		if c.ok && err != nil || !c.ok && !slices.Equal(fields(err), []string{c.field}) {
			t.Errorf("%s gives %v, want one that is fine: %t", c.field, err, c.ok)
		}
	}
}

func TestDigestsAreKeptInHexadecimal(t *testing.T) {
	for _, size := range []int{64, 20} {
		raw := make([]byte, size)
		for i := range raw {
			raw[i] = byte(251 - i)
		}
		inHex, inBase64 := hex.EncodeToString(raw), base64.StdEncoding.EncodeToString(raw)
		other := make([]byte, 84-size)
		of := func(s string) (*string, error) {
			d := draft()
			if size == 64 {
				d.Settings.SHA512 = &s
			} else {
				d.Settings.SHA1 = &s
			}
			r, err := release.New(releaseID, d, anyHost, now)
			if size == 64 {
				return r.SHA512, err
			}
			return r.SHA1, err
		}
		for _, s := range []string{inHex, strings.ToUpper(inHex), inBase64} {
			if got, err := of(s); err != nil || got == nil || *got != inHex || release.Base64(*got) != inBase64 {
				t.Errorf("%q is kept as %v, %v", s, got, err)
			}
		}
		for _, s := range []string{
			"", " ", inHex[2:], inHex + "00", inHex[1:], "g" + inHex[1:], " " + inHex, "0x" + inHex[2:], hex.EncodeToString(other), base64.StdEncoding.EncodeToString(other),
			base64.RawStdEncoding.EncodeToString(raw), base64.URLEncoding.EncodeToString(raw), "sha512-" + inBase64, inBase64 + "=", base64.StdEncoding.EncodeToString([]byte(inHex)), strings.Repeat("\x00", size),
		} {
			if got, err := of(s); !fault.Is(err, fault.Invalid) {
				t.Errorf("%q is kept as %v, %v", s, got, err)
			}
		}
	}
}

func TestPatches(t *testing.T) {
	r := made(t)
	r.SHA512, r.SHA1, r.FileSizeBytes = new(strings.Repeat("0a", 64)), new(strings.Repeat("0b", 20)), new(int64(7))
	r.Notes, r.MinOSVersion, r.Signature = new("n"), new("m"), new("s")
	later := now.Add(time.Hour)

	got, err := r.Apply(release.Patch{}, anyHost, later)
	if err != nil || !reflect.DeepEqual(got, r) || !got.Same(r) {
		t.Errorf("a patch of nothing makes %+v, %v", got, err)
	}
	got, err = r.Apply(release.Patch{
		DownloadURL: patch.Value(r.DownloadURL), SHA512: patch.Value(strings.Repeat("0A", 64)), SHA1: patch.Value(*r.SHA1), FileSizeBytes: patch.Value(int64(7)),
		Notes: patch.Value("n"), MinOSVersion: patch.Value("m"), Signature: patch.Value("s"), Mandatory: patch.Value(r.Mandatory), Rollout: patch.Value(r.Rollout), Active: patch.Value(r.Active),
		PublishedAt: patch.Value(r.PublishedAt.In(time.FixedZone("west", -3600))),
	}, anyHost, later)
	if err != nil || !reflect.DeepEqual(got, r) || !got.Same(r) {
		t.Errorf("a patch of what is there makes %+v, %v", got, err)
	}
	for i, one := range []release.Patch{
		{DownloadURL: patch.Value("https://b/c")}, {SHA512: patch.Value(strings.Repeat("00", 64))}, {SHA512: patch.Null[string]()}, {SHA1: patch.Value(strings.Repeat("00", 20))},
		{FileSizeBytes: patch.Value(int64(8))}, {Notes: patch.Value("")}, {Notes: patch.Null[string]()}, {MinOSVersion: patch.Value("")}, {Signature: patch.Value("")},
		{Mandatory: patch.Value(!r.Mandatory)}, {Rollout: patch.Value(r.Rollout - 1)}, {Active: patch.Value(!r.Active)}, {PublishedAt: patch.Value(r.PublishedAt.Add(time.Millisecond))},
	} {
		if got, err := r.Apply(one, anyHost, later); err != nil || got.Same(r) || !got.UpdatedAt.Equal(later) {
			t.Errorf("patch %d makes %+v, %v", i, got, err)
		}
	}

	raw := make([]byte, 64)
	got, err = r.Apply(release.Patch{
		DownloadURL: patch.Value("https://b/c"), SHA512: patch.Value(base64.StdEncoding.EncodeToString(raw)), SHA1: patch.Value(strings.Repeat("AB", 20)), FileSizeBytes: patch.Value(int64(0)),
		Notes: patch.Value(""), MinOSVersion: patch.Value("15"), Signature: patch.Value("t"), Mandatory: patch.Value(true), Rollout: patch.Value(0), Active: patch.Value(false),
		PublishedAt: patch.Value(now.Add(time.Nanosecond).In(time.FixedZone("west", -3600))),
	}, anyHost, later)
	want := release.Release{
		ID: r.ID, Version: r.Version, Target: r.Target, PublishedAt: now, UpdatedAt: later, Settings: release.Settings{
			DownloadURL: "https://b/c", SHA512: new(strings.Repeat("00", 64)), SHA1: new(strings.Repeat("ab", 20)), FileSizeBytes: new(int64(0)),
			Notes: new(""), MinOSVersion: new("15"), Signature: new("t"), Mandatory: true,
		},
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("a patch of everything makes %+v, %v", got, err)
	}

	got, err = r.Apply(release.Patch{
		SHA512: patch.Null[string](), SHA1: patch.Null[string](), FileSizeBytes: patch.Null[int64](), Notes: patch.Null[string](), MinOSVersion: patch.Null[string](), Signature: patch.Null[string](),
	}, anyHost, later)
	if err != nil || got.SHA512 != nil || got.SHA1 != nil || got.FileSizeBytes != nil || got.Notes != nil || got.MinOSVersion != nil || got.Signature != nil {
		t.Errorf("a patch of nulls makes %+v, %v", got, err)
	}

	_, err = r.Apply(release.Patch{
		DownloadURL: patch.Null[string](), Mandatory: patch.Null[bool](), Rollout: patch.Null[int](), Active: patch.Null[bool](), PublishedAt: patch.Null[time.Time](),
	}, anyHost, later)
	if got := fields(err); !slices.Equal(got, []string{"downloadUrl", "mandatory", "rolloutPercentage", "active", "publishedAt"}) {
		t.Errorf("nulls where there are none give %v", err)
	}

	_, err = r.Apply(release.Patch{
		DownloadURL: patch.Value("http://b/c"), SHA512: patch.Value(""), SHA1: patch.Value("z"), FileSizeBytes: patch.Value(int64(-1)), Rollout: patch.Value(101),
	}, anyHost, later)
	if got := fields(err); !slices.Equal(got, []string{"downloadUrl", "sha512", "sha1", "fileSizeBytes", "rolloutPercentage"}) {
		t.Errorf("what is wrong gives %v", err)
	}
	if *r.SHA512 != strings.Repeat("0a", 64) || *r.Notes != "n" || r.Rollout != 100 {
		t.Errorf("the release itself has become %+v", r)
	}

	// Its host is not one of those that are allowed now.
	narrowed := release.Hosts{Names: []string{"elsewhere.example"}}
	withdrawn, stopped := r, r
	withdrawn.Active, stopped.PausedAt = false, &later
	for about, change := range map[string]struct {
		of      release.Release
		p       release.Patch
		refused bool
	}{
		"a withdrawal":      {r, release.Patch{Active: patch.Value(false)}, false},
		"a pause":           {r, release.Patch{GuardPatch: release.GuardPatch{Paused: patch.Value(true)}}, false},
		"a rollout of 0 %":  {r, release.Patch{Rollout: patch.Value(0)}, false},
		"notes":             {r, release.Patch{Notes: patch.Value("x")}, true},
		"another address":   {withdrawn, release.Patch{DownloadURL: patch.Value("https://b/c")}, true},
		"an activation":     {withdrawn, release.Patch{Active: patch.Value(true)}, true},
		"a resumption":      {stopped, release.Patch{GuardPatch: release.GuardPatch{Paused: patch.Value(false)}}, true},
		"notes while it is": {stopped, release.Patch{Notes: patch.Value("x")}, false},
	} {
		if _, err := change.of.Apply(change.p, narrowed, later); slices.Equal(fields(err), []string{"downloadUrl"}) != change.refused {
			t.Errorf("%s on a host that is not allowed any more: %v", about, err)
		}
	}
}

func TestWhereDownloadsComeFrom(t *testing.T) {
	named := release.Hosts{Names: []string{"dl.example.com", "CDN.example.com", "[2001:db8::1]", "10.0.0.1"}}
	isLocal := func(host string) bool { return slices.Contains([]string{"localhost", "127.0.0.1", "::1"}, host) }
	local := release.Hosts{AllowsHTTP: isLocal}
	for _, c := range []struct {
		from release.Hosts
		good []string
		bad  []string
	}{
		{anyHost, []string{
			"https://a", "https://a/", "HTTPS://A/b", "https://a:8443/b?c=d#e", "https://a:65535/b", "https://a?b", "https://a#b", "https://a:/b", "https://1.2.3.4/a", "https://[2001:db8::1]:443/a", "https://[::ffff:1.2.3.4]/a",
			"https://xn--bcher-kva.example/a", "https://a_b.example/a", "https://a./b", "https://a/b@c:d", "https://a/?u=https://b@c", "https://a/b%20c", "https://a/%", "https://a//b", "https://a/b'c&d;e", "https://127.0.0.1/a",
		}, []string{
			"", "a", "/a", "//a/b", "https:", "https:/a", "https://", "https:///a", "https://?a", "https://#a", "https://:443/a", "http://a/b", "ftp://a/b", "file:///etc/passwd", "javascript:alert(1)", "javascript://a/%0aalert(1)",
			"data:text/html,a", "htt ps://a", " https://a", "https://a ", "https://a/b c", "https://a/b\n", "https://a/\r\nSet-Cookie: a", "https://a\t/b", "https://a/b\x00", "https://a/b\x7f", "https://a/ü", "https://a/\xff",
			"https://user@a/b", "https://user:secret@a/b", "https://@a/b", "https://a@b@c/d", "https://a\\b", "https://a/\\b", "https:\\\\a\\b", "https://a/b\"c", "https://a/<b>", "https://a/b`c", "https://a/{b}", "https://a/b|c", "https://a/b^c",
			"https://bücher.example/a", "https://a。b/c", "https://\u212aelvin/a", "https://a%2eb/c", "https://%61/b", "https://a:b/c", "https://a:443:443/b", "https://a:-1/b", "https://a:123456/b", "https://a:65536/b", "https://a:000443/b", "https://a:+443/b", "https://a,b/c", "https://a b/c", "https://a*/b",
			"https://[::1", "https://::1]/a", "https://[]/a", "https://[::1%25eth0]/a", "https://[g::1]/a", "https://[::1]a/b", "https://a[::1]/b", "https://2001:db8::1/a", "http://localhost/a", "http://127.0.0.1/a", "https:https://a/b", "https+x://a/b",
		}},
		{named, []string{
			"https://dl.example.com/a", "https://DL.Example.COM/a", "https://dl.example.com", "https://dl.example.com:8443/a", "https://cdn.example.com/a", "https://[2001:DB8::1]/a", "https://[2001:db8::1]:443/a", "https://10.0.0.1/a",
		}, []string{
			"https://example.com/a", "https://a.dl.example.com/b", "https://dl.example.com.evil.example/a", "https://evil.example/dl.example.com", "https://evil.example?dl.example.com", "https://evil.example#dl.example.com",
			"https://dl.example.com@evil.example/a", "https://dl.example.com:443@evil.example/a", "https://evil.example@dl.example.com/a", "https://evil.example\\@dl.example.com/a", "https://dl.example.com\\@evil.example/a", "https://dl.example.com\\.evil.example/a",
			"https://dl.example.com%2f.evil.example/a", "https://dl.example.com%00.evil.example/a", "https://dl.example.com./a", "https://.dl.example.com/a", "https://dl.example.com:evil.example/a", "https://dl.example.com:80:evil.example/a",
			"https://dl.examp\u2113e.com/a", "https://dl.example。com/a", "https://dl\u00ad.example.com/a", "http://dl.example.com/a", "https://[2001:db8::2]/a", "https://2001:db8::1/a", "https://[2001:db8:0::1]/a", "https://10.0.1/a", "https://0xa.0.0.1/a", "https://167772161/a",
		}},
		{local, []string{
			"http://localhost/a", "http://LOCALHOST:8080/a", "http://127.0.0.1/a", "http://127.0.0.1:8080/a", "http://[::1]/a", "http://[::1]:8080/a", "https://a/b", "https://localhost/a",
		}, []string{
			"http://a/b", "http://localhost.evil.example/a", "http://127.0.0.1.evil.example/a", "http://127.evil/a", "http://evil.example/127.0.0.1", "http://127.0.0.1@evil.example/a", "http://localhost@evil.example/a", "http://evil.example\\@127.0.0.1/a",
			"http://127.1/a", "http://[::]/a", "http://[::2]/a", "http://[::1]a/a", "http://::1/a", "http://localhost./a", "http:///a", "http://:8080/a", "ftp://localhost/a", "ws://127.0.0.1/a",
		}},
		{release.Hosts{Names: []string{"127.0.0.1", "dl.example.com"}, AllowsHTTP: isLocal}, []string{"http://127.0.0.1:8080/a", "https://127.0.0.1/a", "https://dl.example.com/a"}, []string{"http://127.0.0.2/a", "http://localhost/a", "http://dl.example.com/a"}},
	} {
		of := func(address string) error {
			d := draft()
			d.Settings.DownloadURL = address
			_, err := release.New(releaseID, d, c.from, now)
			return err
		}
		for _, s := range c.good {
			if err := of(s); err != nil {
				t.Errorf("%q from %v: %v", s, c.from, err)
			}
		}
		for _, s := range c.bad {
			if err := of(s); !fault.Is(err, fault.Invalid) || !slices.Equal(fields(err), []string{"downloadUrl"}) {
				t.Errorf("%q from %v: %v", s, c.from, err)
			}
		}
	}
}

func TestDescriptionsOfReleases(t *testing.T) {
	r := made(t)
	if got, want := r.Describe(), "1.2.3 DARWIN ARM64 STABLE, 100 %"; got != want {
		t.Errorf("it is %q, want %q", got, want)
	}
	next := r
	next.Rollout, next.Mandatory, next.Active, next.DownloadURL = 5, true, false, "https://b"
	if got, want := r.Difference(next), "1.2.3 DARWIN ARM64 STABLE, 5 %, mandatory, not active, was 100 %, another download"; got != want {
		t.Errorf("the difference is %q, want %q", got, want)
	}
	if got, want := r.Difference(r), "1.2.3 DARWIN ARM64 STABLE, 100 %"; got != want {
		t.Errorf("no difference is %q, want %q", got, want)
	}
}
