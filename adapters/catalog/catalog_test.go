package catalog

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"collab/adapters/strictjson"
	"collab/domain/connector"
	"collab/test/must"
)

func TestTheBuiltInProviders(t *testing.T) {
	c := must.Do(BuiltIn()).Or(t)
	all := c.Enabled()
	modes, transports := map[connector.AuthMode]int{}, map[connector.Transport]int{}
	for _, p := range all {
		modes[p.Auth]++
		transports[p.Transport]++
		if p.Category == "" {
			t.Errorf("%s has no category", p.ID)
		}
		if p.Auth == connector.APIKey && p.Fields[0].Name != "apiKey" {
			t.Errorf("%s has the key in %s", p.ID, p.Fields[0].Name)
		}
		if custom := strings.HasPrefix(p.ID, "custom-"); p.Transport != connector.Stdio && custom != (p.URL == "") {
			t.Errorf("%s has the address %q", p.ID, p.URL)
		}
	}
	wantModes := map[connector.AuthMode]int{connector.ServerMediated: 5, connector.RemoteOAuth: 13, connector.APIKey: 11, connector.NoAuth: 11}
	wantTransports := map[connector.Transport]int{connector.Stdio: 9, connector.SSE: 2, connector.HTTP: 29}
	must.Equal(t, wantModes, modes)
	must.Equal(t, wantTransports, transports)
	if first, last := all[0].ID, all[len(all)-1].ID; first != "github" || last != "custom-oauth" {
		t.Errorf("they are from %s to %s", first, last)
	}
	github, _ := c.Get("github")
	want := connector.Provider{
		ID: "github", Name: "GitHub", Description: github.Description, Category: "development",
		Auth: connector.ServerMediated, Transport: connector.HTTP, URL: "https://api.githubcopilot.com/mcp/", Enabled: true,
	}
	must.Equal(t, want, github)
}

// Records with every field of their transport.
const (
	cloud = `{"serverId":"owls","displayName":"Öwls","description":"Counts owls.","iconUrl":"https://owls.example/icon.svg","category":"birds",` +
		`"authMode":"API_KEY","mcpTransport":"HTTP","mcpUrl":"https://owls.example/mcp?night=1",` +
		`"credentials":[{"name":"apiKey","label":"Key"},{"name":"team","label":"Team","optional":true}],` +
		`"headers":{"Authorization":"Bearer {apiKey}","X-Owls":"{team}/{apiKey}","X-Season":"winter"},"enabled":false}`
	local = `{"serverId":"bats","displayName":"Bats","description":"Counts bats.","authMode":"API_KEY","mcpTransport":"STDIO","command":["npx","-y","bats"],` +
		`"credentials":[{"name":"apiKey","label":"Key"}],"env":{"BATS_KEY":"{apiKey}","_NIGHT":"1"}}`
	oauth  = `{"serverId":"swans","displayName":"Swans","description":"Counts swans.","authMode":"REMOTE_OAUTH","mcpTransport":"SSE","scopes":["read","swans:write"],"headers":{"X-Season":"winter"}}`
	client = `{"issuer":"https://owls.example/login","clientId":"collab","clientSecret":"s3cr3t","authMethod":"client_secret_post"}`
)

func providers(records ...string) []byte {
	return []byte(`{"providers":[` + strings.Join(records, ",") + `]}`)
}

func clients(records ...string) []byte {
	return []byte(`{"builtIn":true,"clients":[` + strings.Join(records, ",") + `]}`)
}

