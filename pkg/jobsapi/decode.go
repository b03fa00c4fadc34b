package jobsapi

import (
	"bytes"
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/myosin-jobs/myosin/pkg/trigger"
)

// ErrNotJSON means that the body is no JSON at all.
var ErrNotJSON = errors.New("not JSON")

// Decode reads a JSON object into a struct of this package, given by pointer.
// Unknown fields, fields given twice or in two spellings, null, and values of
// another type or outside what the field's tags allow are refused: each is a
// [*trigger.FieldError] with its path, all of them joined. ErrNotJSON stands for
// what is no JSON.
func Decode(body []byte, into any) error {
	if !json.Valid(body) {
		return ErrNotJSON
	}
	if !utf8.Valid(body) {
		return fault("body", "is not UTF-8")
	}
	v := reflect.ValueOf(into)
	if v.Kind() != reflect.Pointer || v.IsNil() || v.Elem().Kind() != reflect.Struct {
		return fmt.Errorf("decode into %T: want a pointer to a struct", into)
	}
	d := decoder{}
	d.object("", body, v.Elem())
	return errors.Join(d.errs...)
}

func fault(field, format string, args ...any) error {
	return &trigger.FieldError{Field: field, Msg: fmt.Sprintf(format, args...)}
}

type decoder struct{ errs []error }

// maxFaults bounds how many faults of a body are told.
const maxFaults = 50

func (d *decoder) bad(path, format string, args ...any) {
	if path == "" {
		path = "body"
	}
	if len(d.errs) < maxFaults {
		d.errs = append(d.errs, fault(path, format, args...))
	}
}

type member struct {
	field reflect.StructField
	index []int
	name  string
}

// members lists the fields of a struct by each name they go by.
func members(t reflect.Type) map[string]member {
	out := map[string]member{}
	for _, f := range reflect.VisibleFields(t) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if !f.IsExported() || f.Anonymous || name == "" || name == "-" {
			continue
		}
		m := member{field: f, index: f.Index, name: name}
		out[name], out[camel(name)] = m, m
		if also := f.Tag.Get("also"); also != "" {
			out[also] = m
		}
	}
	return out
}

// camel turns run_at into runAt.
func camel(snake string) string {
	words := strings.Split(snake, "_")
	for i, w := range words[1:] {
		if w != "" {
			words[i+1] = strings.ToUpper(w[:1]) + w[1:]
		}
	}
	return strings.Join(words, "")
}

// object reads an object, which is valid JSON, member by member.
func (d *decoder) object(path string, body []byte, into reflect.Value) {
	dec := json.NewDecoder(bytes.NewReader(body))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		d.bad(path, "want an object")
		return
	}
	known := members(into.Type())
	seen := map[string]string{}
	for dec.More() {
		token, err := dec.Token()
		key, ok := token.(string)
		var raw json.RawMessage
		if err == nil {
			err = dec.Decode(&raw)
		}
		if err != nil || !ok {
			d.bad(path, "cannot be read")
			return
		}
		m, ok := known[key]
		if !ok {
			d.bad(join(path, shorten(key)), "unknown field")
			continue
		}
		here := join(path, m.name)
		if before, twice := seen[m.name]; twice {
			if before == key {
				d.bad(here, "given twice")
			} else {
				d.bad(here, "given as %s and as %s", before, key)
			}
			continue
		}
		seen[m.name] = key
		d.value(here, raw, into.FieldByIndex(m.index), m.field.Tag)
	}
	for name, m := range known {
		if name != m.name || m.field.Tag.Get("required") != "true" {
			continue
		}
		if _, ok := seen[name]; !ok {
			d.bad(join(path, name), "missing")
		}
	}
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// shorten keeps a foreign name fit for an answer.
func shorten(key string) string {
	const limit = 64
	if len(key) <= limit {
		return key
	}
	return strings.ToValidUTF8(key[:limit], "") + "…"
}

