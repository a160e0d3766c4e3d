package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"collab/adapters/apiclient"
)

func (a *app) usageCommand() *cobra.Command {
	var own bool
	c := command("usage", "Print the tokens used by day, the daily quota and the storage", 0, 0, a.withClient(func(ctx context.Context, client *apiclient.Client, _ []string) error {
		var days []apiclient.DayUsage
		if own {
			u, err := client.GetOwnUsage(ctx)
			if err != nil {
				return err
			}
			days = u.ByDay
		} else {
			u, err := client.GetOrganisationUsage(ctx)
			if err != nil {
				return err
			}
			days = u.ByDay
		}
		maxTokens := int64(0)
		for _, d := range days {
			maxTokens = max(maxTokens, d.TotalTokens)
		}
		err := printRows(a, sequence(days), func(d apiclient.DayUsage) []column {
			columns := []column{{"day", d.Date}, {"requests", strconv.FormatInt(d.Requests, 10)}, {"tokens", strconv.FormatInt(d.TotalTokens, 10)}}
			if a.outTerminal {
				columns = append(columns, column{"", bar(d.TotalTokens, maxTokens)})
			}
			return columns
		})
		if err != nil || !a.outTerminal || a.wantsJSON() {
			return err
		}
		quota, err := client.GetQuota(ctx)
		if err != nil {
			return err
		}
		storage, err := client.GetStorage(ctx)
		if err != nil {
			return err
		}
		limit := "no limit"
		if storage.Limit != nil {
			limit = formatSize(*storage.Limit)
		}
		_, err = fmt.Fprintf(a.out, "\ntoday    %d of %d tokens\nstorage  %s of %s\n", quota.Used, quota.Limit, formatSize(storage.Used), limit)
		return err
	}))
	c.Flags().BoolVar(&own, "own", false, "one's own use in place of the organisation's")
	return c
}

func (a *app) billingCommand() *cobra.Command {
	columns := func(s apiclient.Subscription) []column {
		return []column{
			{"plan", s.Plan}, {"status", s.Status}, {"seats", strconv.FormatInt(s.Seats, 10)}, {"until", formatOptional(s.CurrentPeriodEnd, formatTime)},
			{"ends", strconv.FormatBool(s.CancelAtPeriodEnd)},
		}
	}
	subscriptionCommand := func(call func(*apiclient.Client, context.Context) (apiclient.Subscription, error)) func(*cobra.Command, []string) error {
		return a.withClient(func(ctx context.Context, client *apiclient.Client, _ []string) error {
			return printOne(a, columns, func() (apiclient.Subscription, error) { return call(client, ctx) })
		})
	}
	// opened prints the address of a page, and opens it for a person unless --json or --jq is given.
	openPage := func(ctx context.Context, page func() (apiclient.Elsewhere, error)) error {
		if err := a.checkFields(apiclient.Elsewhere{}); err != nil {
			return err
		}
		e, err := page()
		if err != nil {
			return err
		}
		if a.wantsJSON() {
			return a.printJSON(e)
		}
		if _, err := fmt.Fprintln(a.out, printableLine(e.URL)); err != nil || !a.outTerminal {
			return err
		}
		return a.browse(ctx, e.URL, nil)
	}
	checkout := command("checkout PLAN", "Buy a plan: standard or premium", 1, 1, a.withClient(func(ctx context.Context, client *apiclient.Client, args []string) error {
		return openPage(ctx, func() (apiclient.Elsewhere, error) {
			return client.StartCheckout(ctx, apiclient.CheckoutDraft{Plan: strings.ToUpper(args[0])})
		})
	}))
	portal := command("portal", "Change the payment method, or read invoices", 0, 0, a.withClient(func(ctx context.Context, client *apiclient.Client, _ []string) error {
		return openPage(ctx, func() (apiclient.Elsewhere, error) { return client.OpenPortal(ctx) })
	}))
	billing := group("billing", "Work with the organisation's subscription",
		command("status", "Print the subscription", 0, 0, subscriptionCommand((*apiclient.Client).GetSubscription)),
		command("trial", "Begin the trial", 0, 0, subscriptionCommand((*apiclient.Client).StartTrial)),
		command("downgrade", "Give up the paid plan", 0, 0, subscriptionCommand((*apiclient.Client).Downgrade)),
		checkout, portal)
	billing.Long = "checkout and portal print the address of a page of the payment provider, and open it on a terminal."
	return billing
}
