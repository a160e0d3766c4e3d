package main

import (
	"context"
	"crypto/sha512"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"collab/adapters/apiclient"
)

func (a *app) releasesCommand() *cobra.Command {
	columns := func(r apiclient.Release) []column {
		return []column{
			{"version", r.Version}, {"platform", r.Platform}, {"arch", r.Arch}, {"channel", r.Channel}, {"rollout", formatPercent(r.RolloutPercentage)},
			{"active", strconv.FormatBool(r.Active)}, {"failure limit", formatOptional(r.FailureLimit, formatPercent)}, {"paused", formatOptional(r.PausedAt, formatTime)}, {"id", r.ID},
		}
	}
	list := listCommand(a, "list", "List releases", columns, (*apiclient.Client).ListReleases)
	var draft apiclient.ReleaseDraft
	var channel, notes, signature, file string
	var rollout int64
	var mandatory bool
	publish := command("publish VERSION", "Publish a release", 1, 1, a.withClient(func(ctx context.Context, client *apiclient.Client, args []string) error {
		d := draft
		d.Version, d.Channel, d.ReleaseNotes, d.Signature = args[0], optionalText(channel), optionalText(notes), optionalText(signature)
		d.RolloutPercentage, d.Mandatory = &rollout, &mandatory
		if file != "" {
			f, err := os.Open(file)
			if err != nil {
				return err
			}
			defer f.Close()
			digest := sha512.New()
			size, err := io.Copy(digest, f)
			if err != nil {
				return err
			}
			d.FileSizeBytes, d.Sha512 = &size, new(hex.EncodeToString(digest.Sum(nil)))
		}
		return printOne(a, columns, func() (apiclient.Release, error) { return client.PublishRelease(ctx, d) })
	}))
	enumFlag(publish, &draft.Platform, "platform", "the platform", "darwin", "win32", "linux")
	enumFlag(publish, &draft.Arch, "arch", "the processor", "x64", "arm64", "universal")
	publish.Flags().StringVar(&draft.DownloadURL, "url", "", "`address` of the download")
	enumFlag(publish, &channel, "channel", "the channel", "stable", "beta", "canary")
	publish.Flags().StringVar(&notes, "notes", "", "what has changed")
	publish.Flags().StringVar(&signature, "signature", "", "signature of the download in the updater's form")
	publish.Flags().StringVar(&file, "file", "", "the download, for its size and SHA-512")
	publish.Flags().Int64Var(&rollout, "rollout", 100, "`percentage` of devices that are offered it")
	publish.Flags().BoolVar(&mandatory, "mandatory", false, "whether the update is mandatory")

	percent := command("rollout ID PERCENTAGE", "Change the share of devices that are offered a release", 2, 2, a.withClient(func(ctx context.Context, client *apiclient.Client, args []string) error {
		n, err := strconv.ParseInt(args[1], 10, 64)
		if err != nil {
			return usage("%q is no percentage", args[1])
		}
		return printOne(a, columns, func() (apiclient.Release, error) {
			return client.ChangeRelease(ctx, args[0], apiclient.ReleasePatch{RolloutPercentage: &n})
		})
	}))
	withdraw := command("withdraw ID", "Offer a release to nobody any more", 1, 1, a.withClient(func(ctx context.Context, client *apiclient.Client, args []string) error {
		return printOne(a, columns, func() (apiclient.Release, error) {
			return client.ChangeRelease(ctx, args[0], apiclient.ReleasePatch{Active: new(false)})
		})
	}))
	var period apiclient.GetAdoptionParams
	adoption := command("adoption", "List the update checks by day and version", 0, 0, a.withClient(func(ctx context.Context, client *apiclient.Client, _ []string) error {
		return printList(a, func(d apiclient.Adoption) []column {
			return []column{
				{"day", d.Day}, {"version", d.Version}, {"platform", d.Platform}, {"arch", d.Arch}, {"channel", d.Channel},
				{"checks", strconv.FormatInt(d.Checks, 10)}, {"offered", strconv.FormatInt(d.Offered, 10)},
			}
		})(client.GetAdoption(ctx, period))
	}))
	adoption.Flags().StringVar(&period.From, "from", "", "the first `day`")
	adoption.Flags().StringVar(&period.To, "to", "", "the last `day`")
	return group("releases", "Publish releases of the desktop application", list, publish, percent, withdraw, adoption)
}

func (a *app) adminCommand() *cobra.Command {
	columns := func(o apiclient.Overview) []column {
		return []column{
			{"name", valueOr(o.Name, "")}, {"members", strconv.FormatInt(o.Members, 10)}, {"plan", o.Subscription.Plan},
			{"status", o.Subscription.Status}, {"storage", formatSize(o.StorageUsed)}, {"id", o.ID},
		}
	}
	var params apiclient.ListOrganisationsParams
	orgs := command("orgs", "List organisations", 0, 0, a.withOperator(func(ctx context.Context, client *apiclient.Client, _ []string) error {
		return printList(a, columns)(client.ListOrganisations(ctx, params))
	}))
	orgs.Flags().StringVar(&params.Search, "search", "", "only those with this `text` in their name, or this id")
	var memberParams apiclient.ListOrganisationMembersParams
	members := command("members ID", "List an organisation's members", 1, 1, a.withOperator(func(ctx context.Context, client *apiclient.Client, args []string) error {
		return printList(a, memberColumns)(client.ListOrganisationMembers(ctx, args[0], memberParams))
	}))
	members.Flags().StringVar(&memberParams.Search, "search", "", "only those with all words of this `text` in their names or e-mail addresses")
	show := command("org ID", "Print an organisation", 1, 1, a.withOperator(func(ctx context.Context, client *apiclient.Client, args []string) error {
		return printOne(a, columns, func() (apiclient.Overview, error) { return client.GetOrganisation(ctx, args[0]) })
	}))
	var until string
	grant := command("grant ID PLAN", "Set an organisation's plan: free, standard, premium or enterprise", 2, 2, a.withOperator(func(ctx context.Context, client *apiclient.Client, args []string) error {
		return printOne(a, columns, func() (apiclient.Overview, error) {
			return client.GrantSubscription(ctx, args[0], apiclient.Grant{Plan: strings.ToUpper(args[1]), CurrentPeriodEnd: optionalText(until)})
		})
	}))
	grant.Flags().StringVar(&until, "until", "", "the `date` or time at which it ends")
	role := command("role ID USER ROLE", "Set a member's role", 3, 3, a.withOperator(func(ctx context.Context, client *apiclient.Client, args []string) error {
		return printOne(a, memberColumns, func() (apiclient.Member, error) {
			return client.SetRole(ctx, args[0], args[1], apiclient.RoleChange{Role: strings.ToUpper(args[2])})
		})
	}))
	admin := group("admin", "Work with organisations as the operator of a server", orgs, show, members, grant, role)
	admin.Long = "The commands of admin take the operator's secret from COLLAB_ADMIN_SECRET."
	return admin
}

// withOperator returns a command that has a client with the operator's secret.
func (a *app) withOperator(run func(ctx context.Context, client *apiclient.Client, args []string) error) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, args []string) error {
		secret := a.env("COLLAB_ADMIN_SECRET")
		if secret == "" {
			return exitError{exitSignIn, errors.New("set COLLAB_ADMIN_SECRET to the operator's secret")}
		}
		server, err := a.chosenServer()
		if err != nil {
			return err
		}
		client, err := a.anonymousClient(server)
		if err != nil {
			return err
		}
		client.Operator = secret
		return run(c.Context(), client, args)
	}
}