func (d *decoder) value(path string, raw json.RawMessage, into reflect.Value, tag reflect.StructTag) {
	if into.Type() == reflect.TypeFor[json.RawMessage]() {
		into.SetBytes(slices.Clone(raw))
		return
	}
	if string(raw) == "null" {
		d.bad(path, "null; leave the field out instead")
		return
	}
	if into.Kind() == reflect.Pointer {
		into.Set(reflect.New(into.Type().Elem()))
		into = into.Elem()
	}
	_, isText := reflect.TypeAssert[encoding.TextUnmarshaler](into.Addr())
	if into.Kind() == reflect.Struct && !isText {
		d.object(path, raw, into)
		return
	}
	if hasNull(raw, into) {
		d.bad(path, "holds null")
		return
	}
	if err := json.Unmarshal(raw, into.Addr().Interface()); err != nil {
		d.bad(path, "%s", wanted(err, into, isText))
		return
	}
	d.limits(path, into, tag)
}

// hasNull reports nulls among the elements of a list or map, which
// encoding/json takes for zero values.
func hasNull(raw json.RawMessage, into reflect.Value) bool {
	switch into.Kind() {
	case reflect.Slice:
		var elems []json.RawMessage
		return json.Unmarshal(raw, &elems) == nil && slices.ContainsFunc(elems, isNull)
	case reflect.Map:
		var elems map[string]json.RawMessage
		if json.Unmarshal(raw, &elems) != nil {
			return false
		}
		for _, e := range elems {
			if isNull(e) {
				return true
			}
		}
	}
	return false
}

func isNull(raw json.RawMessage) bool { return string(raw) == "null" }

// wanted says what the field takes, never what it was given.
func wanted(err error, into reflect.Value, isText bool) string {
	switch {
	case into.Type() == reflect.TypeFor[time.Time]():
		return "want an RFC 3339 time such as 2026-03-29T09:00:00Z"
	case errors.Is(err, errDuration), into.Type() == reflect.TypeFor[Duration]():
		return errDuration.Error()
	case isText:
		return "want a string"
	}
	switch into.Kind() {
	case reflect.String:
		return "want a string"
	case reflect.Bool:
		return "want true or false"
	case reflect.Slice:
		return "want a list of " + kindOf(into.Type().Elem())
	case reflect.Map:
		return "want an object whose values are each a " + strings.TrimSuffix(kindOf(into.Type().Elem()), "s")
	}
	return "want a whole number"
}

func kindOf(t reflect.Type) string {
	switch t.Kind() {
	case reflect.String:
		return "strings"
	case reflect.Float64:
		return "numbers"
	}
	return "whole numbers"
}

// limits applies the tags by which the API's description says what it takes.
func (d *decoder) limits(path string, v reflect.Value, tag reflect.StructTag) {
	bound := func(name string) (int, bool) {
		n, err := strconv.Atoi(tag.Get(name))
		return n, err == nil
	}
	switch v.Kind() {
	case reflect.String:
		if enum := tag.Get("enum"); enum != "" && !slices.Contains(strings.Split(enum, ","), v.String()) {
			d.bad(path, "%q; want %s", shorten(v.String()), strings.ReplaceAll(enum, ",", ", "))
		}
		n := utf8.RuneCountInString(v.String())
		if least, ok := bound("minLength"); ok && n < least {
			d.bad(path, "missing")
		}
		if most, ok := bound("maxLength"); ok && n > most {
			d.bad(path, "%d characters; the limit is %d", n, most)
		}
	case reflect.Int:
		if least, ok := bound("minimum"); ok && v.Int() < int64(least) {
			d.bad(path, "%d; want at least %d", v.Int(), least)
		}
		if most, ok := bound("maximum"); ok && v.Int() > int64(most) {
			d.bad(path, "%d; want at most %d", v.Int(), most)
		}
	case reflect.Slice:
		if most, ok := bound("maxItems"); ok && v.Len() > most {
			d.bad(path, "%d; the limit is %d", v.Len(), most)
		}
	}
}
