package e2e_test

import (
	"io"
	"net"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// gate is a way to an endpoint that can be shut: connections are cut then, and
// new ones refused.
type gate struct {
	target   string
	listener net.Listener
	done     sync.WaitGroup

	mu    sync.Mutex
	open  bool
	conns map[net.Conn]bool
}

func newGate(t *testing.T, target string) *gate {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	g := &gate{target: target, listener: l, conns: make(map[net.Conn]bool)}
	g.done.Go(g.serve)
	t.Cleanup(func() {
		l.Close()
		g.set(false)
		g.done.Wait()
	})
	return g
}

func (g *gate) url() string { return "http://" + g.listener.Addr().String() }

// set opens the gate or shuts it.
func (g *gate) set(open bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.open = open
	if !open {
		for c := range g.conns {
			c.Close()
		}
	}
}

// admit takes a connection in, or closes it.
func (g *gate) admit(c net.Conn) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.open {
		c.Close()
		return false
	}
	g.conns[c] = true
	return true
}

func (g *gate) leave(c net.Conn) {
	g.mu.Lock()
	defer g.mu.Unlock()
	c.Close()
	delete(g.conns, c)
}

func (g *gate) serve() {
	for {
		c, err := g.listener.Accept()
		if err != nil {
			return
		}
		if g.admit(c) {
			g.done.Go(func() { g.carry(c) })
		}
	}
}

func (g *gate) carry(c net.Conn) {
	defer g.leave(c)
	to, err := net.Dial("tcp", g.target)
	if err != nil || !g.admit(to) {
		return
	}
	defer g.leave(to)
	var back sync.WaitGroup
	back.Go(func() {
		io.Copy(c, to)
		c.Close()
	})
	io.Copy(to, c)
	to.Close()
	back.Wait()
}
