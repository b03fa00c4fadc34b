package membership

import "sync"

// Notifier serves the channels of [Provider.Changes] for an implementation that
// embeds or holds it. The zero value is ready; safe for concurrent use.
type Notifier struct {
	mu   sync.Mutex
	subs []chan struct{}
}

// Changes implements [Provider].
func (n *Notifier) Changes() <-chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	ch := make(chan struct{}, 1)
	n.subs = append(n.subs, ch)
	return ch
}

// Notify wakes every reader. Call it after the new view can be read. It never
// blocks: a reader that has not taken the last wake-up yet has one waiting.
func (n *Notifier) Notify() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, ch := range n.subs {
		select {
		case ch <- struct{}{}:
		default:
		}
	}
}
