package body

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"mime"
	"slices"
	"strconv"
	"strings"
	"time"

	"collab/adapters/encode"
	"collab/adapters/httpapi/spool"
	"collab/domain/check"
	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/patch"
)

// MaxJSON is the size of the largest JSON body, in bytes.
const MaxJSON = 1 << 20

// Fields are the fields of a JSON object. Reading them collects their problems, which Err
// returns at the end, so that the order of reading decides which one its message is about.
type Fields struct {
	pairs    []pair
	read     []string // the names of fields in the order of reading
	prefix   string   // of field names in messages, for objects inside the body
	problems *check.List
	missing  error // the error of an operand that does not exist
}

// ParseFields reads a body of the content type as one JSON object. The memory of many names and elements is charged to r.
func ParseFields(contentType string, data []byte, r spool.Resources) (*Fields, error) {
	if len(bytes.TrimSpace(data)) == 0 {
		return nil, fault.New(fault.Invalid, "A JSON body is required")
	}
	if err := jsonContent(contentType); err != nil {
		return nil, err
	}
	s := scanner{data: data, resources: r}
	found, err := s.whole()
	if err != nil {
		return nil, err
	}
	return newFields(found), nil
}

func newFields(pairs []pair) *Fields {
	return &Fields{pairs: pairs, read: make([]string, 0, 12), problems: &check.List{}}
}

// ParseFormFields reads a body of the content type as the fields of a form, which are strings, or
// as ParseFields does.
func ParseFormFields(contentType string, data []byte, r spool.Resources) (*Fields, error) {
	if media, _, err := mime.ParseMediaType(contentType); err != nil || media != "application/x-www-form-urlencoded" {
		return ParseFields(contentType, data, r)
	}
	form, err := ParseForm(string(data))
	if err != nil {
		return nil, err
	}
	o := &Fields{problems: &check.List{}}
	for name := range form {
		o.pairs = append(o.pairs, pair{[]byte(name), encode.AppendString(nil, form.Get(name))})
	}
	return o, nil
}

// jsonContent accepts application/json and types that end in +json, in UTF-8.
func jsonContent(header string) error {
	if header == "application/json" {
		return nil
	}
	media, params, err := mime.ParseMediaType(header)
	charset, given := params["charset"]
	if err != nil || !IsJSON(media) || given && !strings.EqualFold(charset, "utf-8") {
		return fault.New(fault.Unsupported, "The content type must be application/json in UTF-8")
	}
	return nil
}

// IsJSON reports whether a media type is JSON.
func IsJSON(media string) bool {
	return media == "application/json" || strings.HasPrefix(media, "application/") && strings.HasSuffix(media, "+json")
}