func TestParseReadsEveryField(t *testing.T) {
	c, err := Parse([]byte(` {"builtIn":false,"providers":[` + cloud + `,` + oauth + `,` + local + `],"clients":[` + client +
		`,{"issuer":"http://127.0.0.1:7000","clientId":"public"},{"issuer":"http://[::1]:7000/","clientId":"basic","clientSecret":"x y"}]} ` + "\n"))
	must.NoError(t, err)
	owls, _ := c.Get("owls")
	got := append(c.Enabled(), owls)
	want := []connector.Provider{
		{
			ID: "swans", Name: "Swans", Description: "Counts swans.", Auth: connector.RemoteOAuth, Transport: connector.SSE,
			Scopes: []string{"read", "swans:write"}, CredentialTemplates: map[string]string{"X-Season": "winter"}, Enabled: true,
		},
		{
			ID: "bats", Name: "Bats", Description: "Counts bats.", Auth: connector.APIKey, Transport: connector.Stdio, Command: []string{"npx", "-y", "bats"},
			Fields: []connector.Field{{Name: "apiKey", Label: "Key"}}, CredentialTemplates: map[string]string{"BATS_KEY": "{apiKey}", "_NIGHT": "1"}, Enabled: true,
		},
		{
			ID: "owls", Name: "Öwls", Description: "Counts owls.", IconURL: "https://owls.example/icon.svg", Category: "birds",
			Auth: connector.APIKey, Transport: connector.HTTP, URL: "https://owls.example/mcp?night=1",
			Fields:              []connector.Field{{Name: "apiKey", Label: "Key"}, {Name: "team", Label: "Team", Optional: true}},
			CredentialTemplates: map[string]string{"Authorization": "Bearer {apiKey}", "X-Owls": "{team}/{apiKey}", "X-Season": "winter"},
		},
	}
	must.Equal(t, want, got)
	for issuer, want := range map[string]connector.Client{
		"https://owls.example/login": {ID: "collab", Secret: "s3cr3t", Method: "client_secret_post"},
		"http://127.0.0.1:7000":      {ID: "public", Method: "none"},
		"http://[::1]:7000/":         {ID: "basic", Secret: "x y", Method: "client_secret_basic"},
	} {
		if got, ok := c.Client(issuer); !ok || got != want {
			t.Errorf("the client of %s is not as it is written", issuer)
		}
	}
}

func TestParseKeepsTheOrder(t *testing.T) {
	known := must.Do(BuiltIn()).Or(t)
	ids := func(c connector.Catalog) []string {
		var all []string
		for _, p := range c.Enabled() {
			all = append(all, p.ID)
		}
		return all
	}
	notion := strings.Replace(oauth, "swans", "notion", 1)
	for _, c := range []struct {
		about, text string
		want        []string
	}{
		{"of a file alone", `{"providers":[` + oauth + `,` + local + `]}`, []string{"swans", "bats"}},
		{"of a file without any", `{"providers":[]}`, nil},
		{"of the built-in ones alone", `{"builtIn":true}`, ids(known)},
		{"of others behind the built-in ones", `{"providers":[` + oauth + `,` + local + `],"builtIn":true}`, append(ids(known), "swans", "bats")},
		{"of one in the place of a built-in one", `{"builtIn":true,"providers":[` + oauth + `,` + notion + `]}`, append(ids(known), "swans")},
		{
			"and leaves out a built-in one that is not enabled", `{"builtIn":true,"providers":[` + strings.Replace(notion, "{", `{"enabled":false,`, 1) + `]}`,
			slices.DeleteFunc(ids(known), func(id string) bool { return id == "notion" }),
		},
	} {
		t.Run(c.about, func(t *testing.T) {
			got := must.Do(Parse([]byte(c.text))).Or(t)
			must.Equal(t, c.want, ids(got))
			if p, ok := got.Get("notion"); strings.Contains(c.text, "notion") && (!ok || p.Name != "Swans") {
				t.Errorf("notion is %q", p.Name)
			}
		})
	}
}

// with returns a record with a field set to a JSON value, none for an empty one.
func with(t *testing.T, record, field, value string) string {
	t.Helper()
	var fields map[string]json.RawMessage
	must.NoError(t, json.Unmarshal([]byte(record), &fields))
	delete(fields, field)
	if value != "" {
		fields[field] = json.RawMessage(value)
	}
	b := must.Do(json.Marshal(fields)).Or(t)
	return string(b)
}

