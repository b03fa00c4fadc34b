package fleet

import (
	"errors"
	"time"

	"github.com/myosin-jobs/myosin/tools/bench/internal/child"
)

// Account is what one process used.
type Account struct {
	Name string
	CPU  time.Duration
	Peak int64 // largest resident memory so far, in bytes
}

// account reads what processes have used since they began.
func account(ps ...*child.Process) (all []Account, err error) {
	for _, p := range ps {
		cpu, err1 := p.CPU()
		peak, err2 := p.Peak()
		all = append(all, Account{p.Name(), cpu, peak})
		err = errors.Join(err, err1, err2)
	}
	return all, err
}

// since reads what processes have used since before.
func since(before []Account, ps ...*child.Process) ([]Account, error) {
	all, err := account(ps...)
	for i := range all {
		all[i].CPU -= before[i].CPU
	}
	return all, err
}

// steady finds the rate of the middle of a run: between a tenth and nine tenths
// of the jobs, so that neither start nor tail counts.
type steady struct {
	from, to   time.Time
	begun, end int64
}

func (s *steady) see(now time.Time, done, total int64) {
	if s.from.IsZero() {
		if done*10 >= total {
			s.from, s.begun = now, done
		}
		return
	}
	if s.end*10 < total*9 {
		s.to, s.end = now, done
	}
}

// rate is in jobs a second; 0 where the run was too short to tell.
func (s *steady) rate() float64 {
	took := s.to.Sub(s.from).Seconds()
	if s.to.IsZero() || took < 10*look.Seconds() {
		return 0
	}
	return float64(s.end-s.begun) / took
}
