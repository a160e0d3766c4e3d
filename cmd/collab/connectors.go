package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"collab/adapters/apiclient"
)

const (
	authorizationPoll  = 2 * time.Second
	authorizationPolls = 300 // for ten minutes, as long as the server waits
)

func connectorOf(ctx context.Context, client *apiclient.Client, name string) (apiclient.Connector, error) {
	list, err := client.ListConnectors(ctx)
	if err != nil {
		return apiclient.Connector{}, err
	}
	return named(list, "connectors", name, func(c apiclient.Connector) []string { return []string{c.ID, c.Label} })
}

func (a *app) connectors() *cobra.Command {
	columns := []column[apiclient.Connector]{
		{"name", func(c apiclient.Connector) string { return c.Label }},
		{"provider", func(c apiclient.Connector) string { return c.ServerID }},
		{"status", func(c apiclient.Connector) string { return c.Status }},
		{"tools", func(c apiclient.Connector) string { return strconv.Itoa(len(c.Tools)) }},
		{"error", func(c apiclient.Connector) string { return or(c.LastError, "") }},
		{"id", func(c apiclient.Connector) string { return c.ID }},
	}
	list := command("list", "List the organisation's connectors", 0, 0, a.with(func(ctx context.Context, client *apiclient.Client, _ []string) error {
		list, err := client.ListConnectors(ctx)
		if err != nil {
			return err
		}
		return rows(a, list.All(), columns...)
	}))
	providers := command("providers", "List the tool servers that can be connected", 0, 0, a.with(func(ctx context.Context, client *apiclient.Client, _ []string) error {
		list, err := client.ListConnectorProviders(ctx)
		if err != nil {
			return err
		}
		return rows(a, list.All(),
			column[apiclient.ConnectorProvider]{"id", func(p apiclient.ConnectorProvider) string { return p.ServerID }},
			column[apiclient.ConnectorProvider]{"name", func(p apiclient.ConnectorProvider) string { return p.DisplayName }},
			column[apiclient.ConnectorProvider]{"sign-in", func(p apiclient.ConnectorProvider) string { return p.AuthMode }})
	}))
	var name string
	var config []string
	add := command("add PROVIDER", "Add a connector", 1, 1, a.with(func(ctx context.Context, client *apiclient.Client, args []string) error {
		settings, err := fieldsFrom(config, "--config")
		if err != nil {
			return err
		}
		c, err := client.CreateConnector(ctx, apiclient.ConnectorDraft{ProviderID: args[0], Name: given(name), Config: settings})
		if err != nil {
			return err
		}
		return record(a, c, columns...)
	}))
	add.Flags().StringVar(&name, "name", "", "the connector's name")
	add.Flags().StringArrayVar(&config, "config", nil, "setting, as `NAME=VALUE`")
	credentials := command("credentials CONNECTOR NAME...", "Store credentials, whose values are the lines of standard input", 2, -1,
		a.with(func(ctx context.Context, client *apiclient.Client, args []string) error {
			c, err := connectorOf(ctx, client, args[0])
			if err != nil {
				return err
			}
			lines, err := a.lines(len(args) - 1)
			if err != nil {
				return err
			}
			draft := apiclient.CredentialsDraft{Credentials: map[string]any{}}
			for i, name := range args[1:] {
				draft.Credentials[name] = lines[i]
			}
			c, err = client.StoreConnectorCredentials(ctx, c.ID, draft)
			if err != nil {
				return err
			}
			return record(a, c, columns...)
		}))
	authorize := command("authorize CONNECTOR", "Allow a connector in the browser to use an account", 1, 1, a.with(func(ctx context.Context, client *apiclient.Client, args []string) error {
		c, err := connectorOf(ctx, client, args[0])
		if err != nil {
			return err
		}
		started, err := client.StartAuthorization(ctx, apiclient.AuthorizationDraft{InstanceID: &c.ID})
		if err != nil {
			return err
		}
		a.note("Allow it with a browser at\n%s", started.AuthURL)
		if a.errTerminal {
			if err := a.browse(started.AuthURL); err != nil {
				a.note("open it yourself: %v", err)
			}
		}
		for range authorizationPolls {
			status, err := client.PollAuthorization(ctx, apiclient.PollAuthorizationParams{State: started.State})
			switch {
			case err != nil:
				return err
			case status.Status == "ready":
				a.note("%s %s may use the account", a.paint(a.errTerminal, green, "✓"), c.Label)
				return nil
			case status.Status == "error":
				return fmt.Errorf("%s", or(status.Error, "the provider refused"))
			}
			if err := client.Wait(ctx, authorizationPoll); err != nil {
				return err
			}
		}
		return fmt.Errorf("nobody has allowed it")
	}))
	remove := command("remove CONNECTOR", "Delete a connector with its credentials", 1, 1, a.with(func(ctx context.Context, client *apiclient.Client, args []string) error {
		c, err := connectorOf(ctx, client, args[0])
		if err != nil {
			return err
		}
		_, err = client.DeleteConnector(ctx, c.ID)
		return err
	}))
	return group("connectors", "Work with connectors to tool servers", list, providers, add, credentials, authorize, remove)
}

// lines reads n lines of standard input that are not empty.
func (a *app) lines(n int) ([]string, error) {
	text, err := a.readAll(maxToken)
	if err != nil {
		return nil, err
	}
	lines := strings.Split(strings.TrimRight(strings.ReplaceAll(text, "\r\n", "\n"), "\n"), "\n")
	if len(lines) != n || lines[0] == "" {
		return nil, usage("standard input has %d lines, not %d", len(lines), n)
	}
	return lines, nil
}
