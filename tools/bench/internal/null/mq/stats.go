package mq

// Stats are totals since the start or the last reset, but for what lies in the
// queues.
type Stats struct {
	ThrottledCalls int64                 `json:"throttled_calls"`
	RefusedEntries int64                 `json:"refused_entries"`
	Queues         map[string]QueueStats `json:"queues"` // but for sinks
	Sink           SinkStats             `json:"sink"`
}

// QueueStats tell of one queue: what lies in it now, and what went through it.
type QueueStats struct {
	Visible  int   `json:"visible"`
	InFlight int   `json:"in_flight"`
	Delayed  int   `json:"delayed"`
	Sent     int64 `json:"sent"`
	Received int64 `json:"received"`
	Deleted  int64 `json:"deleted"`
	Buried   int64 `json:"buried"` // moved to its dead-letter queue
}

// SinkStats tell of the sinks.
type SinkStats struct {
	Messages   int64               `json:"messages"`
	Distinct   int64               `json:"distinct"`   // ids; 0 unless they are kept
	Duplicates int64               `json:"duplicates"` // messages of an id seen before
	Lanes      map[string]Lateness `json:"lanes"`
	Queues     map[string]Lateness `json:"queues"`
}

// ResetStats sets the counts to zero and the sinks to empty.
func (e *Engine) ResetStats() {
	e.throttled.Store(0)
	e.refused.Store(0)
	e.lanes.reset()
	e.mu.RLock()
	defer e.mu.RUnlock()
	for _, q := range e.queues {
		if q.sink != nil {
			q.sink.mu.Lock()
			q.sink.tally = newTally(2)
			q.sink.mu.Unlock()
			continue
		}
		q.mu.Lock()
		q.sent, q.received, q.deleted, q.buried = 0, 0, 0, 0
		q.mu.Unlock()
	}
}

// Stats returns the totals.
func (e *Engine) Stats() Stats {
	s := Stats{ThrottledCalls: e.throttled.Load(), RefusedEntries: e.refused.Load(), Queues: make(map[string]QueueStats)}
	s.Sink.Lanes, s.Sink.Queues = make(map[string]Lateness), make(map[string]Lateness)
	l := &e.lanes
	l.mu.Lock()
	for i, lane := range [...]string{"standard", "urgent"} {
		s.Sink.Messages += l.by[i].count
		s.Sink.Lanes[lane] = l.by[i].lateness(true)
	}
	s.Sink.Distinct, s.Sink.Duplicates = int64(len(l.ids)), l.dups
	l.mu.Unlock()
	e.mu.RLock()
	defer e.mu.RUnlock()
	for name, q := range e.queues {
		if q.sink != nil {
			q.sink.mu.Lock()
			s.Sink.Queues[name] = q.sink.tally.lateness(false)
			q.sink.mu.Unlock()
			continue
		}
		q.mu.Lock()
		s.Queues[name] = QueueStats{
			Visible: q.visible, InFlight: q.inFlight, Delayed: q.inDelay,
			Sent: q.sent, Received: q.received, Deleted: q.deleted, Buried: q.buried,
		}
		q.mu.Unlock()
	}
	return s
}