// Err returns the problems of the fields that were read, else the error of an operand that
// does not exist. If there are problems, those that rules find in the other fields are
// added, so that one response has all of them; otherwise the use case checks those rules
// itself.
func (o *Fields) Err(rules ...func() error) error {
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

// Refuse adds a problem with a field and marks it as read.
func (o *Fields) Refuse(name, problem string) {
	o.read = append(o.read, name)
	o.problems.Add(o.prefix+name, "%s", problem)
}

// CheckedFields returns the fields of an object that is a part of a checked body. Their
// problems are not collected.
func CheckedFields(raw []byte) *Fields {
	pairs, _ := parseObject(raw) // checked with the body
	return &Fields{pairs: pairs, problems: &check.List{}}
}

// Find returns the text of a field's value, and whether the object has the field.
func (o *Fields) Find(name string) ([]byte, bool) {
	for i := range o.pairs {
		if string(o.pairs[i].name) == name {
			return o.pairs[i].raw, true
		}
	}
	return nil, false
}

// A Reader converts a checked JSON text that is not null to a value. Problem is empty or
// describes why it cannot, such as "must be a string".
type Reader[T any] func(raw []byte) (v T, problem string)

// Field reads a field that may be absent or null.
func Field[T any](o *Fields, name string, read Reader[T]) patch.Field[T] {
	o.read = append(o.read, name)
	raw, ok := o.Find(name)
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

// Optional reads a field that may be absent or null, which are the same.
func Optional[T any](o *Fields, name string, read Reader[T]) *T {
	return Field(o, name, read).Over(nil)
}

// OrZero is Optional for types whose zero value means unset.
func OrZero[T any](o *Fields, name string, read Reader[T]) T {
	v, _ := Field(o, name, read).Get()
	return v
}

// Required reads a field that must be present and not null.
func Required[T any](o *Fields, name string, read Reader[T]) T {
	if raw, ok := o.Find(name); !ok || raw[0] == 'n' {
		o.problems.Add(o.prefix+name, "is required")
	}
	return OrZero(o, name, read)
}

// Text is the Reader of a string.
func Text(raw []byte) (string, string) {
	if raw[0] != '"' {
		return "", "must be a string"
	}
	raw = raw[1 : len(raw)-1]
	if bytes.IndexByte(raw, '\\') >= 0 {
		raw = unescape(raw)
	}
	return string(raw), ""
}

// Integer is the Reader of an int64.
func Integer(raw []byte) (int64, string) {
	n, err := strconv.ParseInt(string(raw), 10, 64)
	switch {
	case errors.Is(err, strconv.ErrRange):
		return 0, "is out of range"
	case err != nil:
		return 0, "must be an integer"
	}
	return n, ""
}

// Count is the Reader of an integer of 32 bits.
func Count(raw []byte) (int, string) {
	n, problem := Integer(raw)
	if problem == "" && (n > math.MaxInt32 || n < math.MinInt32) {
		problem = "is out of range"
	}
	return int(n), problem
}

// Parsed returns a Reader of a string that parse accepts. Problem is the error of other strings.
func Parsed[T any](problem string, parse func(string) (T, bool)) Reader[T] {
	return func(raw []byte) (v T, wrong string) {
		text, wrong := Text(raw)
		if wrong == "" {
			var ok bool
			if v, ok = parse(text); !ok {
				wrong = problem
			}
		}
		return v, wrong
	}
}

// OneOf returns a Reader of an enumeration.
func OneOf[T ~string](all ...T) Reader[T] {
	return Parsed("must be one of "+Join(all), func(s string) (T, bool) { return check.OneOf(s, all...) })
}

// Join lists values, separated by commas.
func Join[T ~string](all []T) string {
	texts := make([]string, len(all))
	for i, v := range all {
		texts[i] = string(v)
	}
	return strings.Join(texts, ", ")
}

// ID returns a Reader of the id of a record. what names its kind.
func ID[T ~string](what string) Reader[T] { return Parsed("must be the id of a "+what, id.Parse[T]) }

// Texts is the Reader of an array of strings.
func Texts(raw []byte) ([]string, string) {
	const problem = "must be an array of strings"
	if raw[0] != '[' {
		return nil, problem
	}
	parts := Elements(raw)
	texts := make([]string, len(parts))
	for i, part := range parts {
		var wrong string
		if texts[i], wrong = Text(part); wrong != "" {
			return nil, problem
		}
	}
	return texts, ""
}

// Document reads a JSON object as its compact text.
func Document(raw []byte) (string, string) {
	if raw[0] != '{' {
		return "", "must be a JSON object"
	}
	var b bytes.Buffer
	if err := json.Compact(&b, raw); err != nil {
		return "", "must be a JSON object"
	}
	return b.String(), ""
}

// array is the Reader of an array, as the texts of its elements.
func array(raw []byte) ([][]byte, string) {
	if raw[0] != '[' {
		return nil, "must be an array"
	}
	return Elements(raw), ""
}

// Operand returns the id of a record that an operation works on. A malformed one is
// fault.NotFound, as no record has it.
func Operand[T ~string](o *Fields, text, what string) T {
	v, ok := id.Parse[T](text)
	if !ok && o.missing == nil {
		o.missing = fault.Missing(what)
	}
	return v
}

// Operands reads a required list of the ids of operands.
func Operands[T ~string](o *Fields, name, what string) []T {
	texts := Required(o, name, Texts)
	ids := make([]T, len(texts))
	for i, text := range texts {
		ids[i] = Operand[T](o, text, what)
	}
	return ids
}

// Each reads a required array of objects; each reads one of them.
func Each(o *Fields, name string, each func(part *Fields)) {
	for i, raw := range Required(o, name, array) {
		prefix := o.prefix + name + "[" + strconv.Itoa(i) + "]"
		if raw[0] != '{' {
			o.problems.Add(prefix, "must be an object")
			continue
		}
		part := CheckedFields(raw)
		part.prefix, part.problems = prefix+".", o.problems
		each(part)
		if o.missing == nil {
			o.missing = part.missing
		}
	}
}

// EachOf reads an array of objects that may be absent; each reads one of them.
func EachOf(o *Fields, name string, most int, each func(part *Fields)) {
	raw, ok := o.Find(name)
	if !ok || raw[0] == 'n' {
		return
	}
	if all, _ := array(raw); len(all) > most {
		o.problems.Add(o.prefix+name, "must be at most %d", most)
		return
	}
	Each(o, name, each)
}

// Name returns the first of the names that the object has a field of, or the first name if
// it has none.
func (o *Fields) Name(names ...string) string {
	for _, name := range names {
		if _, ok := o.Find(name); ok {
			return name
		}
	}
	return names[0]
}

// Bool is the Reader of true and false.
func Bool(raw []byte) (bool, string) {
	switch raw[0] {
	case 't':
		return true, ""
	case 'f':
		return false, ""
	}
	return false, "must be true or false"
}

// NotInstant is the problem of a text that is no Instant.
const NotInstant = "must be a date or an RFC 3339 time"

// Instant reads an RFC 3339 time, or a date as the beginning of that day in
// UTC.
var Instant = Parsed(NotInstant, parseInstant)

func parseInstant(text string) (time.Time, bool) {
	if len(text) == len(time.DateOnly) {
		text += "T00:00:00Z"
	}
	return check.Time(text)
}

// OrElse reads a field with a default for absence and null.
func OrElse[T any](o *Fields, name string, read Reader[T], otherwise T) T {
	if v, ok := Field(o, name, read).Get(); ok {
		return v
	}
	return otherwise
}

// An Object is a JSON object: its compact text, and those of its entries that are strings.
type Object struct {
	Text  string
	Texts map[string]string
}

// ReadObject is the Reader of an Object.
func ReadObject(raw []byte) (d Object, problem string) {
	if d.Text, problem = Document(raw); problem != "" {
		return Object{}, problem
	}
	pairs, _ := parseObject(raw) // checked with the body
	d.Texts = make(map[string]string, len(pairs))
	for _, p := range pairs {
		if text, problem := Text(p.raw); problem == "" {
			d.Texts[string(p.name)] = text
		}
	}
	return d, ""
}
