package apiclient

import (
	"bytes"
	"cmp"
	"flag"
	"fmt"
	"go/format"
	"maps"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"collab/test/must"
	"collab/test/pages"
)

var update = flag.Bool("update", false, "write api.go")

// operations are those that api.go has, by their ids in the document.
var operations = strings.Fields(`
	exchangeToken startDeviceSignIn claimDeviceToken refreshToken getMe endSession listSessions endOtherSessions
	listFiles uploadFile downloadFile replaceFile deleteFile moveFile moveFolder listVersions downloadVersion restoreFile getManifest followChanges changeFiles readFiles getSyncLimits
	createResumableUpload listResumableUploads getResumableUpload appendToResumableUpload cancelResumableUpload
	listTasks getTask createTask updateTask reorderTasks getTaskHistory
	getMemory putMemory getWorkspaceMemory putWorkspaceMemory chat listModels
	listMembers changeRole removeMember listInvitations invite resendInvitation deleteInvitation
	listTeams createTeam deleteTeam listTeamMembers addTeamMember removeTeamMember
	listWorkspaces createWorkspace deleteWorkspace moveWorkspace
	getOwnUsage getOrganisationUsage getQuota getStorage
	getSubscription startTrial startCheckout openPortal downgrade
	listConnectors listConnectorProviders createConnector deleteConnector getConnectorCredentials storeConnectorCredentials startAuthorization pollAuthorization
	publishRelease changeRelease listReleases getAdoption
	listOrganisations getOrganisation listOrganisationMembers grantSubscription setRole`)

func TestTheClientIsThatOfTheDocument(t *testing.T) {
	doc := must.Do(openapi3.NewLoader().LoadFromFile(pages.Root(t) + "/docs/openapi.yaml")).Or(t)
	g := generator{types: map[string]string{}}
	code := g.file(doc)
	formatted, err := format.Source(code)
	if err != nil {
		t.Fatalf("%v\n%s", err, code)
	}
	if *update {
		must.NoError(t, os.WriteFile("api.go", formatted, 0o644))
	}
	if present, err := os.ReadFile("api.go"); err != nil || !bytes.Equal(present, formatted) {
		t.Error("api.go is not that of docs/openapi.yaml: run go test ./adapters/apiclient -update")
	}
}

// generator makes Go of the document's operations, and of the schemas that they reach.
type generator struct {
	types map[string]string // declarations by name
}

func (g *generator) file(doc *openapi3.T) []byte {
	var methods bytes.Buffer
	known := map[string]bool{}
	for _, path := range slices.Sorted(maps.Keys(doc.Paths.Map())) {
		all := doc.Paths.Map()[path].Operations()
		for _, method := range slices.Sorted(maps.Keys(all)) {
			if id := all[method].OperationID; slices.Contains(operations, id) {
				known[id] = true
				g.operation(&methods, method, path, all[method])
			}
		}
	}
	for _, id := range operations {
		if !known[id] {
			panic("the document has no operation " + id)
		}
	}
	var b bytes.Buffer
	b.WriteString("// Code generated from docs/openapi.yaml by generate_test.go; DO NOT EDIT.\n\npackage apiclient\n\n" +
		"import (\n\"context\"\n\"net/http\"\n\"time\"\n)\n")
	b.Write(methods.Bytes())
	for _, name := range slices.Sorted(maps.Keys(g.types)) {
		b.WriteString(g.types[name])
	}
	return b.Bytes()
}

