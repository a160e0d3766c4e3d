package main

import (
	"context"
	"io"
	"net/http"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"collab/adapters/apiclient"
)

func (a *app) apiCommand() *cobra.Command {
	var method, input string
	var fields, headers []string
	c := command("api PATH", "Make a request to the interface", 1, 1, a.withClient(func(ctx context.Context, client *apiclient.Client, args []string) (err error) {
		path := args[0]
		if !strings.HasPrefix(path, "/") {
			path = "/" + path
		}
		if !strings.HasPrefix(path, "/api/") {
			path = apiclient.Prefix + path
		}
		var body any
		header := http.Header{}
		switch {
		case len(fields) > 0 && input != "":
			return usage("--field and --input exclude each other")
		case len(fields) > 0:
			if body, err = parseFields(fields, "--field"); err != nil {
				return err
			}
		case input != "":
			content, closer, err := a.openContent(ctx, input)
			if err != nil {
				return err
			}
			defer closer()
			body = content
			header.Set("Content-Type", "application/json")
		}
		for _, h := range headers {
			name, value, ok := strings.Cut(h, ":")
			if !ok {
				return usage("--header %s: must be NAME: VALUE", h)
			}
			header.Set(name, strings.TrimSpace(value))
		}
		if method == "" {
			method = http.MethodGet
			if body != nil {
				method = http.MethodPost
			}
		}
		response, err := client.Do(ctx, strings.ToUpper(method), path, header, body)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		if !a.wantsJSON() {
			_, err := io.Copy(a.toTerminal(printable), response.Body)
			return err
		}
		var tree any
		if err := apiclient.NewDecoder(response.Body).Decode(&tree); err != nil {
			return err
		}
		return a.printTree(selectFields(tree, a.wantedFields()))
	}))
	c.Long = "api makes a request with the stored token and prints the answer. PATH begins at " + apiclient.Prefix + ".\n" +
		"The method is GET, or POST with a body."
	c.Example = "  collab api /tasks?limit=10 --jq '.[].title'\n  collab api /teams --field name=Sales"
	c.Flags().StringVarP(&method, "method", "X", "", "method of the request")
	c.Flags().StringArrayVarP(&fields, "field", "f", nil, "field of a JSON body, as `NAME=VALUE`; numbers, true, false, null, arrays and objects as JSON")
	c.Flags().StringArrayVarP(&headers, "header", "H", nil, "header, as `NAME: VALUE`")
	c.Flags().StringVar(&input, "input", "", "`file` with the body, JSON unless a header says otherwise; - is standard input")
	return c
}

// parseFields returns the fields that the values of a flag are, NAME=VALUE each.
func parseFields(texts []string, flag string) (map[string]any, error) {
	fields := map[string]any{}
	for _, text := range texts {
		name, value, ok := strings.Cut(text, "=")
		if !ok {
			return nil, usage("%s %s: must be NAME=VALUE", flag, text)
		}
		fields[name] = parseValue(value)
	}
	return fields, nil
}

// parseValue returns the JSON value that a text is, else the text.
func parseValue(text string) any {
	var v any
	d := apiclient.NewDecoder(strings.NewReader(text))
	if d.Decode(&v) != nil {
		return text
	}
	if _, err := d.Token(); err != io.EOF {
		return text
	}
	if _, isText := v.(string); isText {
		return text
	}
	return v
}

// openContent returns the content of a file, or of standard input for -.
func (a *app) openContent(ctx context.Context, file string) (apiclient.Content, func(), error) {
	if file == "-" {
		return apiclient.Content{Reader: contextReader{ctx, a.in}, Size: -1}, func() {}, nil
	}
	f, err := os.Open(file)
	if err != nil {
		return apiclient.Content{}, nil, err
	}
	info, err := f.Stat()
	if err == nil && info.IsDir() {
		err = usage("%s is a directory", file)
	}
	if err != nil {
		f.Close()
		return apiclient.Content{}, nil, err
	}
	content := apiclient.Content{Reader: f, Size: info.Size()}
	if !info.Mode().IsRegular() { // such as a pipe
		content = apiclient.Content{Reader: contextReader{ctx, f}, Size: -1}
	}
	return content, func() { f.Close() }, nil
}
