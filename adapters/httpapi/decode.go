package httpapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math"
	"mime"
	"slices"
	"strconv"
	"strings"

	"collab/domain/check"
	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/patch"
)

// maxBody is the largest JSON body, in bytes.
const maxBody = 1 << 20

// read returns the whole body, of at most limit bytes. It may be asked again.
func (c *call) read(limit int64) ([]byte, error) {
	if c.hasBody {
		return c.body, nil
	}
	if c.acting {
		panic("httpapi: a body is read after its caller was authorized")
	}
	tooLarge := fault.New(fault.TooLarge, "The body must be at most %d bytes", limit)
	if c.r.ContentLength > limit {
		return nil, tooLarge
	}
	// A length is only a promise: what is reserved for it stays small.
	var buf []byte
	size := min(max(c.r.ContentLength, 0), 16<<10) + bytes.MinRead
	for {
		if len(buf) == cap(buf) {
			if err := c.hold(size); err != nil {
				return nil, err
			}
			old := buf
			buf = append(make([]byte, 0, size), old...)
			c.release(int64(cap(old)))
			size = min(2*size, limit+bytes.MinRead)
		}
		n, err := c.r.Body.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		switch {
		case int64(len(buf)) > limit:
			return nil, tooLarge
		case err == io.EOF:
			c.whole()
			c.body, c.hasBody = buf, true
			return c.body, nil
		case err != nil:
			return nil, c.unread(err)
		}
	}
}

// fields are those of a body that is a JSON object. Reading them notes what is
// wrong with them; err says so once all were read, so that the first problem
// in the order of reading is the one that is named.
type fields struct {
	pairs    []pair
	read     []string // the names of fields in the order of reading
	prefix   string   // of field names in messages, for objects inside the body
	problems *check.List
	missing  error // an operand that names no record
}

// fields reads the body as a JSON object.
func (c *call) fields() (*fields, error) {
	data, err := c.read(maxBody)
	if err != nil {
		return nil, err
	}
	if len(bytes.TrimSpace(data)) == 0 {
		return nil, fault.New(fault.Invalid, "A JSON body is required")
	}
	if err := jsonContent(c.r.Header.Get("Content-Type")); err != nil {
		return nil, err
	}
	found, err := parseObject(data)
	if err != nil {
		return nil, err
	}
	return &fields{pairs: found, read: make([]string, 0, 12), problems: &check.List{}}, nil
}

// jsonContent accepts application/json and what ends in +json, in UTF-8.
func jsonContent(header string) error {
	if header == "application/json" {
		return nil
	}
	media, params, err := mime.ParseMediaType(header)
	charset, given := params["charset"]
	if err != nil || !isJSON(media) || given && !strings.EqualFold(charset, "utf-8") {
		return fault.New(fault.Unsupported, "The content type must be application/json in UTF-8")
	}
	return nil
}

func isJSON(media string) bool {
	return media == "application/json" || strings.HasPrefix(media, "application/") && strings.HasSuffix(media, "+json")
}

// err returns what was wrong with the fields that were read, else the operand
// that was not found. Where something was wrong, what the rules of the domain
// say about the other fields is added in its place, so that one answer is about
// all of them; where nothing was, the use case asks those rules itself.
func (o *fields) err(rules ...func() error) error {
	var wrong, broken *fault.Error
	if !errors.As(o.problems.Err(), &wrong) {
		return o.missing
	}
	for _, rule := range rules {
		if !errors.As(rule(), &broken) {
			continue
		}
		for _, p := range broken.Problems {
			if !slices.ContainsFunc(wrong.Problems, func(known fault.Problem) bool { return known.Field == p.Field }) {
				o.problems.Add(p.Field, "%s", p.Message)
			}
		}
	}
	errors.As(o.problems.Err(), &wrong)
	all := slices.Clone(wrong.Problems)
	slices.SortStableFunc(all, func(a, b fault.Problem) int {
		return slices.Index(o.read, a.Field) - slices.Index(o.read, b.Field)
	})
	first := fault.Field(all[0].Field, "%s", all[0].Message)
	first.Problems = all
	return first
}

func (o *fields) find(name string) ([]byte, bool) {
	for i := range o.pairs {
		if string(o.pairs[i].name) == name {
			return o.pairs[i].raw, true
		}
	}
	return nil, false
}

// A reader makes a value of a checked JSON text that is not null; problem says
// what is wrong with it, such as "must be a string".
type reader[T any] func(raw []byte) (v T, problem string)

