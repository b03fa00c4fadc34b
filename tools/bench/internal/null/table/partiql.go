package table

import (
	"strings"
	"sync"

	"github.com/myosin-jobs/myosin/tools/bench/internal/null/wire"
)

type verb uint8

const (
	insert verb = iota + 1
	update
	remove
)

// statement is a parsed PartiQL statement. Every value in it is a parameter.
type statement struct {
	verb   verb
	table  string
	params int
	names  []string // insert: of the parameters, in order; update: of those that are set
	where  []string // the attributes that must equal the parameters behind those
}

// parseStatement reads the three shapes there are:
//
//	INSERT INTO "t" VALUE {'a': ?, 'b': ?}
//	UPDATE "t" SET a = ? SET b = ? WHERE p = ? AND s = ? AND st = ?
//	DELETE FROM "t" WHERE p = ? AND s = ? AND st = ?
func parseStatement(text string) *statement {
	p := &parser{words: split(text)}
	st := &statement{}
	switch strings.ToUpper(p.take()) {
	case "INSERT":
		st.verb = insert
		if !p.accept("INTO") {
			return nil
		}
		st.table = unquote(p.take())
		if !p.accept("VALUE") || !p.accept("{") {
			return nil
		}
		for {
			st.names = append(st.names, unquote(p.take()))
			if !p.accept(":") || !p.accept("?") {
				return nil
			}
			if p.accept("}") {
				break
			}
			if !p.accept(",") {
				return nil
			}
		}
	case "UPDATE":
		st.verb, st.table = update, unquote(p.take())
		for p.accept("SET") || len(st.names) > 0 && p.accept(",") {
			st.names = append(st.names, unquote(p.take()))
			if !p.accept("=") || !p.accept("?") {
				return nil
			}
		}
		if len(st.names) == 0 || !st.readWhere(p) {
			return nil
		}
	case "DELETE":
		st.verb = remove
		if !p.accept("FROM") {
			return nil
		}
		if st.table = unquote(p.take()); !st.readWhere(p) {
			return nil
		}
	default:
		return nil
	}
	if st.table == "" || len(p.words) > 0 {
		return nil
	}
	st.params = len(st.names) + len(st.where)
	return st
}

func (st *statement) readWhere(p *parser) bool {
	if !p.accept("WHERE") {
		return false
	}
	for {
		st.where = append(st.where, unquote(p.take()))
		if !p.accept("=") || !p.accept("?") {
			return false
		}
		if !p.accept("AND") {
			return true
		}
	}
}

func unquote(w string) string {
	if len(w) >= 2 && (w[0] == '"' || w[0] == '\'') {
		return w[1 : len(w)-1]
	}
	return w
}

// cache keeps what was parsed, by its text as it stood in the request.
type cache[T any] struct {
	mu    sync.RWMutex
	known map[string]T
}

// cacheMax is far above the number of texts that programs send.
const cacheMax = 4096

// of returns what parse makes of the raw string.
func (c *cache[T]) of(raw []byte, parse func(text string) (T, error)) (T, error) {
	c.mu.RLock()
	v, ok := c.known[string(raw)]
	c.mu.RUnlock()
	if ok {
		return v, nil
	}
	v, err := parse(wire.Text(raw))
	if err != nil {
		return v, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known == nil || len(c.known) >= cacheMax {
		c.known = make(map[string]T)
	}
	c.known[string(raw)] = v
	return v, nil
}