func TestParseRefusesProviders(t *testing.T) {
	long := func(n int) string { return `"` + strings.Repeat("x", n) + `"` }
	many := func(n int, one string) string { return `[` + strings.Repeat(one+",", n-1) + one + `]` }
	numbered := func(n int, form string) string {
		var all []string
		for i := range n {
			all = append(all, fmt.Sprintf(form, i))
		}
		return strings.Join(all, ",")
	}
	address := func(n int) string {
		return `"https://owls.example/` + strings.Repeat("x", n-len("https://owls.example/")) + `"`
	}
	type refused struct{ record, field, value string }
	var all []refused
	for record, fields := range map[string]map[string][]string{
		cloud: {
			"serverId":     {"", `""`, `"Owls"`, `"an owl"`, `"-owl"`, `"öwl"`, long(65), "7", "null"},
			"displayName":  {"", `""`, `" a"`, `"a\u0007"`, long(201), "null"},
			"description":  {"", `""`, `"a\nb"`, long(1001), "[]"},
			"iconUrl":      {`""`, `"icon.svg"`, `"http://owls.example/icon.svg"`, `"data:image/png;base64,AA"`, "null"},
			"category":     {`""`, `"Birds of Prey"`, long(65), "null"},
			"authMode":     {"", `"api_key"`, `"OAUTH"`, "null"},
			"mcpTransport": {"", `"WEBSOCKET"`, `"http"`},
			"mcpUrl": {
				`""`, `"owls.example"`, `"//owls.example"`, `"ftp://owls.example"`, `"http://owls.example"`, `"http://localhost.owls.example"`, `"http://10.0.0.1"`,
				`"https://"`, `"https://:443/"`, `"https://a:b@owls.example"`, `"https://owls.example/#"`, `"https://owls.example/a b"`, `"https://öwls.example"`,
				`"https://owls.example/\n"`, `"https://owls.example:x"`, address(2049), "null",
			},
			"command": {`["npx"]`, "[]"},
			"env":     {`{"A":"b"}`, "{}"},
			"credentials": {
				"", "[]", "{}", "null", `["apiKey"]`, `[null]`, `[{"name":"apiKey"}]`, `[{"name":"apiKey","label":"Key","secret":true}]`,
				`[{"label":"Key"}]`, `[{"name":"api key","label":"Key"}]`, `[{"name":"9","label":"Key"}]`, `[{"name":` + long(65) + `,"label":"Key"}]`,
				`[{"name":"apiKey","label":" "}]`, `[{"name":"apiKey","label":` + long(201) + `}]`,
				`[{"name":"apiKey","label":"Key","optional":1}]`, `[{"name":"apiKey","label":"Key"},{"name":"team","label":"A","optional":true},{"name":"apiKey","label":"Other"}]`,
				`[{"name":"apiKey","label":"Key"},{"name":"team","label":"A"},{"name":"unused","label":"B"}]`,
				`[{"name":"apiKey","label":"Key"},{"name":"apiKey","name":"x","label":"Key"}]`,
				`[{"name":"apiKey","label":"Key"},` + numbered(maxFields, `{"name":"f%d","label":"F","optional":true}`) + `]`,
			},
			"headers": {
				"[]", "null", `"X"`, `{"X-Key":"{apiKey}","X-Owls":7}`, `{"X-Key":null}`, `{"X-Key":"{apiKey}","X-Key":"{apiKey}"}`, `{"X-Key":"{apiKey}","x-key":"{team}"}`,
				`{"":"{apiKey}"}`, `{"X Key":"{apiKey}"}`, `{"X:":"{apiKey}"}`, `{"Ö":"{apiKey}"}`, `{` + long(101) + `:"{apiKey}"}`,
				`{"X-Key":""}`, `{"X-Key":" {apiKey}"}`, `{"X-Key":"{apiKey}\r\nX: y"}`, `{"X-Key":"{apiKey} ö"}`, `{"X-Key":"{apiKey}","X":` + long(1001) + `}`,
				`{"Host":"{apiKey}"}`, `{"connection":"{apiKey}"}`, `{"Keep-Alive":"{apiKey}"}`, `{"Proxy-Authorization":"{apiKey}"}`, `{"TE":"{apiKey}"}`, `{"Trailer":"{apiKey}"}`,
				`{"Transfer-Encoding":"{apiKey}"}`, `{"Upgrade":"{apiKey}"}`, `{"Content-Type":"{apiKey}"}`, `{"content-length":"{apiKey}"}`, `{"Mcp-Session-Id":"{apiKey}"}`,
				`{"MCP-Protocol-Version":"{apiKey}"}`, `{"Accept":"{apiKey}"}`, `{"Last-Event-ID":"{apiKey}"}`, `{"Origin":"{apiKey}"}`, `{"HTTP2-Settings":"{apiKey}"}`, `{"Sec-Fetch-Mode":"{apiKey}"}`,
				`{"X-Key":"{apiKey} {other}"}`, `{"X-Key":"{apiKey} {}"}`, `{"X-Key":"{apiKey} {"}`, `{"X-Key":"{apiKey} }"}`, `{"X-Key":"{{apiKey}}"}`, `{"X-Key":"{apikey}"}`,
				`{"X-Key":"{apiKey}",` + numbered(maxTemplates, `"X-%d":"a"`) + `}`,
			},
			"scopes":  {`["read"]`, "[]"},
			"enabled": {"1", `"yes"`, "null"},
			"Enabled": {"true"},
			"price":   {"1"},
		},
		local: {
			"authMode":    {`"REMOTE_OAUTH"`, `"SERVER_MEDIATED"`},
			"mcpUrl":      {`"https://bats.example/mcp"`, `""`},
			"headers":     {`{"X-Key":"{apiKey}"}`, "{}"},
			"command":     {"", "[]", `"npx"`, `[""]`, `["npx",null]`, `["npx","a\u0000"]`, `["npx",7]`, `["` + strings.Repeat("x", 1001) + `"]`, many(51, `"x"`)},
			"credentials": {"", "[]", `[{"name":"apiKey","label":"Key"},{"name":"unused","label":"B"}]`},
			"env": {
				"[]", "null", `{"BATS_KEY":7}`, `{"bats_key":"{apiKey}"}`, `{"9":"{apiKey}"}`, `{"":"{apiKey}"}`, `{"BATS-KEY":"{apiKey}"}`, `{"A` + strings.Repeat("X", 100) + `":"{apiKey}"}`,
				`{"BATS_KEY":""}`, `{"BATS_KEY":"{apiKey}\u0000"}`, `{"BATS_KEY":"{apiKey}","A":` + long(1001) + `}`, `{"BATS_KEY":"{apiKey}","BATS_KEY":"{apiKey}"}`, `{"BATS_KEY":"{key}"}`,
			},
		},
		oauth: {
			"credentials": {`[{"name":"accessToken","label":"Token"}]`, "[]"},
			"headers":     {`{"authorization":"Basic x"}`, `{"X-Token":"{accessToken}"}`},
			"scopes":      {`"read"`, "null", `[""]`, `["a b"]`, `["\""]`, `["a\\"]`, `["ö"]`, `["a","a"]`, `[` + long(201) + `]`, `[` + numbered(51, `"s%d"`) + `]`},
		},
	} {
		for field, values := range fields {
			for _, value := range values {
				all = append(all, refused{record, field, value})
			}
		}
	}
	for _, c := range all {
		t.Run(c.field+" "+strictjson.Shorten(c.value), func(t *testing.T) {
			_, err := Parse(providers(with(t, c.record, c.field, c.value)))
			// The error names the field without the credential.
			named := []string{c.field}
			switch {
			case c.field == "credentials":
				named = append(named, "headers", "env")
			case c.field == "headers" || c.field == "env":
				named = append(named, "credentials")
			}
			if err == nil || !strings.Contains(err.Error(), "provider 1") || !slices.ContainsFunc(named, func(f string) bool { return strings.Contains(err.Error(), f) }) {
				t.Errorf("%v does not name the provider and the field", err)
			}
			if err != nil && len(err.Error()) > 400 {
				t.Errorf("the error has %d bytes", len(err.Error()))
			}
		})
	}
}

