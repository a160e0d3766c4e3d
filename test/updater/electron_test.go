package updater

import (
	"crypto/sha512"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"collab/domain/release"
	"collab/test/collabd"
)

// ids returns ids of devices as electron-updater makes them, one that a rollout to
// ten percent reaches and one that it does not.
func ids(t *testing.T) (reached, missed string) {
	t.Helper()
	for n := 0; reached == "" || missed == ""; n++ {
		id := fmt.Sprintf("6ba7b810-9dad-51d1-80b4-%012x", n)
		if release.Bucket(id) < 10 {
			reached = id
		} else {
			missed = id
		}
	}
	return reached, missed
}

const notes = "*New*: \"quoted\" 'single' # no comment\n- a: b\n\t{x: [1]} & <b>é😀</b>\u2028\u0085\\ %\n---\nversion: 9.9.9\n"

func TestElectronUpdater(t *testing.T) {
	u := install(t)
	s := collabd.Start(t)
	owner := s.SignIn(t, "ada@collab.example", "Analytical Engines", "owner")
	reached, missed := ids(t)

	content := "the installer"
	files := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, content) }))
	t.Cleanup(files.Close)
	sum := sha512.Sum512([]byte(content))
	publish := func(version, platform, arch, file string, percent int, more ...map[string]any) (id string) {
		t.Helper()
		body := map[string]any{
			"version": version, "platform": platform, "arch": arch, "downloadUrl": files.URL + "/" + file, "rolloutPercentage": percent,
			"sha512": hex.EncodeToString(sum[:]), "fileSizeBytes": len(content), "releaseNotes": notes,
		}
		for _, m := range more {
			for name, value := range m {
				body[name] = value
			}
		}
		var made struct{ ID string }
		owner.Must(t, http.StatusCreated, "POST", "/updates", body, &made)
		return made.ID
	}
	change := func(id string, body map[string]any) {
		t.Helper()
		owner.Must(t, http.StatusOK, "PATCH", "/updates/"+id, body, nil)
	}
	feed := s.URL + "/api/v1/updates/feeds/electron"
	windows := device{Platform: "win32", Arch: "x64", Version: "1.0.0", ID: missed, URL: feed}
	with := func(d device, change func(*device)) device {
		change(&d)
		return d
	}
	none := func(t *testing.T, responses ...feedResult) {
		t.Helper()
		for i, a := range responses {
			if a.Available || a.Error != "" {
				t.Errorf("the device %d is told %+v", i, a)
			}
		}
	}

	t.Run("nothing is published", func(t *testing.T) {
		responses := u.check(windows,
			with(windows, func(d *device) { d.Platform = "darwin" }),
			with(windows, func(d *device) { d.Platform = "linux" }),
			with(windows, func(d *device) { d.Platform, d.Arch = "linux", "arm64" }),
			with(windows, func(d *device) { d.Channel = "beta" }))
		none(t, responses...)
		if !responses[4].AllowDowngrade {
			t.Error("a channel does not allow to go back any more")
		}
	})

	id := publish("2.0.0", "WIN32", "X64", "App-2.0.0.exe", 10, map[string]any{"publishedAt": "2026-01-02T03:04:05.678Z"})
	t.Run("a rollout reaches some devices", func(t *testing.T) {
		responses := u.check(windows, with(windows, func(d *device) { d.ID = reached }))
		none(t, responses[0])
		if a := responses[1]; !a.Available || a.Version != "2.0.0" || a.Notes == nil || *a.Notes != notes || a.Date != "2026-01-02T03:04:05.678Z" || a.File != files.URL+"/App-2.0.0.exe" {
			t.Errorf("who is reached is told %+v", a)
		}
	})
	t.Run("a device that is left out does not go back either", func(t *testing.T) {
		newer := with(windows, func(d *device) { d.Version, d.Channel = "3.0.0", "latest" })
		// An application that takes itself to be in every rollout has to tell its version.
		none(t, u.check(newer, with(newer, func(d *device) { d.Everybody, d.URL = true, feed+"?version=3.0.0" }))...)
	})
	t.Run("a device that is left out has nothing to download", func(t *testing.T) {
		if a := u.check(with(windows, func(d *device) { d.Version, d.Channel, d.Everybody, d.Download = "3.0.0", "latest", true, true }))[0]; a.Error != "ERR_UPDATER_NO_FILES_PROVIDED" || a.Content != "" {
			t.Errorf("it is told %+v", a)
		}
	})
	t.Run("a device that is newer goes back only if it tells no version", func(t *testing.T) {
		newer := with(windows, func(d *device) { d.Version, d.Channel, d.ID = "3.0.0", "latest", reached })
		responses := u.check(newer, with(newer, func(d *device) { d.URL += "?version=3.0.0" }), with(newer, func(d *device) { d.Channel = "" }))
		if !responses[0].Available {
			t.Errorf("an application that allows it is told %+v", responses[0])
		}
		none(t, responses[1:]...)
	})

	change(id, map[string]any{"rolloutPercentage": 100})
	t.Run("a rollout is raised", func(t *testing.T) {
		responses := u.check(with(windows, func(d *device) { d.Download = true }), with(windows, func(d *device) { d.Version = "2.0.0" }))
		if a := responses[0]; !a.Available || a.Error != "" || a.Content != content {
			t.Errorf("it is told %+v", a)
		}
		none(t, responses[1])
	})
	t.Run("a file is not what was published", func(t *testing.T) {
		change(id, map[string]any{"sha512": hex.EncodeToString(make([]byte, sha512.Size))})
		if a := u.check(with(windows, func(d *device) { d.Download = true }))[0]; a.Error != "ERR_CHECKSUM_MISMATCH" || a.Content != "" {
			t.Errorf("it is told %+v", a)
		}
		change(id, map[string]any{"sha512": nil})
		none(t, u.check(windows)...)
	})

	t.Run("macOS", func(t *testing.T) {
		mac := device{Platform: "darwin", Arch: "x64", Version: "1.0.0", ID: missed, URL: feed}
		arm := with(mac, func(d *device) { d.Arch = "arm64" })
		publish("2.0.0", "DARWIN", "X64", "App-2.0.0-mac.zip", 100, map[string]any{"minOsVersion": "99.0.0"})
		if a := u.check(mac)[0]; a.File != files.URL+"/App-2.0.0-mac.zip" {
			t.Errorf("X64 is told %+v", a)
		}
		publish("2.0.0", "DARWIN", "ARM64", "App-2.0.0-arm64-mac.zip", 100)
		for i, a := range u.check(mac, arm, with(arm, func(d *device) { d.URL += "?arch=arm64" })) {
			if want := files.URL + "/" + []string{"App-2.0.0-mac.zip", "App-2.0.0-arm64-mac.zip", "App-2.0.0-arm64-mac.zip?arch=arm64"}[i]; a.File != want {
				t.Errorf("the device %d is told %+v, not of %s", i, a, want)
			}
		}
		publish("2.1.0", "DARWIN", "UNIVERSAL", "App-2.1.0-universal.zip", 100)
		for i, a := range u.check(mac, arm) {
			if a.File != files.URL+"/App-2.1.0-universal.zip" {
				t.Errorf("the device %d is told %+v", i, a)
			}
		}
	})
	t.Run("Linux", func(t *testing.T) {
		publish("2.0.0", "LINUX", "X64", "App-2.0.0.AppImage", 100)
		publish("2.0.1", "LINUX", "ARM64", "App-2.0.1-arm64.AppImage", 100, map[string]any{"minOsVersion": "999.0.0"})
		publish("2.1.0-beta.1", "LINUX", "X64", "App-2.1.0-beta.1.AppImage", 100, map[string]any{"channel": "BETA"})
		linux := device{Platform: "linux", Arch: "x64", Version: "1.0.0", ID: missed, URL: feed}
		responses := u.check(linux, with(linux, func(d *device) { d.Channel = "beta" }), with(linux, func(d *device) { d.Arch = "arm64" }))
		if responses[0].File != files.URL+"/App-2.0.0.AppImage" || responses[1].File != files.URL+"/App-2.1.0-beta.1.AppImage" {
			t.Errorf("they are told %+v", responses)
		}
		if a := responses[2]; a.Available || a.Version != "2.0.1" {
			t.Errorf("a kernel that is too old is told %+v", a)
		}
	})
}