// operation writes the type of an operation's parameters and its method.
func (g *generator) operation(b *bytes.Buffer, method, path string, o *openapi3.Operation) {
	name := exported(o.OperationID)
	signature, params, body := "ctx context.Context", "nil", "nil"
	place := fmt.Sprintf("%q", path)
	mode := "0"
	if o.Security != nil && len(*o.Security) == 0 {
		mode = "open"
	}
	var fields bytes.Buffer
	for _, ref := range o.Parameters {
		p := ref.Value
		switch {
		case p.Name == "Idempotency-Key":
			mode = strings.TrimPrefix(mode+"|keyed", "0|")
		case p.In == openapi3.ParameterInPath:
			signature += ", " + p.Name + " string"
			place = strings.Replace(place, "{"+p.Name+"}", `" + segment(`+p.Name+`) + "`, 1)
		case p.Deprecated || p.In == openapi3.ParameterInCookie || slices.Contains(unused, p.Name):
		default:
			kind := g.typeOf(p.Schema, name+exported(p.Name))
			if kind != "string" {
				kind = "*" + kind
			}
			fmt.Fprintf(&fields, "%s%s %s `%s:%q`\n", comment(p.Description), exported(p.Name), kind, p.In, p.Name)
		}
	}
	place = strings.TrimSuffix(place, ` + ""`)
	if fields.Len() > 0 {
		g.types[name+"Params"] = fmt.Sprintf("\n%stype %sParams struct {\n%s}\n",
			comment(name+"Params are the parameters of "+name+". Zero fields are left out."), name, fields.String())
		signature, params = signature+", params "+name+"Params", "params"
	}
	if o.RequestBody != nil {
		content := o.RequestBody.Value.Content
		kind := "Content"
		g.lines(content, name)
		if content["multipart/form-data"] == nil && content["application/json"] != nil {
			kind = g.typeOf(content["application/json"].Schema, name+"Body")
		}
		signature, body = signature+", body "+kind, "body"
	}
	request := fmt.Sprintf("c.request(ctx, http.Method%s, %s, %s, %s, %s)", titled(method), place, params, body, mode)
	result, call := g.response(name, o)
	if len(call)+len(request) > maxColumns {
		request = strings.Replace(request, `, "`, ",\n\"", 1)
	}
	if len(name)+len(signature)+len(result) > maxColumns-len("func (c *Client) () (, error) {") {
		signature = "\n" + signature + ",\n"
	}
	fmt.Fprintf(b, "\n%sfunc (c *Client) %s(%s) (%s, error) {\nreturn %s\n}\n",
		comment(name+" is "+method+" "+path+": "+o.Summary+"."), name, signature, result, fmt.Sprintf(call, request))
}

// maxColumns is the length from which on comments, signatures and calls are wrapped.
const maxColumns = 118

// comment returns a text as the lines of a comment.
func comment(text string) string {
	var b strings.Builder
	line := "//"
	for _, word := range strings.Fields(text) {
		if len(line)+len(word) >= maxColumns {
			b.WriteString(line + "\n")
			line = "//"
		}
		line += " " + word
	}
	return b.String() + line + "\n"
}

// unused are the parameters that the transport sets, or that nobody needs.
var unused = []string{"X-Request-Id", "traceparent", "tracestate", "Collab-Position", "Sec-Fetch-Site", "Prefer", "redirect", "lastEventId",
	"limit", "cursor", "If-Match", "If-None-Match"}

// response returns the type of an operation's result and the call that reads it: that of JSON if
// every success has the same, else the response.
func (g *generator) response(name string, o *openapi3.Operation) (result, call string) {
	for _, status := range []int{http.StatusOK, http.StatusCreated, http.StatusAccepted, http.StatusNoContent} {
		ref := o.Responses.Status(status)
		if ref == nil {
			continue
		}
		media := ref.Value.Content["application/json"]
		g.lines(ref.Value.Content, name)
		if media == nil || ref.Value.Content["*/*"] != nil {
			return "*http.Response", "c.send(%s)"
		}
		kind, reading := "", ""
		if media.Schema.Value.Type.Is("array") {
			item := g.typeOf(media.Schema.Value.Items, name+"Item")
			kind, reading = "*List["+item+"]", "list["+item+"](c, %s)"
		} else {
			kind = g.property(media.Schema, name+"Response", true)
			reading = "receive[" + kind + "](c, %s)"
		}
		if result != "" && result != kind {
			return "*http.Response", "c.send(%s)"
		}
		result, call = kind, reading
	}
	return result, call
}

// lines declares the type of the events of a stream, or of the lines of a body, which callers
// write and read themselves.
func (g *generator) lines(content openapi3.Content, name string) {
	for _, kind := range []string{"text/event-stream", "application/x-ndjson"} {
		if media := content[kind]; media != nil {
			g.typeOf(media.Schema, name+"Line")
		}
	}
}