func TestParseReturnsPlainErrors(t *testing.T) {
	season := `{"X-Season":"winter"}`
	for _, c := range []struct{ about, record, want string }{
		{
			"a key that there is no entry for", with(t, with(t, cloud, "credentials", ""), "headers", season),
			`provider 1 "owls": credentials: must be one at least`,
		},
		{
			"a label that misses", with(t, cloud, "credentials", `[{"name":"apiKey","label":"Key"},{"name":"team"}]`),
			`provider 1 "owls": credentials[1]: label: must be 1 to 200 characters`,
		},
		{
			"an entry that nothing carries", with(t, cloud, "headers", season),
			`provider 1 "owls": credentials[0]: name: must be in headers or env`,
		},
		{
			"optional entries of which nothing carries one",
			with(t, with(t, cloud, "headers", season), "credentials", `[{"name":"apiKey","label":"Key","optional":true}]`),
			`provider 1 "owls": headers: must have one at least`,
		},
		{
			"credentials of a server that needs none", with(t, local, "authMode", `"NONE"`),
			`provider 1 "bats": credentials: must not be given`,
		},
		{
			"scopes of a server that needs none", with(t, oauth, "authMode", `"NONE"`),
			`provider 1 "swans": scopes: must not be given`,
		},
		{
			"a field that there is not", with(t, cloud, "headrs", season),
			`provider 1 "owls": "headrs": is no field of a provider`,
		},
		{
			"a header that is a number", with(t, oauth, "headers", `{"X-Season":4}`),
			`provider 1 "swans": headers: must be an object of texts`,
		},
		{
			"two headers of one name", with(t, oauth, "headers", `{"X-Season":"a","x-season":"b"}`),
			`must not be given twice, in whatever case`,
		},
	} {
		t.Run(c.about, func(t *testing.T) {
			// The name is first, so that later errors can name it.
			id := with(t, c.record, "serverId", "")
			var first struct{ ServerID string }
			must.NoError(t, json.Unmarshal([]byte(c.record), &first))
			record := `{"serverId":"` + first.ServerID + `",` + strings.TrimPrefix(id, "{")
			if _, err := Parse(providers(record)); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v is not %q", err, c.want)
			}
		})
	}
}

