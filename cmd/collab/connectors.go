package main

import (
	"context"
	"errors"
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
	return findByName("connector", name, func(c apiclient.Connector) []string { return []string{c.ID, c.Label} })(client.ListConnectors(ctx))
}

func connectorColumns(c apiclient.Connector) []column {
	return []column{
		{"name", c.Label}, {"provider", c.ServerID}, {"status", c.Status},
		{"tools", strconv.Itoa(len(c.Tools))}, {"error", valueOr(c.LastError, "")}, {"id", c.ID},
	}
}

func (a *app) connectorsCommand() *cobra.Command {
	list := listCommand(a, "list", "List the organisation's connectors", connectorColumns, (*apiclient.Client).ListConnectors)
	providers := listCommand(a, "providers", "List the tool servers that can be connected", func(p apiclient.ConnectorProvider) []column {
		return []column{{"id", p.ServerID}, {"name", p.DisplayName}, {"sign-in", p.AuthMode}}
	}, (*apiclient.Client).ListConnectorProviders)
	credentials := command("credentials CONNECTOR NAME...", "Store credentials, whose values are the lines of standard input", 2, -1, a.withClient(a.storeCredentials))
	authorize := command("authorize CONNECTOR", "Allow a connector in the browser to use an account", 1, 1, a.withClient(a.authorizeConnector))
	remove := removeCommand(a, "remove CONNECTOR", "Delete a connector with its credentials", connectorOf, func(ctx context.Context, client *apiclient.Client, c apiclient.Connector) (apiclient.Success, error) {
		return client.DeleteConnector(ctx, c.ID)
	})
	return group("connectors", "Work with connectors to tool servers", list, providers, a.addConnectorCommand(), credentials, authorize, remove)
}

func (a *app) addConnectorCommand() *cobra.Command {
	var name string
	var config []string
	c := command("add PROVIDER", "Add a connector", 1, 1, a.withClient(func(ctx context.Context, client *apiclient.Client, args []string) error {
		settings, err := parseFields(config, "--config")
		if err != nil {
			return err
		}
		return printOne(a, connectorColumns, func() (apiclient.Connector, error) {
			return client.CreateConnector(ctx, apiclient.ConnectorDraft{ProviderID: args[0], Name: optionalText(name), Config: settings})
		})
	}))
	c.Flags().StringVar(&name, "name", "", "the connector's name")
	c.Flags().StringArrayVar(&config, "config", nil, "setting, as `NAME=VALUE`")
	return c
}

func (a *app) storeCredentials(ctx context.Context, client *apiclient.Client, args []string) error {
	c, err := connectorOf(ctx, client, args[0])
	if err != nil {
		return err
	}
	lines, err := a.lines(ctx, len(args)-1)
	if err != nil {
		return err
	}
	draft := apiclient.CredentialsDraft{Credentials: map[string]any{}}
	for i, name := range args[1:] {
		draft.Credentials[name] = lines[i]
	}
	return printOne(a, connectorColumns, func() (apiclient.Connector, error) {
		return client.StoreConnectorCredentials(ctx, c.ID, draft)
	})
}

func (a *app) authorizeConnector(ctx context.Context, client *apiclient.Client, args []string) error {
	if !a.interactive() {
		return exitError{exitSignIn, errors.New("CI is set, so nobody can allow it: run collab connectors authorize where a person is")}
	}
	c, err := connectorOf(ctx, client, args[0])
	if err != nil {
		return err
	}
	started, err := client.StartAuthorization(ctx, apiclient.AuthorizationDraft{InstanceID: &c.ID})
	if err != nil {
		return err
	}
	a.printErrf("Allow it with a browser at\n%s", started.AuthURL)
	waitForConsent := func(ctx context.Context) error {
		for range authorizationPolls {
			status, err := client.PollAuthorization(ctx, apiclient.PollAuthorizationParams{State: started.State})
			switch {
			case err != nil:
				return err
			case status.Status == "ready":
				a.printSuccess("%s may use the account", c.Label)
				return nil
			case status.Status == "error":
				return errors.New(valueOr(status.Error, "the provider refused"))
			}
			if err := client.Wait(ctx, authorizationPoll); err != nil {
				return err
			}
		}
		return errors.New("nobody has allowed it")
	}
	if a.interactive(a.errTerminal) {
		return a.browse(ctx, started.AuthURL, waitForConsent)
	}
	return waitForConsent(ctx)
}

// lines reads n lines of standard input that are not empty.
func (a *app) lines(ctx context.Context, n int) ([]string, error) {
	text, err := a.readAll(ctx, maxToken)
	if err != nil {
		return nil, err
	}
	lines := strings.Split(strings.TrimRight(strings.ReplaceAll(text, "\r\n", "\n"), "\n"), "\n")
	if len(lines) != n || lines[0] == "" {
		return nil, usage("standard input must have %d lines, each with a value", n)
	}
	return lines, nil
}
