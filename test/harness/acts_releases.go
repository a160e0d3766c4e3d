package harness

import (
	"collab/app/releases"
	"collab/domain/id"
	"collab/domain/patch"
	"collab/domain/release"

	"collab/domain/fault"
)

const settings = "downloadUrl sha512 sha1 fileSizeBytes releaseNotes minOsVersion signature mandatory rolloutPercentage active publishedAt"

// releaseActs are what people do with releases, and devices that ask for them.
var releaseActs = []*act{
	{
		who: person, name: "publish", args: "version* platform* arch* channel " + settings,
		does: "Publishes a release and answers with it: id, version, platform, arch, channel, downloadUrl, sha512, fileSizeBytes, releaseNotes, minOsVersion, signature, mandatory, rolloutPercentage, active, publishedAt (POST /updates). Without `downloadUrl` there is one that leads nowhere.",
		do:   publish,
	},
	{
		who: person, name: "change-release", on: "release", args: settings,
		does: "Changes settings of a release and answers with it (PATCH /updates/:id).",
		do: func(c *call) (any, error) {
			p := release.Patch{
				DownloadURL: change(c, "downloadUrl", asText), SHA512: change(c, "sha512", asText), SHA1: change(c, "sha1", asText),
				FileSizeBytes: change(c, "fileSizeBytes", asNumber[int64]("fileSizeBytes")), Notes: change(c, "releaseNotes", asText),
				MinOSVersion: change(c, "minOsVersion", asText), Signature: change(c, "signature", asText), Mandatory: change(c, "mandatory", asFlag("mandatory")),
				Rollout: change(c, "rolloutPercentage", asNumber[int]("rolloutPercentage")), Active: change(c, "active", asFlag("active")),
			}
			if t := c.time("publishedAt"); t != nil {
				p.PublishedAt = patch.Value(*t)
			}
			return answered(c, func() (release.Release, error) { return c.Releases.Change(c.ctx, c.actor, id.Release(c.subject()), p) })
		},
	},
	{
		who: person, name: "releases",
		does: "Lists all releases, the highest version first (GET /updates/releases).",
		do: lists(func(c *call, each func(release.Release) error) error {
			return c.Releases.List(c.ctx, c.actor, "", 0, each)
		}),
	},
	{
		who: person, name: "explain-rollout", on: "release", args: "clientIds*",
		does: "Explains for devices, separated by commas, whether a release reaches them: clientId, bucket, offered, reason (GET /updates/releases/:id/rollout).",
		do: func(c *call) (any, error) {
			return answered(c, func() ([]releases.Reach, error) {
				_, all, err := c.Releases.Rollout(c.ctx, c.actor, id.Release(c.subject()), c.list("clientIds"))
				return all, err
			})
		},
	},
	{
		who: device, name: "check", args: "version* platform* arch* channel clientId",
		does: "Asks for an update (GET /updates/check): updateAvailable, currentVersion, latestVersion, mandatory, downloadUrl, channel and more.",
		do:   check,
	},
}

func publish(c *call) (any, error) {
	d := release.Draft{
		Version: c.text("version"), Platform: c.text("platform"), Arch: c.text("arch"), Channel: c.text("channel"), PublishedAt: c.time("publishedAt"),
		Settings: release.Settings{
			DownloadURL: c.or("downloadUrl", "https://downloads.invalid/app-"+c.text("version")), SHA512: optional[string](c, "sha512"), SHA1: optional[string](c, "sha1"),
			FileSizeBytes: c.count("fileSizeBytes"), Notes: optional[string](c, "releaseNotes"), MinOSVersion: optional[string](c, "minOsVersion"), Signature: optional[string](c, "signature"),
			Mandatory: c.flag("mandatory"), Rollout: int(c.number("rolloutPercentage", 100)), Active: !c.given("active") || c.flag("active"),
		},
	}
	return answered(c, func() (release.Release, error) { return c.Releases.Publish(c.ctx, c.actor, d) })
}

// asFlag reads true or false.
func asFlag(name string) func(string) (bool, error) {
	return func(s string) (bool, error) {
		is, ok := flagOf(s)
		if !ok {
			return false, fault.Field(name, "must be true or false")
		}
		return is, nil
	}
}

func check(c *call) (any, error) {
	q := releases.Check{
		Target: release.Target{
			Platform: read(c, "platform", of("platform", release.ParsePlatform)), Arch: read(c, "arch", of("arch", release.ParseArch)), Channel: release.Stable,
		},
		Version: read(c, "version", of("version", release.ParseVersion)),
		Client:  read(c, "clientId", of("clientId", release.ParseClient)),
	}
	if c.given("channel") {
		q.Channel = read(c, "channel", of("channel", release.ParseChannel))
	}
	return answered(c, func() (any, error) {
		if err := c.Releases.Refresh(c.ctx); err != nil {
			return nil, err
		}
		now := c.Clock.Now()
		r := c.Releases.Offer(q)
		if r == nil {
			return pairs(now, "updateAvailable", false, "currentVersion", q.Version), nil
		}
		return append(pairs(now, "updateAvailable", true, "currentVersion", q.Version, "latestVersion", r.Version), view(*r, now).(record)...), nil
	})
}

// of reads a text of a field.
func of[T any](name string, parse func(field, s string) (T, error)) func(string) (T, error) {
	return func(s string) (T, error) { return parse(name, s) }
}