func TestParseAcceptsValuesAtTheLimits(t *testing.T) {
	for _, c := range []struct{ record, field, value string }{
		{cloud, "mcpUrl", ""}, {cloud, "mcpUrl", `"http://localhost:9000/mcp"`}, {cloud, "mcpUrl", `"http://127.0.0.1"`}, {cloud, "mcpUrl", `"http://[::1]/"`},
		{cloud, "mcpUrl", `"https://owls.example/` + strings.Repeat("x", 2048-len("https://owls.example/")) + `"`},
		{cloud, "serverId", `"` + strings.Repeat("9", 64) + `"`}, {cloud, "displayName", `"` + strings.Repeat("ö", 200) + `"`},
		{cloud, "description", `"` + strings.Repeat("ö", 1000) + `"`}, {cloud, "iconUrl", ""}, {cloud, "category", ""}, {cloud, "enabled", "true"},
		{cloud, "headers", `{"x-api-key":"{apiKey}{apiKey}"}`}, {cloud, "credentials", `[{"name":"apiKey","label":"Key","optional":true},{"name":"team","label":"A","optional":true},{"name":"unused","label":"B","optional":true}]`},
		{local, "credentials", `[{"name":"apiKey","label":"Key"},{"name":"unused","label":"B","optional":true}]`},
		{local, "command", `["` + strings.Repeat("x", 1000) + `"]`}, {local, "env", `{"BATS_KEY":"ö {apiKey}"}`},
		{oauth, "authMode", `"SERVER_MEDIATED"`}, {oauth, "authMode", `"REMOTE_OAUTH"`}, {oauth, "scopes", ""}, {oauth, "scopes", "[]"}, {oauth, "headers", ""},
		{strings.Replace(oauth, `"scopes":["read","swans:write"],`, "", 1), "authMode", `"NONE"`},
	} {
		t.Run(c.field+" "+strictjson.Shorten(c.value), func(t *testing.T) {
			must.Do(Parse(providers(with(t, c.record, c.field, c.value)))).Or(t)
		})
	}
}

