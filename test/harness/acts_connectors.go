package harness

import (
	"encoding/json"
	"net/url"

	"collab/app/connectors"
	"collab/domain/connector"
	"collab/domain/fault"
	"collab/domain/id"
)

// connectorActs are what people do with tool servers, and what those do.
var connectorActs = []*act{
	{
		who: person, name: "connector-providers", open: true,
		does: "Lists the catalog: serverId, displayName, authMode, mcpTransport and more (GET /connector-providers). It has notes (SERVER_MEDIATED), calendar (REMOTE_OAUTH), search (API_KEY), weather (NONE) and shell (API_KEY, STDIO).",
		do:   func(c *call) (any, error) { return c.Connectors.Providers(), nil },
	},
	{
		who: person, name: "connectors",
		does: "Lists the instances: id, serverId, label, name, config, hosting, transport, status, lastError, lastUsedAt, createdBy, createdAt, tools, credentialsVersion, credentialsExpireAt (GET /connectors).",
		do:   answers(func(c *call) ([]connector.Instance, error) { return instances(c) }),
	},
	{
		who: person, name: "get-connector", on: "connector",
		does: "Answers with one of the instances that `connectors` lists.",
		do: func(c *call) (any, error) {
			all, err := instances(c)
			if err != nil {
				return nil, err
			}
			for _, i := range all {
				if string(i.ID) == c.subject() {
					return i, nil
				}
			}
			return nil, fault.Missing("Connector")
		},
	},
	{
		who: person, name: "add-connector", args: "providerId* name config",
		does: "Makes an instance and answers with it (POST /connectors). `config` is a JSON object.",
		do: func(c *call) (any, error) {
			d := connector.Draft{Provider: c.text("providerId"), Name: optional[string](c, "name"), Config: c.text("config"), URL: urlOf(c.text("config"))}
			return answered(c, func() (connector.Instance, error) { return c.Connectors.Create(c.ctx, c.actor, d) })
		},
	},
	{
		who: person, name: "store-credentials", on: "connector", args: "credentials*",
		does: "Stores credentials, a JSON object, and answers with the instance (POST /connectors/:instanceId/credentials). The server is tried when it works next: see `server work`.",
		do: func(c *call) (any, error) {
			texts, err := textsOf(c.text("credentials"))
			if err != nil {
				return nil, err
			}
			return answered(c, func() (connector.Instance, error) {
				return c.Connectors.StoreCredentials(c.ctx, c.actor, id.Connector(c.subject()), c.text("credentials"), texts)
			})
		},
	},
	{
		who: person, name: "read-credentials", on: "connector",
		does: "Answers with the credentials (GET /connectors/:instanceId/credentials).",
		do: func(c *call) (any, error) {
			k, err := c.Connectors.Read(c.ctx, c.actor, id.Connector(c.subject()))
			if err != nil {
				return nil, err
			}
			texts, err := textsOf(k.Entries)
			return pairs(c.Clock.Now(), "credentials", texts, "expiresAt", k.ExpiresAt), err
		},
	},
	{
		who: person, name: "remove-connector", on: "connector",
		does: "Removes an instance with its credentials (DELETE /connectors/:instanceId).",
		do:   does(func(c *call) error { return c.Connectors.Delete(c.ctx, c.actor, id.Connector(c.subject())) }),
	},
	{
		who: person, name: "authorize", args: "instanceId providerId",
		does: "Begins an authorization for an instance, or for one of a provider: authUrl, state, instanceId (POST /mcp-oauth/start).",
		do: answers(func(c *call) (connectors.Authorization, error) {
			return c.Connectors.Start(c.ctx, c.actor, id.Connector(c.text("instanceId")), c.text("providerId"))
		}),
	},
	{
		who: person, name: "confirm", on: "state", open: true,
		does: "Opens the authUrl in the person's own browser and agrees to go to the provider. Answers with what was asked: label, provider, host, person, email, organisation.",
		do: func(c *call) (any, error) {
			return answered(c, func() (connectors.Confirmation, error) {
				a, err := c.Connectors.Confirmation(c.ctx, c.subject())
				if err != nil {
					return a, err
				}
				_, err = c.Connectors.Confirm(c.ctx, c.subject(), c.browser())
				return a, err
			})
		},
	},
	{
		who: person, name: "consent", on: "state", args: "error iss", open: true,
		does: "Comes back from the provider in the person's own browser, with its consent or with an error such as access_denied (GET /mcp-oauth/callback). `iss` is who the answer says that it is from.",
		do: func(c *call) (any, error) {
			a := connectors.AuthorizationResponse{State: c.subject(), Error: c.text("error"), Issuer: c.or("iss", issuer), Redirect: connector.Redirect(callback, issuer)}
			if a.Error == "" {
				a.Code = "code"
			}
			return only(c, func() error { return c.Connectors.Finish(c.ctx, a, c.browser()) })
		},
	},
	{
		who: person, name: "poll", on: "state",
		does: "Asks how far an authorization is: status (pending, redeeming, ready or error), instanceId, error (GET /mcp-oauth/poll).",
		do:   answers(func(c *call) (connector.Flow, error) { return c.Connectors.Poll(c.ctx, c.actor, c.subject()) }),
	},

	{
		who: toolers, name: "answer", on: "serverId", args: "tools",
		does: "The tool server answers from now on, and offers these tools.",
		do: func(c *call) (any, error) {
			names := c.list("tools")
			return only(c, func() error { return c.Tools.set(c.subject(), answer{names: names}) })
		},
	},
	{
		who: toolers, name: "fail", on: "serverId", args: "message",
		does: "The tool server cannot be reached from now on, for the reason in the message.",
		do: func(c *call) (any, error) {
			err := fault.New(fault.Unavailable, "%s", c.or("message", "The server cannot be reached"))
			return only(c, func() error { return c.Tools.set(c.subject(), answer{failed: err}) })
		},
	},
	{
		who: toolers, name: "refuse", on: "serverId", args: "message",
		does: "The tool server accepts no credentials from now on.",
		do: func(c *call) (any, error) {
			err := fault.New(fault.Forbidden, "%s", c.or("message", "The server does not accept the credentials"))
			return only(c, func() error { return c.Tools.set(c.subject(), answer{failed: err}) })
		},
	},
	{
		who: toolers, name: "withdraw",
		does: "All authorizations that were given are taken back at their provider: the next renewal of an access token fails for good. Tokens live for an hour.",
		do: func(c *call) (any, error) {
			c.Tools.withdraw()
			return done, nil
		},
	},
	{
		who: toolers, name: "seen",
		does: "Answers with how often tool servers were looked at (`looks`), how many authorizations are good for something (`authorizations`), and how many were taken back from here (`revoked`).",
		do:   func(c *call) (any, error) { return c.Tools.seen(), nil },
	},
}

// browser is the secret that the person's browser holds.
func (c *call) browser() string { return "the browser of " + c.person.id }

// textsOf reads the entries of a JSON object that are texts.
func textsOf(s string) (map[string]string, error) {
	var all map[string]any
	if err := json.Unmarshal([]byte(s), &all); err != nil {
		return nil, fault.Field("credentials", "must be a JSON object")
	}
	texts := map[string]string{}
	for name, v := range all {
		if text, ok := v.(string); ok {
			texts[name] = text
		}
	}
	return texts, nil
}

// urlOf returns the url in an instance's config.
func urlOf(config string) string {
	var of struct{ URL string }
	if json.Unmarshal([]byte(config), &of) != nil {
		return ""
	}
	if _, err := url.Parse(of.URL); err != nil {
		return ""
	}
	return of.URL
}

// instances are those of the actor's organisation.
func instances(c *call) ([]connector.Instance, error) {
	return collect(func(each func(connector.Instance) error) error {
		return c.Connectors.List(c.ctx, c.actor, connector.Position{}, 0, each)
	})
}
