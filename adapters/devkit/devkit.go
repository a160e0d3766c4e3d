// Package devkit has the parts that the providers of a development server share: routes under a
// prefix, pages in one style, forms and errors. It is a leaf: it imports the standard
// library and a template engine alone.
package devkit

import (
	"bytes"
	"embed"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	template "github.com/DataDog/datadog-agent/pkg/template/html"
)

const maxForm = 64 << 10 // bytes

//go:embed layout.html icon.svg
var files embed.FS

// Options has the dependencies and settings of a Site.
type Options struct {
	Prefix string           // the path under which the site is mounted, without a trailing slash
	Name   string           // what the site is, in logs and messages
	Footer string           // a verb phrase that follows the name on every page
	Files  fs.FS            // has the templates
	Style  string           // the style sheet of the pages
	Funcs  template.FuncMap // of the templates, beside prefix, name and footer
	Log    *slog.Logger

	// AppendError appends the JSON of an error's response.
	AppendError func(dst []byte, status int, message string) []byte

	// Admit returns an error for a request that is refused whatever its path is.
	Admit func(*http.Request) error

	// Explain returns the *Error for a handler's error, or nil if it is internal; it is then
	// logged.
	Explain func(error) *Error
}

// Site serves the pages of a provider under its prefix.
type Site struct {
	options Options
	pages   *template.Template
	mux     *http.ServeMux
	origins *http.CrossOriginProtection
}

// Handler serves a request, or returns the error that it replies with.
type Handler func(w http.ResponseWriter, r *http.Request) error

// Error is an error whose message is shown to the caller.
type Error struct {
	Status  int
	Message string // a sentence without its full stop
}

func (e *Error) Error() string { return e.Message }

// notFound is the error for a path without a handler.
var notFound = &Error{http.StatusNotFound, "There is nothing at this address"}

// New returns a site with the icon and the style sheet only. It panics if a template is invalid.
func New(o Options, templates ...string) *Site {
	s := &Site{options: o, mux: http.NewServeMux(), origins: http.NewCrossOriginProtection()}
	text := func(value string) func() string { return func() string { return value } }
	funcs := template.FuncMap{"prefix": text(o.Prefix), "name": text(o.Name), "footer": text(o.Footer)}
	maps.Copy(funcs, o.Funcs)
	s.pages = template.Must(template.New("").Funcs(funcs).ParseFS(files, "layout.html"))
	template.Must(s.pages.ParseFS(o.Files, templates...))
	s.Handle("/icon.svg", map[string]Handler{"GET": func(w http.ResponseWriter, r *http.Request) error {
		w.Header().Set("Cache-Control", "no-cache")
		http.ServeFileFS(w, r, files, "icon.svg")
		return nil
	}})
	s.Handle("/style.css", map[string]Handler{"GET": func(w http.ResponseWriter, r *http.Request) error {
		w.Header().Set("Cache-Control", "no-cache")
		http.ServeContent(w, r, "style.css", time.Time{}, strings.NewReader(o.Style))
		return nil
	}})
	s.Handle("/", map[string]Handler{"": func(http.ResponseWriter, *http.Request) error { return notFound }})
	return s
}

// Handle serves the path below the prefix, a pattern of http.ServeMux without a method,
// by the handlers of its methods. GET includes HEAD; "" is any method.
func (s *Site) Handle(path string, methods map[string]Handler) {
	allowed := slices.Collect(maps.Keys(methods))
	if methods["GET"] != nil {
		allowed = append(allowed, "HEAD")
	}
	slices.Sort(allowed)
	allow := strings.Join(allowed, ", ")
	s.HandleFunc("", path, func(w http.ResponseWriter, r *http.Request) {
		method := r.Method
		if method == http.MethodHead {
			method = http.MethodGet
		}
		handler, err := methods[method], error(nil)
		if handler == nil {
			handler = methods[""]
		}
		if handler == nil {
			w.Header().Set("Allow", allow)
			err = &Error{http.StatusMethodNotAllowed, "Only " + allow + " is possible here"}
		} else {
			err = handler(w, r)
		}
		if err != nil {
			s.fail(w, r, err)
		}
	})
}

// HandleFunc serves a method and a path below the prefix by a handler that replies to
// errors itself.
func (s *Site) HandleFunc(method, path string, handler http.HandlerFunc) {
	s.mux.HandleFunc(strings.TrimSpace(method+" "+s.options.Prefix+path), handler)
}

// ServeHTTP serves the paths under the prefix, which it does not expect to be stripped.
func (s *Site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "same-origin") // "no-referrer" would take the Origin from our own forms
	h.Set("Cache-Control", "no-store")
	AllowForms(w)
	if err := s.options.Admit(r); err != nil {
		s.fail(w, r, err)
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	s.mux.ServeHTTP(w, r)
}

