package fastpath

import "bytes"

var (
	lineEnd   = []byte("\r\n")
	headEnd   = []byte("\r\n\r\n")
	keepAlive = []byte("keep-alive")
)

// Kinds of headers, beside the places of those that the handler reads.
const (
	other      = -1 // says nothing to anybody here
	host       = -2
	connection = -3
	special    = -4 // says something else about the connection, or about a body
)

// named are the kinds of headers that count on every path. What is special net/http
// has to deal with.
var named = []struct {
	name []byte
	kind int
}{
	{[]byte("Host"), host}, {[]byte("Connection"), connection},
	{[]byte("Content-Length"), special}, {[]byte("Transfer-Encoding"), special}, {[]byte("Expect"), special},
	{[]byte("Upgrade"), special}, {[]byte("Te"), special}, {[]byte("Trailer"), special},
	{[]byte("Http2-Settings"), special}, {[]byte("Proxy-Connection"), special},
}

// kind returns what a header is to the path.
func (p *Path) kind(name []byte) int {
	for _, n := range named {
		if len(n.name) == len(name) && bytes.EqualFold(n.name, name) {
			return n.kind
		}
	}
	for i, known := range p.Headers {
		if len(known) == len(name) && bytes.EqualFold([]byte(known), name) {
			return i
		}
	}
	return other
}

// target reads the first line of a head and returns the query and the rest.
func (p *Path) target(head []byte) (query, rest []byte, ok bool) {
	line, rest, _ := bytes.Cut(head, lineEnd)
	line, ok1 := bytes.CutPrefix(line, []byte("GET "))
	line, ok2 := bytes.CutSuffix(line, []byte(" HTTP/1.1"))
	query, ok3 := bytes.CutPrefix(line, []byte(p.Path))
	if !ok1 || !ok2 || !ok3 || len(query) < 2 || query[0] != '?' {
		return nil, nil, false
	}
	query = query[1:]
	for _, c := range query {
		if c <= ' ' || c >= 0x7f || c == '#' {
			return nil, nil, false
		}
	}
	return query, rest, true
}

// header splits a line. What net/http might refuse is none.
func header(line []byte) (name, value []byte, ok bool) {
	name, value, ok = bytes.Cut(line, []byte(":"))
	if !ok || len(name) == 0 {
		return nil, nil, false
	}
	for _, c := range name {
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-' && c != '_' {
			return nil, nil, false
		}
	}
	value = bytes.Trim(value, " \t")
	for _, c := range value {
		if c < ' ' && c != '\t' || c == 0x7f {
			return nil, nil, false
		}
	}
	return name, value, true
}
