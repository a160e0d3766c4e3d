package bucket

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/streaming"
)

// entra gets tokens for Azure's storage, whatever scope a server asks for. The client
// library caches them until shortly before they expire.
type entra struct {
	pipeline      runtime.Pipeline
	method        string
	address       string
	header, value string     // of the request
	form          url.Values // of a POST
	assertion     string     // path of the file with the form's client_assertion, or empty
}

// unsupportedVariables are the variables of Azure credentials that openAzure does not support.
var unsupportedVariables = []string{
	"AZURE_CLIENT_CERTIFICATE_PATH", "AZURE_USERNAME", "IDENTITY_SERVER_THUMBPRINT", "IMDS_ENDPOINT", "MSI_ENDPOINT",
}

// newEntra returns the credential that the environment configures:
//
//   - an application's secret: AZURE_TENANT_ID, AZURE_CLIENT_ID, AZURE_CLIENT_SECRET;
//   - a pod's workload identity: AZURE_FEDERATED_TOKEN_FILE instead of the secret;
//   - otherwise the managed identity of the machine, or of the service in
//     IDENTITY_ENDPOINT and IDENTITY_HEADER. AZURE_CLIENT_ID selects one of several.
//
// AZURE_AUTHORITY_HOST issues the tokens of the first two.
func newEntra(client *redactingClient) (*entra, error) {
	for _, variable := range unsupportedVariables {
		if os.Getenv(variable) != "" {
			return nil, fmt.Errorf("azblob:// does not take the credentials that %s stands for", variable)
		}
	}
	const storage = "https://storage.azure.com"
	id, secret := os.Getenv("AZURE_CLIENT_ID"), os.Getenv("AZURE_CLIENT_SECRET")
	e := &entra{assertion: os.Getenv("AZURE_FEDERATED_TOKEN_FILE")}
	if secret != "" || e.assertion != "" {
		authority, err := origin(cmp.Or(os.Getenv("AZURE_AUTHORITY_HOST"), "https://login.microsoftonline.com"))
		tenant := os.Getenv("AZURE_TENANT_ID")
		if err != nil || authority.Scheme != "https" || id == "" || tenant == "" {
			return nil, errors.New("azblob:// needs AZURE_TENANT_ID and AZURE_CLIENT_ID, and https:// in AZURE_AUTHORITY_HOST")
		}
		e.method, e.address = http.MethodPost, authority.JoinPath(url.PathEscape(tenant), "oauth2/v2.0/token").String()
		e.form = url.Values{"grant_type": {"client_credentials"}, "client_id": {id}, "scope": {storage + "/.default"}}
		if secret != "" {
			e.assertion = ""
			e.form.Set("client_secret", secret)
		}
	} else {
		query := url.Values{"resource": {storage}}
		if id != "" {
			query.Set("client_id", id)
		}
		e.method, e.address, e.header, e.value = http.MethodGet, os.Getenv("IDENTITY_ENDPOINT"), "X-Identity-Header", os.Getenv("IDENTITY_HEADER")
		query.Set("api-version", "2019-08-01")
		if e.address == "" {
			e.address, e.header, e.value = "http://169.254.169.254/metadata/identity/oauth2/token", "Metadata", "true"
			query.Set("api-version", "2018-02-01")
		}
		e.address += "?" + query.Encode()
		transport := client.Transport.(*http.Transport).Clone()
		transport.Proxy, transport.DisableKeepAlives = nil, true // the endpoint is local to the machine
		dial := transport.DialContext
		transport.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
			ctx, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			return dial(ctx, network, address)
		}
		client = &redactingClient{http.Client{Transport: transport, CheckRedirect: client.CheckRedirect}}
	}
	e.pipeline = runtime.NewPipeline("collab", "", runtime.PipelineOptions{}, &policy.ClientOptions{
		Transport: client,
		// 404 and 410: the machine's identity is not ready yet. All attempts together take
		// less than stepTimeout, so the error is that of the last response.
		Retry: policy.RetryOptions{StatusCodes: []int{404, 408, 410, 429, 500, 502, 503, 504}, MaxRetries: 3, RetryDelay: 500 * time.Millisecond},
	})
	return e, nil
}

// GetToken returns a new token.
func (e *entra) GetToken(ctx context.Context, _ policy.TokenRequestOptions) (azcore.AccessToken, error) {
	token, err := e.token(ctx)
	if err != nil {
		err = fmt.Errorf("no token for Azure's storage: %w", err)
	}
	return token, err
}

func (e *entra) token(ctx context.Context) (token azcore.AccessToken, err error) {
	request, err := runtime.NewRequest(ctx, e.method, e.address)
	if err != nil {
		return token, err
	}
	form := maps.Clone(e.form) // several clients have the credential
	if e.assertion != "" {
		assertion, err := os.ReadFile(e.assertion) // the file is replaced before the assertion expires
		if err != nil {
			return token, err
		}
		form.Set("client_assertion_type", "urn:ietf:params:oauth:client-assertion-type:jwt-bearer")
		form.Set("client_assertion", strings.TrimSpace(string(assertion)))
	}
	if form != nil {
		if err := request.SetBody(streaming.NopCloser(strings.NewReader(form.Encode())), "application/x-www-form-urlencoded"); err != nil {
			return token, err
		}
	} else {
		request.Raw().Header.Set(e.header, e.value)
	}
	response, err := e.pipeline.Do(request)
	if err != nil {
		return token, err
	}
	defer response.Body.Close()
	var answer struct {
		Token       string      `json:"access_token"`
		ExpiresIn   json.Number `json:"expires_in"` // seconds
		ExpiresOn   json.Number `json:"expires_on"` // seconds since 1970; some services send one of the two only
		Description string      `json:"error_description"`
	}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil || response.StatusCode != http.StatusOK || answer.Token == "" {
		return token, fmt.Errorf("%s %s", response.Status, answer.Description)
	}
	token.Token = answer.Token
	if on, err := answer.ExpiresOn.Int64(); err == nil {
		token.ExpiresOn = time.Unix(on, 0)
		return token, nil
	}
	in, err := answer.ExpiresIn.Int64()
	token.ExpiresOn = time.Now().Add(time.Duration(in) * time.Second)
	return token, err
}