// field reads a field that may be absent or null.
func field[T any](o *fields, name string, read reader[T]) patch.Field[T] {
	o.read = append(o.read, name)
	raw, ok := o.find(name)
	switch {
	case !ok:
		return patch.Field[T]{}
	case raw[0] == 'n':
		return patch.Null[T]()
	}
	v, problem := read(raw)
	if problem != "" {
		o.problems.Add(o.prefix+name, "%s", problem)
		return patch.Field[T]{}
	}
	return patch.Value(v)
}

// optional reads a field whose absence is the same as null.
func optional[T any](o *fields, name string, read reader[T]) *T {
	return field(o, name, read).Over(nil)
}

// orZero is optional for types whose zero value stands for unset.
func orZero[T any](o *fields, name string, read reader[T]) T {
	v, _ := field(o, name, read).Get()
	return v
}

// required reads a field that must be there with a value.
func required[T any](o *fields, name string, read reader[T]) T {
	if raw, ok := o.find(name); !ok || raw[0] == 'n' {
		o.problems.Add(o.prefix+name, "is required")
	}
	return orZero(o, name, read)
}

func asText(raw []byte) (string, string) {
	if raw[0] != '"' {
		return "", "must be a string"
	}
	raw = raw[1 : len(raw)-1]
	if bytes.IndexByte(raw, '\\') >= 0 {
		raw = unescape(raw)
	}
	return string(raw), ""
}

func asInteger(raw []byte) (int64, string) {
	n, err := strconv.ParseInt(string(raw), 10, 64)
	switch {
	case errors.Is(err, strconv.ErrRange):
		return 0, "is out of range"
	case err != nil:
		return 0, "must be an integer"
	}
	return n, ""
}

func asCount(raw []byte) (int, string) {
	n, problem := asInteger(raw)
	if problem == "" && (n > math.MaxInt32 || n < math.MinInt32) {
		problem = "is out of range"
	}
	return int(n), problem
}

// oneOf reads an enumeration, written exactly as in the interface.
func oneOf[T ~string](parse func(string) (T, bool), all ...T) reader[T] {
	problem := "must be one of " + join(all)
	return func(raw []byte) (T, string) {
		text, wrong := asText(raw)
		if wrong != "" {
			return "", wrong
		}
		v, ok := parse(text)
		if !ok {
			return "", problem
		}
		return v, ""
	}
}

func join[T ~string](all []T) string {
	texts := make([]string, len(all))
	for i, v := range all {
		texts[i] = string(v)
	}
	return strings.Join(texts, ", ")
}

// idOf reads a reference to a record.
func idOf[T ~string](what string) reader[T] {
	problem := "must be the id of a " + what
	return func(raw []byte) (T, string) {
		text, wrong := asText(raw)
		if wrong != "" {
			return "", wrong
		}
		v, ok := id.Parse[T](text)
		if !ok {
			return "", problem
		}
		return v, ""
	}
}

func asTexts(raw []byte) ([]string, string) {
	const problem = "must be an array of strings"
	if raw[0] != '[' {
		return nil, problem
	}
	parts := elements(raw)
	texts := make([]string, len(parts))
	for i, part := range parts {
		var wrong string
		if texts[i], wrong = asText(part); wrong != "" {
			return nil, problem
		}
	}
	return texts, ""
}

// asDocument reads a JSON object as the text it is, without the space between
// its parts.
func asDocument(raw []byte) (string, string) {
	if raw[0] != '{' {
		return "", "must be a JSON object"
	}
	var b bytes.Buffer
	if err := json.Compact(&b, raw); err != nil {
		return "", "must be a JSON object"
	}
	return b.String(), ""
}

func asArray(raw []byte) ([][]byte, string) {
	if raw[0] != '[' {
		return nil, "must be an array"
	}
	return elements(raw), ""
}

// operand reads the id of a record that an operation works on: one that is no
// id names a record that does not exist.
func operand[T ~string](o *fields, text, what string) T {
	v, ok := id.Parse[T](text)
	if !ok && o.missing == nil {
		o.missing = fault.Missing(what)
	}
	return v
}

// operands reads a required list of such ids.
func operands[T ~string](o *fields, name, what string) []T {
	texts := required(o, name, asTexts)
	ids := make([]T, len(texts))
	for i, text := range texts {
		ids[i] = operand[T](o, text, what)
	}
	return ids
}

// parts reads a required array of objects; each reads one of them.
func parts(o *fields, name string, each func(part *fields)) {
	for i, raw := range required(o, name, asArray) {
		prefix := o.prefix + name + "[" + strconv.Itoa(i) + "]"
		if raw[0] != '{' {
			o.problems.Add(prefix, "must be an object")
			continue
		}
		part := &fields{prefix: prefix + ".", problems: o.problems}
		part.pairs, _ = parseObject(raw) // checked with the body
		each(part)
		if o.missing == nil {
			o.missing = part.missing
		}
	}
}
