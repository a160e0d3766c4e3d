package httpapi

import (
	"encoding/json"
	"net/http"

	"collab/adapters/httpapi/body"
	"collab/app/connectors"
	"collab/domain/connector"
	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/org"
)

type (
	providerView struct {
		ServerID    string              `json:"serverId"`
		DisplayName string              `json:"displayName"`
		Description string              `json:"description"`
		IconURL     *string             `json:"iconUrl"`
		Category    *string             `json:"category"`
		Auth        connector.AuthMode  `json:"authMode"`
		Transport   connector.Transport `json:"mcpTransport"`
		URL         *string             `json:"mcpUrl"`
		Fields      []fieldView         `json:"credentialFields"`
		Headers     map[string]string   `json:"headers"` // nil: null, as the next two
		Command     []string            `json:"command"`
		Env         map[string]string   `json:"env"`
	}
	fieldView struct {
		Name     string `json:"name"`
		Label    string `json:"label"`
		Optional bool   `json:"optional"`
	}
)

func viewProvider(p connector.Provider) providerView {
	v := providerView{
		ServerID: p.ID, DisplayName: p.Name, Description: p.Description, IconURL: textOrNull(p.IconURL), Category: textOrNull(p.Category),
		Auth: p.Auth, Transport: p.Transport, URL: textOrNull(p.URL), Command: p.Command,
		Fields: viewEach(func(f connector.Field) fieldView { return fieldView(f) })(p.Fields),
	}
	switch {
	case len(p.CredentialTemplates) == 0:
	case p.Transport.Hosting() == connector.Local:
		v.Env = p.CredentialTemplates
	default:
		v.Headers = p.CredentialTemplates
	}
	return v
}

type (
	connectorView struct {
		ID                   id.Connector        `json:"id"`
		InstanceID           id.Connector        `json:"instanceId"`
		ServerID             string              `json:"serverId"`
		Label                string              `json:"label"`
		Name                 *string             `json:"name"`
		Config               json.RawMessage     `json:"config"`
		Hosting              connector.Hosting   `json:"hosting"`
		Transport            connector.Transport `json:"transport"`
		Status               connector.Status    `json:"status"`
		LastError            *string             `json:"lastError"`
		LastUsedAt           *jsonTime           `json:"lastUsedAt"`
		CreatedBy            id.User             `json:"createdBy"`
		CreatedAt            jsonTime            `json:"createdAt"`
		Tools                []toolView          `json:"tools"`
		HasCredentials       bool                `json:"hasCredentials"`
		CredentialsExpiresAt *jsonTime           `json:"credentialsExpireAt"`
	}
	toolView struct {
		Name        string `json:"name"`
		Description string `json:"description"`
	}
)

func viewConnector(i connector.Instance) connectorView {
	return connectorView{
		ID: i.ID, InstanceID: i.ID, ServerID: i.Provider, Label: i.Label, Name: i.Name, Config: json.RawMessage(i.Config),
		Hosting: i.Hosting, Transport: i.Transport, Status: i.Status(), LastError: textOrNull(i.LastError), LastUsedAt: timeOrNull(i.LastUsedAt),
		CreatedBy: i.CreatedBy, CreatedAt: jsonTime(i.CreatedAt), Tools: viewEach(func(t connector.Tool) toolView { return toolView(t) })(i.Tools),
		HasCredentials: i.Version > 0, CredentialsExpiresAt: timeOrNull(i.ExpiresAt),
	}
}

func positionOfConnector(i connector.Instance) body.Position {
	return body.Position{At: i.CreatedAt, ID: string(i.ID)}
}

// listProviders replies with the catalog, which is the same for all callers.
func (a *api) listProviders(c *call) error {
	body, err := appendView(nil, viewEach(viewProvider)(a.Connectors.Catalog.Enabled()))
	if err != nil {
		return err
	}
	c.public(cacheFiveMinutes)
	return c.sendTagged(jsonType, contentTag(body), append(body, '\n'))
}

func readConnector(o *body.Fields) (connector.Draft, error) {
	config := body.OrZero(o, "config", body.ReadObject)
	d := connector.Draft{
		Provider: body.Required(o, "providerId", body.Text), Name: body.Optional(o, "name", body.Text),
		Config: config.Text, URL: config.Texts["url"],
	}
	return d, o.Err()
}

func (a *api) createConnector(c *call, actor org.Actor, d connector.Draft) error {
	d.ID = id.Connector(c.recordID)
	return replyWith(c, http.StatusCreated, viewConnector)(createOrGet(c, actor, d, a.Connectors.Create, a.Connectors.Get))
}

// limitedCredentials returns a handler whose responses are not stored and whose requests are
// charged to the caller's rate of credentials.
func (a *api) limitedCredentials(handle handler) handler {
	return func(c *call) error {
		c.Header()["Cache-Control"] = noStore
		if err := a.credentials.Take(c, string(c.caller.User)); err != nil {
			return err
		}
		return handle(c)
	}
}

type credentialsView struct {
	Credentials json.RawMessage `json:"credentials"`
	ExpiresAt   *jsonTime       `json:"expiresAt"`
}

func viewCredentials(s connector.Credentials) credentialsView {
	return credentialsView{json.RawMessage(s.Entries), timeOrNull(s.ExpiresAt)}
}

var readCredentials = oneField("credentials", body.ReadObject)

// maxConnectorView is the most bytes that the view of a connector has, most of which are its tools.
const maxConnectorView = 192 << 10

func (a *api) storeCredentials(c *call, actor org.Actor, i id.Connector, credentials body.Object) error {
	stored, err := a.Connectors.StoreCredentials(c.r.Context(), actor, i, credentials.Text, credentials.Texts)
	return replyWith(c, http.StatusOK, viewConnector)(stored, err)
}

type authorizationView struct {
	AuthURL    string       `json:"authUrl"`
	State      string       `json:"state"`
	InstanceID id.Connector `json:"instanceId"`
}

func viewAuthorization(b connectors.Authorization) authorizationView {
	return authorizationView{AuthURL: b.URL, State: b.State, InstanceID: b.Instance}
}

// authorizationBody has the instance or the provider of an authorization.
type authorizationBody struct {
	instance id.Connector
	provider string
}

func readAuthorization(o *body.Fields) (authorizationBody, error) {
	request := authorizationBody{
		instance: body.OrZero(o, "instanceId", body.ID[id.Connector]("connector")),
		provider: body.OrZero(o, "providerId", body.Text),
	}
	return request, o.Err()
}

func (a *api) startAuthorization(c *call, actor org.Actor, request authorizationBody) error {
	return replyWith(c, http.StatusOK, viewAuthorization)(a.Connectors.Start(c.r.Context(), actor, request.instance, request.provider))
}

type flowView struct {
	Status     connector.FlowStatus `json:"status"` // pending, ready or error
	InstanceID id.Connector         `json:"instanceId"`
	Error      *string              `json:"error"`
}

func viewFlow(f connector.Flow) flowView {
	v := flowView{Status: f.Status(), InstanceID: f.Instance, Error: textOrNull(f.Error)}
	if v.Status == connector.Redeeming {
		v.Status = connector.Pending // the same for clients that poll
	}
	return v
}

func (a *api) pollAuthorization(c *call, actor org.Actor) error {
	c.Header()["Cache-Control"] = noStore
	q, err := c.query("state")
	if err != nil {
		return err
	}
	state, _ := q.Get("state")
	if state == "" {
		return fault.Field("state", "must be given")
	}
	return replyWith(c, http.StatusOK, viewFlow)(a.Connectors.Poll(c.r.Context(), actor, state))
}
