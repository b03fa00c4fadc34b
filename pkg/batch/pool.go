package batch

import (
	"sync"
	"time"
)

// poolIdle is how long a goroutine of a Pool waits for another task.
const poolIdle = 100 * time.Millisecond

// Pool runs tasks in goroutines that outlive them for a moment, so that one task
// after another runs on a stack that has grown already: an SDK call needs some
// 32 KB, and growing to it anew costs several percent of the call. It bounds
// nothing: callers do. A task's end is the caller's to wait for; idle goroutines
// end 100 ms after their last task, or at once when the pool is closed.
type Pool struct {
	tasks  chan func()
	closed chan struct{}
	once   sync.Once
}

// NewPool returns a pool without goroutines.
func NewPool() *Pool { return &Pool{tasks: make(chan func()), closed: make(chan struct{})} }

// Close ends idle goroutines, and those at work after their task. Tasks may still
// be given to a closed pool, each for a goroutine of its own. Idempotent.
func (p *Pool) Close() { p.once.Do(func() { close(p.closed) }) }

// Go runs a task. It does not block.
func (p *Pool) Go(task func()) {
	select {
	case p.tasks <- task:
	default:
		go p.run(task)
	}
}

func (p *Pool) run(task func()) {
	idle := time.NewTimer(poolIdle)
	defer idle.Stop()
	for {
		task()
		idle.Reset(poolIdle)
		select {
		case <-p.closed:
			return
		default:
		}
		select {
		case task = <-p.tasks:
		case <-p.closed:
			return
		case <-idle.C:
			return
		}
	}
}