func TestParseRefusesClients(t *testing.T) {
	for field, values := range map[string][]string{
		"issuer": {
			"", `""`, `"owls.example"`, `"http://owls.example"`, `"https://owls.example?a=b"`, `"https://owls.example?"`, `"https://owls.example#"`,
			`"https://s3cr3t@owls.example"`, "null", "7",
		},
		"clientId":     {"", `""`, `"a\n"`, `"ö"`, `"` + strings.Repeat("x", 4097) + `"`, "null"},
		"clientSecret": {`""`, `"s3cr3t\n"`, `"s3cr3tö"`, `"s3cr3t` + strings.Repeat("x", 4096) + `"`, "null", `["s3cr3t"]`, `{"s3cr3t":1}`},
		"authMethod":   {`""`, `"none"`, `"private_key_jwt"`, `"s3cr3t"`, "null", `["s3cr3t"]`},
		"secret":       {`"s3cr3t"`},
	} {
		for _, value := range values {
			t.Run(field+" "+strictjson.Shorten(value), func(t *testing.T) {
				_, err := Parse(clients(with(t, client, field, value)))
				if err == nil || !strings.Contains(err.Error(), "client 1: ") || !strings.Contains(err.Error(), field) {
					t.Fatalf("%v does not name the client and the field", err)
				}
				if strings.Contains(err.Error(), "s3cr3t") {
					t.Errorf("%v has the secret", err)
				}
			})
		}
	}
	for _, method := range []string{"client_secret_basic", "client_secret_post"} {
		t.Run(method+" without a secret", func(t *testing.T) {
			record := with(t, with(t, client, "clientSecret", ""), "authMethod", `"`+method+`"`)
			if _, err := Parse(clients(record)); err == nil || !strings.Contains(err.Error(), "authMethod") {
				t.Errorf("%v does not name the field", err)
			}
		})
	}
	t.Run("two of one issuer", func(t *testing.T) {
		if _, err := Parse(clients(client, client)); err == nil || !strings.Contains(err.Error(), "client 2: issuer") {
			t.Errorf("%v does not name the client and the field", err)
		}
	})
	t.Run("more than a catalog may have", func(t *testing.T) {
		var records []string
		for i := range maxClients + 1 {
			records = append(records, with(t, client, "issuer", fmt.Sprintf(`"https://owls.example/%d"`, i)))
		}
		must.Do(Parse(clients(records[1:]...))).Or(t)
		if _, err := Parse(clients(records...)); err == nil {
			t.Error("they were taken")
		}
	})
}

