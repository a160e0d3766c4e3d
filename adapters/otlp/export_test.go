package otlp

import "net/http"

// SetTransport has the client send its requests by rt.
func (c *Client) SetTransport(rt http.RoundTripper) { c.http.Transport = rt }
