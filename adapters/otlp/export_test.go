package otlp

import "net/http"

// SetTransport sets the transport of the client.
func (c *Client) SetTransport(rt http.RoundTripper) { c.http.Transport = rt }
