package assembly

import (
	"context"
	"net/http"
	"strings"
	"time"

	"go.uber.org/fx"

	"collab/adapters/httpapi"
	"collab/adapters/mcp"
	"collab/adapters/outbound"
	"collab/app/access"
	"collab/app/assembly/config"
	"collab/app/connectors"
	"collab/domain/connector"
	"collab/ports"
)

// workEvery is how often a server looks for due work on tool servers.
const workEvery = 5 * time.Second

// toolServersResult are the ports of tool servers and their authorization servers.
type toolServersResult struct {
	fx.Out
	Servers    ports.ToolServers
	Authorizer ports.Authorizer
}

func chooseToolServers(config.Config) choice {
	return choice{group: "ToolServers, Authorizer", adapter: "`mcp`, with the clients of `outbound`", option: fx.Provide(toolServers, config.Config.Catalog)}
}

func toolServers(lc fx.Lifecycle, c config.Config, base publicURL, clock ports.Clock) toolServersResult {
	guarded := func(maxBody int64) *http.Client {
		client := outbound.New(outbound.Options{Insecure: !c.Production(), Networks: c.ConnectorNetworks, MaxBody: maxBody})
		lc.Append(fx.StopHook(client.CloseIdleConnections))
		return client
	}
	return toolServersResult{
		Servers: mcp.NewServers(guarded(mcp.MaxResponses), outbound.Blocked),
		Authorizer: mcp.NewAuthorizer(mcp.AuthorizerOptions{
			Client: guarded(0), Clock: clock, Plain: !c.Production(), Home: string(base),
		}),
	}
}

type connectorsParams struct {
	fx.In
	CommonParams
	Access     *access.Access
	Catalog    connector.Catalog
	Servers    ports.ToolServers
	Authorizer ports.Authorizer
	Sealer     ports.Sealer
}

// newConnectors makes the use cases of tool servers, whose background work runs between start
// and stop.
func newConnectors(lc fx.Lifecycle, p connectorsParams) *connectors.Connectors {
	absoluteURL := func(path string) string { return string(p.Base) + path }
	document := ""
	if strings.HasPrefix(string(p.Base), "https://") {
		document = absoluteURL(httpapi.ClientDocumentPath)
	}
	s := connectors.New(connectors.Options{
		Store: p.Store, Catalog: p.Catalog, Servers: p.Servers, Authorizer: p.Authorizer, Sealer: p.Sealer,
		Clock: p.Clock, IDs: p.IDs, Secrets: p.Secrets, Log: p.Log, Pause: backOff,
		Reauthorize: p.Access.Reauthorize, Locked: p.Access.Locked, Atomic: p.Access.Atomic, Origin: access.Origin,
		Page: absoluteURL(httpapi.AuthorizePath), Callback: absoluteURL(httpapi.CallbackPath), Document: document,
	})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	lc.Append(fx.StartStopHook(
		func() {
			go func() {
				defer close(done)
				defer s.Wait()
				repeat(ctx, workEvery, s.Woken(), s.Work, p.Log, "connector work failed to start")
			}()
		},
		// Requests may have used up all of drainTimeout.
		drainHook(settleTimeout, func(drain context.Context) error {
			cancel()
			select {
			case <-done:
				return nil
			case <-drain.Done():
				return drain.Err()
			}
		}, p.Log.Error, "connector work not drained"),
	))
	return s
}
