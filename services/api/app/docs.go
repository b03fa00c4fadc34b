package app

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"html/template"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/myosin-jobs/myosin/pkg/client"
)

//go:embed docs.html
var docsPage string

// addDocs serves the description of the API, for programs at /openapi.json and
// for people at /docs. Both are made once; the page needs no script and nothing
// from another host.
func addDocs(mux *http.ServeMux, doc *huma.OpenAPI) error {
	spec, err := json.Marshal(doc)
	if err != nil {
		return fmt.Errorf("describe the API: %w", err)
	}
	tmpl, err := template.New("docs").Parse(docsPage)
	if err != nil {
		return fmt.Errorf("docs page: %w", err)
	}
	var page bytes.Buffer
	if err := tmpl.Execute(&page, docsOf(doc)); err != nil {
		return fmt.Errorf("docs page: %w", err)
	}
	serve := func(path, kind string, body []byte) {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", kind)
			w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'")
			_, _ = w.Write(body) // the caller has gone if it fails
		})
	}
	serve("/openapi.json", "application/openapi+json", spec)
	serve("/docs", "text/html; charset=utf-8", page.Bytes())
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "/docs", http.StatusFound)
	})
	return nil
}

// The page's view of an OpenAPI document.
type (
	docsView struct {
		Title, About string
		Operations   []docsOperation
		Problem      []docsField
	}
	docsOperation struct {
		ID, Method, Path, Summary, About string
		Params, Body                     []docsField
		Answers                          []docsAnswer
	}
	docsAnswer struct {
		Status, About string
		Fields        []docsField
	}
	docsField struct {
		Name, Type, About string
		Required          bool
	}
)

func docsOf(doc *huma.OpenAPI) docsView {
	v := docsView{Title: doc.Info.Title, About: doc.Info.Description}
	schemas := doc.Components.Schemas
	for _, path := range slices.Sorted(maps.Keys(doc.Paths)) {
		ops := operations(doc.Paths[path])
		for _, method := range []string{http.MethodPost, http.MethodGet, http.MethodPut, http.MethodPatch, http.MethodDelete} {
			op := ops[method]
			if op == nil {
				continue
			}
			d := docsOperation{ID: op.OperationID, Method: method, Path: path, Summary: op.Summary, About: op.Description}
			for _, p := range op.Parameters {
				d.Params = append(d.Params, docsField{Name: p.Name, Type: p.In, About: p.Description, Required: p.Required})
			}
			if op.RequestBody != nil {
				for _, m := range op.RequestBody.Content {
					d.Body = fieldsOf(schemas, m.Schema)
				}
			}
			for _, status := range slices.Sorted(maps.Keys(op.Responses)) {
				r := op.Responses[status]
				for kind, m := range r.Content {
					if kind == client.ProblemType && status != "default" {
						d.Answers = append(d.Answers, docsAnswer{Status: status, About: r.Description})
						continue
					}
					fields := fieldsOf(schemas, m.Schema)
					if status == "default" {
						v.Problem = fields
						continue
					}
					d.Answers = append(d.Answers, docsAnswer{Status: status, About: r.Description, Fields: fields})
				}
			}
			v.Operations = append(v.Operations, d)
		}
	}
	return v
}

func fieldsOf(schemas huma.Registry, s *huma.Schema) []docsField {
	s = resolved(schemas, s)
	var fields []docsField
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		p := s.Properties[name]
		f := docsField{Name: name, About: p.Description, Required: slices.Contains(s.Required, name)}
		p = resolved(schemas, p)
		f.Type = typeOf(schemas, p)
		if f.About == "" {
			f.About = p.Description
		}
		fields = append(fields, f)
	}
	return fields
}

func resolved(schemas huma.Registry, s *huma.Schema) *huma.Schema {
	if s.Ref != "" {
		return schemas.SchemaFromRef(s.Ref)
	}
	return s
}

func typeOf(schemas huma.Registry, s *huma.Schema) string {
	switch {
	case s.Type == huma.TypeArray && s.Items != nil:
		return "array of " + typeOf(schemas, resolved(schemas, s.Items))
	case s.Format == "date-time":
		return "RFC 3339 time"
	case len(s.Enum) > 0:
		return strings.Trim(fmt.Sprint(s.Enum), "[]")
	case s.Type == "":
		return "any JSON"
	}
	return s.Type
}