// property is typeOf for a value that is always there or may be absent; null is a pointer
// that is nil.
func (g *generator) property(ref *openapi3.SchemaRef, name string, required bool) string {
	kind := g.typeOf(ref, name)
	if (ref.Value.Nullable || !required) && kind != "any" && !strings.HasPrefix(kind, "[]") && !strings.HasPrefix(kind, "map[") {
		return "*" + kind
	}
	return kind
}

// typeOf returns the Go type of a schema, and declares it if it has fields. The name is for
// one that has none in the document.
func (g *generator) typeOf(ref *openapi3.SchemaRef, name string) string {
	s := ref.Value
	if ref.Ref != "" {
		name = exported(ref.Ref[strings.LastIndex(ref.Ref, "/")+1:])
		if name == "Error" {
			name = "Problem" // Error is the response with it
		}
	}
	switch {
	case len(s.AllOf) == 1:
		return g.typeOf(s.AllOf[0], name)
	case s.Discriminator != nil:
		return g.union(name, s)
	case s.Type.Is("array"):
		return "[]" + g.typeOf(s.Items, name+"Item")
	case s.Type.Is("string") && s.Format == "date-time":
		return "time.Time"
	case s.Type.Is("string"):
		return "string"
	case s.Type.Is("boolean"):
		return "bool"
	case s.Type.Is("integer"):
		return "int64"
	case s.Type.Is("number"):
		return "float64"
	case s.Type.Is("object") && len(s.Properties) > 0:
		g.declare(name, s.Description, s.Properties, s.Required)
		return name
	case s.Type.Is("object") && s.AdditionalProperties.Schema != nil:
		return "map[string]" + g.typeOf(s.AdditionalProperties.Schema, name+"Value")
	case s.Type.Is("object"):
		return "map[string]any"
	}
	return "any"
}

// union declares one struct for a choice of several: the discriminator says which of the
// other fields are set.
func (g *generator) union(name string, s *openapi3.Schema) string {
	all := openapi3.Schemas{}
	for _, one := range s.OneOf {
		maps.Copy(all, one.Value.Properties)
	}
	g.declare(name, s.Description, all, []string{s.Discriminator.PropertyName})
	return name
}

func (g *generator) declare(name, description string, properties openapi3.Schemas, required []string) {
	if _, declared := g.types[name]; declared {
		return
	}
	g.types[name] = "" // for schemas that reach themselves
	// A null removes what a change leaves alone where it is absent.
	patch := strings.HasSuffix(name, "Patch")
	order := slices.SortedFunc(maps.Keys(properties), func(a, b string) int {
		return cmp.Or(cmp.Compare(position(required, a), position(required, b)), cmp.Compare(a, b))
	})
	var fields bytes.Buffer
	for _, property := range order {
		ref := properties[property]
		if ref.Value.Deprecated {
			continue
		}
		always := slices.Contains(required, property)
		kind, option := g.property(ref, name+exported(property), always), ""
		switch {
		case patch && ref.Value.Nullable:
			kind, option = "Change["+strings.TrimPrefix(kind, "*")+"]", ",omitzero"
		case !always:
			option = ",omitzero"
		}
		fmt.Fprintf(&fields, "%s %s `json:\"%s%s\"`\n", exported(property), kind, property, option)
	}
	g.types[name] = fmt.Sprintf("\n%stype %s struct {\n%s}\n", comment(name+": "+description), name, fields.String())
}

// position is that of a required field, and behind all of them for others.
func position(required []string, field string) int {
	if i := slices.Index(required, field); i >= 0 {
		return i
	}
	return len(required)
}

var words = regexp.MustCompile(`[A-Z]?[a-z0-9]+|[A-Z]+`)

// exported returns a name of the document as Go has names.
func exported(name string) string {
	var b strings.Builder
	for _, word := range words.FindAllString(name, -1) {
		word = titled(strings.ToLower(word[:1]) + word[1:])
		switch word {
		case "Id", "Url", "Uri", "Json":
			word = strings.ToUpper(word)
		case "Ids":
			word = "IDs"
		}
		b.WriteString(word)
	}
	return b.String()
}

// titled returns a word with only its first letter in upper case, as the names of methods
// in net/http are.
func titled(word string) string {
	if word == strings.ToUpper(word) {
		word = strings.ToLower(word)
	}
	return strings.ToUpper(word[:1]) + word[1:]
}
