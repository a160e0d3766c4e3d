// Package mcp is this service as a client of the Model Context Protocol: it asks
// tool servers what they offer, and is let in by them through OAuth. Nobody that
// it speaks with is trusted: what they say is bounded, and none of it reaches
// errors or logs, where it could bring secrets along.
package mcp
