package membership

import (
	"context"
	"slices"
	"sync"
)

// Manual is a membership whose owner sets the view: simulations and tests.
type Manual struct {
	Notifier
	mu   sync.Mutex
	view View
}

// NewManual returns a provider with a first view.
func NewManual(v View) *Manual {
	return &Manual{view: tidy(v)}
}

// Set replaces the view; readers of Changes are told if it differs. Members are
// copied, sorted and made unique.
func (m *Manual) Set(v View) {
	v = tidy(v)
	m.mu.Lock()
	same := m.view.Self == v.Self && slices.Equal(m.view.Members, v.Members)
	m.view = v
	m.mu.Unlock()
	if !same {
		m.Notify()
	}
}

// View implements [Provider].
func (m *Manual) View() View {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.view
}

// Run implements [Provider].
func (m *Manual) Run(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

func tidy(v View) View {
	v.Members = slices.Clone(v.Members)
	slices.Sort(v.Members)
	v.Members = slices.Compact(v.Members)
	return v
}