// AllowForms sets the Content-Security-Policy of a response, which lets forms of the page be
// sent to the site and to the origins that are not empty. Browsers apply the policy also to
// redirects of a form's response.
func AllowForms(w http.ResponseWriter, origins ...string) {
	policy := "default-src 'none'; style-src 'self'; img-src 'self'; base-uri 'none'; frame-ancestors 'none'; form-action 'self'"
	for _, o := range origins {
		if o != "" {
			policy += " " + o
		}
	}
	w.Header().Set("Content-Security-Policy", policy)
}

// Origin returns the origin of a URL as browsers send it, empty if it has none.
func Origin(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" {
		return ""
	}
	return u.Scheme + "://" + u.Host
}

// Form returns the fields of a urlencoded or multipart body, whatever the method.
func Form(r *http.Request) (fields url.Values, err error) {
	mediaType, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";")
	switch mediaType = strings.ToLower(strings.TrimSpace(mediaType)); {
	case mediaType == "multipart/form-data":
		err = r.ParseMultipartForm(maxForm)
		fields = r.PostForm
	case mediaType == "application/x-www-form-urlencoded", r.ContentLength == 0:
		var body []byte
		if body, err = io.ReadAll(r.Body); err == nil {
			fields, err = url.ParseQuery(string(body))
		}
	default:
		return nil, &Error{http.StatusUnsupportedMediaType, "The body must be a form"}
	}
	if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge {
		return nil, &Error{http.StatusRequestEntityTooLarge, "The form is too large"}
	}
	if err != nil {
		return nil, &Error{http.StatusBadRequest, "The form cannot be read"}
	}
	return fields, nil
}

// CheckOrigin returns an error for a cross-origin request.
func (s *Site) CheckOrigin(r *http.Request) error {
	if s.origins.Check(r) != nil {
		return &Error{http.StatusForbidden, "This form was sent from another site"}
	}
	return nil
}

// PostedForm is Form with CheckOrigin.
func (s *Site) PostedForm(r *http.Request) (url.Values, error) {
	if err := s.CheckOrigin(r); err != nil {
		return nil, err
	}
	return Form(r)
}

// Explain returns the error to show for an error. It logs internal errors.
func (s *Site) Explain(r *http.Request, err error) *Error {
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	if e := s.options.Explain(err); e != nil {
		return e
	}
	s.options.Log.ErrorContext(r.Context(), s.options.Name+" failed", "path", r.URL.Path, "error", err)
	return &Error{http.StatusInternalServerError, "Something went wrong"}
}

// fail replies with an error: a page if the request accepts HTML, else JSON.
func (s *Site) fail(w http.ResponseWriter, r *http.Request, err error) {
	e := s.Explain(r, err)
	if strings.Contains(r.Header.Get("Accept"), "text/html") {
		s.Show(w, e.Status, "problem", struct{ Title, Message string }{http.StatusText(e.Status), e.Message})
		return
	}
	s.Send(w, e.Status, "application/json", s.options.AppendError(nil, e.Status, e.Message))
}

// Reply replies with a JSON body.
func (s *Site) Reply(w http.ResponseWriter, status int, body any) {
	content, err := json.Marshal(body)
	if err != nil {
		s.renderFailed(w, "JSON", err)
		return
	}
	s.Send(w, status, "application/json", content)
}

// Show replies with the page of a template.
func (s *Site) Show(w http.ResponseWriter, status int, page string, view any) {
	content, err := s.Render(page, view)
	if err != nil {
		s.renderFailed(w, page, err)
		return
	}
	s.Send(w, status, "text/html; charset=utf-8", content)
}

// Render executes a template.
func (s *Site) Render(name string, view any) ([]byte, error) {
	var b bytes.Buffer
	err := s.pages.ExecuteTemplate(&b, name, view)
	return b.Bytes(), err
}

// Send replies with a body.
func (s *Site) Send(w http.ResponseWriter, status int, contentType string, body []byte) {
	w.Header().Set("Content-Type", contentType)
	w.WriteHeader(status)
	if _, err := w.Write(body); err != nil {
		s.options.Log.Debug(s.options.Name+" response write failed", "error", err)
	}
}

// renderFailed logs that a response could not be rendered and replies with status 500.
func (s *Site) renderFailed(w http.ResponseWriter, name string, err error) {
	s.options.Log.Error(s.options.Name+" response not rendered", "response", name, "error", err)
	http.Error(w, http.StatusText(http.StatusInternalServerError), http.StatusInternalServerError)
}
