package table

import (
	"bytes"
	"strings"

	"github.com/myosin-jobs/myosin/tools/bench/internal/null/wire"
)

// expr is a parsed condition, filter or key condition.
type expr struct {
	op   string // AND OR NOT = <> < <= > >= BETWEEN exists absent begins
	kids []*expr
	args []string // operands as written: name, #name or :value
}

// scope is what an expression's operands mean.
type scope struct {
	names  map[string]string
	values attrs
}

// name resolves an attribute's name.
func (s *scope) name(operand string) (string, bool) {
	if !strings.HasPrefix(operand, "#") {
		return operand, operand != ""
	}
	n, ok := s.names[operand]
	return n, ok
}

// eval says whether the expression holds for an item, which may be nil; false
// also where an operand has no value.
func (e *expr) eval(t *Table, it *item, s *scope) bool {
	switch e.op {
	case "AND":
		return e.kids[0].eval(t, it, s) && e.kids[1].eval(t, it, s)
	case "OR":
		return e.kids[0].eval(t, it, s) || e.kids[1].eval(t, it, s)
	case "NOT":
		return !e.kids[0].eval(t, it, s)
	case "exists", "absent":
		return (it != nil && it.at(t, e.args[0], s) != nil) == (e.op == "exists")
	}
	a, b := e.value(t, it, s, 0), e.value(t, it, s, 1)
	if a == nil || b == nil {
		return e.op == "<>" && (a != nil || b != nil)
	}
	switch e.op {
	case "=":
		return same(a, b)
	case "<>":
		return !same(a, b)
	case "begins":
		kind, x := typed(a)
		other, y := typed(b)
		return kind == "S" && other == "S" && bytes.HasPrefix(wire.Plain(x), wire.Plain(y))
	}
	c, ok := compare(a, b)
	if !ok {
		return false
	}
	switch e.op {
	case "<":
		return c < 0
	case "<=":
		return c <= 0
	case ">":
		return c > 0
	case ">=":
		return c >= 0
	case "BETWEEN":
		high := e.value(t, it, s, 2)
		if high == nil {
			return false
		}
		over, ok := compare(a, high)
		return ok && c >= 0 && over <= 0
	}
	return false
}

func (e *expr) value(t *Table, it *item, s *scope, i int) []byte {
	operand := e.args[i]
	if operand[0] == ':' {
		return s.values.get(operand)
	}
	if it == nil {
		return nil
	}
	return it.at(t, operand, s)
}

// at is the value at a path of names, such as a.#b.
func (it *item) at(t *Table, path string, s *scope) []byte {
	first, rest, deeper := strings.Cut(path, ".")
	name, ok := s.name(first)
	if !ok {
		return nil
	}
	raw := it.attribute(t, name)
	for deeper && raw != nil {
		first, rest, deeper = strings.Cut(rest, ".")
		name, ok = s.name(first)
		kind, value := typed(raw)
		members, isMap := parseAttrs(value)
		if !ok || kind != "M" || !isMap {
			return nil
		}
		raw = members.get(name)
	}
	return raw
}

// parser reads the words of an expression.
type parser struct{ words []string }

func (p *parser) peek() string {
	if len(p.words) == 0 {
		return ""
	}
	return p.words[0]
}

func (p *parser) take() string {
	w := p.peek()
	if len(p.words) > 0 {
		p.words = p.words[1:]
	}
	return w
}

// accept takes the next word if it is this one, in any case.
func (p *parser) accept(word string) bool {
	if strings.EqualFold(p.peek(), word) {
		p.words = p.words[1:]
		return true
	}
	return false
}

// split cuts an expression or a statement into words.
func split(text string) []string {
	var words []string
	for i := 0; i < len(text); {
		ch := text[i]
		switch {
		case ch == ' ' || ch == '\t' || ch == '\n' || ch == '\r':
			i++
		case ch == '"' || ch == '\'':
			end := strings.IndexByte(text[i+1:], ch)
			if end < 0 {
				return nil
			}
			words = append(words, text[i:i+end+2])
			i += end + 2
		case strings.IndexByte("(),{}?", ch) >= 0 || ch == ':' && (i+1 == len(text) || text[i+1] == ' '):
			words = append(words, text[i:i+1])
			i++
		case strings.IndexByte("=<>", ch) >= 0:
			n := 1
			if i+1 < len(text) && (text[i+1] == '=' || text[i+1] == '>') && ch != '=' {
				n = 2
			}
			words = append(words, text[i:i+n])
			i += n
		default:
			end := i + 1
			for end < len(text) && strings.IndexByte(" \t\n\r(),{}?=<>'\"", text[end]) < 0 {
				end++
			}
			words = append(words, text[i:end])
			i = end
		}
	}
	return words
}

