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

// toolEdge are the ports of tool servers and their authorization servers.
type toolEdge struct {
	fx.Out
	Servers    ports.ToolServers
	Authorizer ports.Authorizer
}

func chooseToolServers(config.Config) choice {
	return choice{group: "ToolServers, Authorizer", adapter: "`mcp`, with the clients of `outbound`", option: fx.Provide(toolServers, config.Config.Catalog)}
}

func toolServers(lc fx.Lifecycle, c config.Config, base publicURL, clock ports.Clock) toolEdge {
	guarded := func(maxBody int64) *http.Client {
		client := outbound.New(outbound.Options{Insecure: !c.Production(), Networks: c.ConnectorNetworks, MaxBody: maxBody})
		lc.Append(fx.StopHook(client.CloseIdleConnections))
		return client
	}
	return toolEdge{
		Servers: mcp.NewServers(guarded(mcp.MaxResponses), outbound.Blocked),
		Authorizer: mcp.NewAuthorizer(mcp.AuthorizerOptions{
			Client: guarded(0), Clock: clock, Plain: !c.Production(), Home: string(base),
		}),
	}
}

type connectorsNeeds struct {
	fx.In
	Basics
	Access     *access.Access
	Catalog    connector.Catalog
	Servers    ports.ToolServers
	Authorizer ports.Authorizer
	Sealer     ports.Sealer
}

// newConnectors makes the use cases of tool servers, whose background work runs between start
// and stop.
func newConnectors(lc fx.Lifecycle, n connectorsNeeds) *connectors.Connectors {
	at := func(path string) string { return string(n.Base) + path }
	document := ""
	if strings.HasPrefix(string(n.Base), "https://") {
		document = at(httpapi.ClientDocumentPath)
	}
	s := connectors.New(connectors.Options{
		Store: n.Store, Catalog: n.Catalog, Servers: n.Servers, Authorizer: n.Authorizer, Sealer: n.Sealer,
		Clock: n.Clock, IDs: n.IDs, Secrets: n.Secrets, Log: n.Log, Pause: backOff,
		Reauthorize: n.Access.Reauthorize, Locked: n.Access.Locked, Atomic: n.Access.Atomic, Origin: access.Origin,
		Page: at(httpapi.AuthorizePath), Callback: at(httpapi.CallbackPath), Document: document,
	})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	lc.Append(fx.StartStopHook(
		func() {
			go func() {
				defer close(done)
				defer s.Wait()
				repeat(ctx, workEvery, s.Woken(), s.Work, n.Log, "connector work failed to start")
			}()
		},
		// Requests may have used up all of drainTime.
		drainHook(settleTime, func(drain context.Context) error {
			cancel()
			select {
			case <-done:
				return nil
			case <-drain.Done():
				return drain.Err()
			}
		}, n.Log.Error, "connector work not drained"),
	))
	return s
}