func TestParseRefusesFiles(t *testing.T) {
	whole := string(providers(oauth))
	for name, text := range map[string]string{
		"nothing":                            "",
		"null":                               "null",
		"an array":                           "[" + oauth + "]",
		"an object without providers":        "{}",
		"an object without providers either": `{"builtIn":false,"clients":[]}`,
		"an object without an end":           strings.TrimSuffix(whole, "}"),
		"an array without an end":            `{"providers":[` + oauth,
		"an array that ends with a comma":    `{"providers":[` + oauth + `,]}`,
		"a record without an end":            strings.TrimSuffix(whole, "}]}"),
		"a name without a value":             `{"providers"}`,
		"headers without an end":             `{"providers":[{"headers":{"A":"b"`,
		"something after the object":         whole + "{}",
		"a word after the object":            whole + "x",
		"another field":                      `{"providers":[],"version":1}`,
		"a field in another case":            `{"Providers":[]}`,
		"a field twice":                      `{"providers":[],"providers":[]}`,
		"a field of a record twice":          strings.Replace(whole, `{"serverId"`, `{"displayName":"A","serverId"`, 1),
		"providers that are no array":        `{"providers":{}}`,
		"providers that are null":            `{"providers":null}`,
		"clients that are null":              `{"providers":[],"clients":null}`,
		"built-in ones that are a text":      `{"builtIn":"true"}`,
		"a provider that is null":            `{"providers":[null]}`,
		"a provider that is an array":        `{"providers":[[]]}`,
		"a serverId twice":                   string(providers(oauth, oauth)),
		"what is no UTF-8":                   strings.Replace(whole, "Swans", "S\xff", 1),
		"more bytes than a catalog may have": whole + strings.Repeat(" ", maxBytes),
	} {
		t.Run(name, func(t *testing.T) {
			if c, err := Parse([]byte(text)); err == nil {
				t.Errorf("%d providers were taken", len(c.Enabled()))
			}
		})
	}
	t.Run("more providers than a catalog may have", func(t *testing.T) {
		var records []string
		for i := range maxProviders + 1 {
			records = append(records, with(t, oauth, "serverId", fmt.Sprintf(`"s%d"`, i)))
		}
		must.Do(Parse(providers(records[1:]...))).Or(t)
		if _, err := Parse(providers(records...)); err == nil {
			t.Error("they were taken")
		}
	})
	t.Run("and names the provider that is wrong", func(t *testing.T) {
		_, err := Parse(providers(oauth, with(t, cloud, "mcpTransport", `"TCP"`)))
		if err == nil || !strings.HasPrefix(err.Error(), `provider 2 "owls": mcpTransport: `) {
			t.Error(err)
		}
	})
}

// FuzzParse checks the invariants of accepted catalogs.
func FuzzParse(f *testing.F) {
	f.Add(builtIn)
	f.Add([]byte(`{"builtIn":true,"providers":[` + cloud + `,` + local + `,` + oauth + `],"clients":[` + client + `]}`))
	f.Add([]byte(`{"providers":[{"serverId":"a","credentials":[null],"headers":{"A":"{b}{"}}]}`))
	f.Add(clients(`{"issuer":"http://[::1]?","clientSecret":"s3cr3t"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := Parse(data)
		if err != nil {
			if len(c.Enabled()) != 0 || len(err.Error()) > 600 {
				t.Errorf("%d providers with the error %v", len(c.Enabled()), err)
			}
			return
		}
		for _, p := range c.Enabled() {
			entries := map[string]string{}
			for _, field := range p.Fields {
				if !field.Optional {
					entries[field.Name] = "x"
				}
			}
			if p.Auth == connector.APIKey && p.CheckCredentials(entries) != nil {
				t.Errorf("%+v takes no credentials", p)
			}
			if (p.Transport == connector.Stdio) != (len(p.Command) > 0) || p.Transport == connector.Stdio && p.URL != "" {
				t.Errorf("%+v was taken", p)
			}
			for _, value := range slices.Sorted(maps.Values(p.CredentialTemplates)) {
				for _, field := range p.Fields {
					value = strings.ReplaceAll(value, "{"+field.Name+"}", "")
				}
				if strings.ContainsAny(value, "{}\r\n\x00") {
					t.Errorf("%+v was taken", p)
				}
			}
		}
	})
}