// parseExpr reads a whole expression.
func parseExpr(text string) (*expr, error) {
	p := &parser{words: split(text)}
	e := p.or()
	if e == nil || len(p.words) > 0 {
		return nil, wire.Fault("ValidationException", "expression not understood by this endpoint: %s", text)
	}
	return e, nil
}

func (p *parser) or() *expr {
	left := p.and()
	for left != nil && p.accept("OR") {
		right := p.and()
		if right == nil {
			return nil
		}
		left = &expr{op: "OR", kids: []*expr{left, right}}
	}
	return left
}

func (p *parser) and() *expr {
	left := p.unary()
	for left != nil && p.accept("AND") {
		right := p.unary()
		if right == nil {
			return nil
		}
		left = &expr{op: "AND", kids: []*expr{left, right}}
	}
	return left
}

func (p *parser) unary() *expr {
	if p.accept("NOT") {
		kid := p.unary()
		if kid == nil {
			return nil
		}
		return &expr{op: "NOT", kids: []*expr{kid}}
	}
	if p.accept("(") {
		e := p.or()
		if !p.accept(")") {
			return nil
		}
		return e
	}
	first := p.take()
	if p.accept("(") {
		return p.call(first)
	}
	if !operand(first) {
		return nil
	}
	e := &expr{op: strings.ToUpper(p.take())}
	switch e.op {
	case "=", "<>", "<", "<=", ">", ">=":
		e.args = []string{first, p.take()}
	case "BETWEEN":
		e.args = []string{first, p.take(), ""}
		if !p.accept("AND") {
			return nil
		}
		e.args[2] = p.take()
	default:
		return nil
	}
	for _, a := range e.args {
		if !operand(a) {
			return nil
		}
	}
	return e
}

// call reads the arguments of a function.
func (p *parser) call(name string) *expr {
	ops := map[string]struct {
		op   string
		args int
	}{"attribute_exists": {"exists", 1}, "attribute_not_exists": {"absent", 1}, "begins_with": {"begins", 2}}
	f, ok := ops[name]
	if !ok {
		return nil
	}
	e := &expr{op: f.op}
	for {
		a := p.take()
		if !operand(a) {
			return nil
		}
		e.args = append(e.args, a)
		if p.accept(")") {
			break
		}
		if !p.accept(",") {
			return nil
		}
	}
	if len(e.args) != f.args {
		return nil
	}
	return e
}

// operand reports whether a word may be an attribute, a path of names into
// maps, or a value.
func operand(w string) bool {
	if first, rest, path := strings.Cut(w, "."); path {
		return operand(first) && operand(rest) && first[0] != ':' && rest[0] != ':'
	}
	if w == "" || w == ":" || w == "#" {
		return false
	}
	for i := range len(w) {
		ch := w[i]
		letter := ch >= 'a' && ch <= 'z' || ch >= 'A' && ch <= 'Z' || ch >= '0' && ch <= '9' || ch == '_' || ch == '-'
		if !letter && (i > 0 || ch != ':' && ch != '#') {
			return false
		}
	}
	return true
}

// change is a parsed update expression.
type change struct {
	set, add [][2]string // attribute and :value, as written
	remove   []string
}

// parseChange reads SET a = :v, … REMOVE b, … ADD c :n, …
func parseChange(text string) (*change, error) {
	p := &parser{words: split(text)}
	c := &change{}
	bad := func() (*change, error) {
		return nil, wire.Fault("ValidationException", "update not understood by this endpoint: %s", text)
	}
	for len(p.words) > 0 {
		section := strings.ToUpper(p.take())
		if section != "SET" && section != "REMOVE" && section != "ADD" {
			return bad()
		}
		for {
			name := p.take()
			if !operand(name) || name[0] == ':' || strings.Contains(name, ".") {
				return bad()
			}
			if section == "SET" && !p.accept("=") || section != "REMOVE" && (!operand(p.peek()) || p.peek()[0] != ':') {
				return bad()
			}
			switch section {
			case "SET":
				c.set = append(c.set, [2]string{name, p.take()})
			case "ADD":
				c.add = append(c.add, [2]string{name, p.take()})
			default:
				c.remove = append(c.remove, name)
			}
			if !p.accept(",") {
				break
			}
		}
	}
	return c, nil
}
