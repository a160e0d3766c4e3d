// Package mcp is a client of the Model Context Protocol: it lists the tools of tool servers
// and gets their authorization through OAuth. Servers are not trusted: their responses are
// limited, and errors and logs contain nothing of them, which could be secret.
package mcp
