package audit_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/myosin-jobs/myosin/tools/chaos/internal/audit"
)

// Calls that a process gave up and the endpoint carried out when what they were
// for had been done by others: they explain what they bring about, and nothing
// that only looks like it does.
func TestALateCallExplainsItsOwnDuplicateAndNoOther(t *testing.T) {
	const (
		row  = "an insert was given up, and applied after the delivery"
		send = "a send was given up, and applied after another"
	)
	// now is when a call may have begun: before whatever is told next.
	now := func() time.Time {
		time.Sleep(time.Millisecond)
		return time.Now()
	}
	done := func(s *story) {
		s.insert("i", outcome{})
		s.handle("w", s.deliver("a", outcome{}))
		s.complete("a", outcome{})
	}
	again := func(s *story) {
		s.handle("w", s.deliver("b", outcome{}))
		s.complete("b", outcome{})
	}
	for name, c := range map[string]struct {
		tell func(s *story)
		why  string // empty: nothing explains it
	}{
		"an insert given up before the one that was delivered": {why: row, tell: func(s *story) {
			began := now()
			done(s)
			s.insert("i", outcome{began: began, unsaid: true})
			again(s)
		}},
		"such an insert of another process": {why: row, tell: func(s *story) {
			began := now()
			done(s)
			s.insert("j", outcome{began: began, unsaid: true})
			again(s)
		}},
		"an insert as long on its way, whose answer came": {tell: func(s *story) {
			began := now()
			done(s)
			s.insert("i", outcome{began: began})
			again(s)
		}},
		"an insert given up that was not applied": {tell: func(s *story) {
			began := now()
			done(s)
			s.insert("i", outcome{began: began, unsaid: true, unapplied: true})
			again(s)
		}},
		"an insert given up, made when the row was there already": {tell: func(s *story) {
			s.insert("i", outcome{})
			began := now()
			s.handle("w", s.deliver("a", outcome{}))
			s.complete("a", outcome{})
			s.insert("i", outcome{began: began, unsaid: true})
			again(s)
		}},
		"an insert given up, made after the delivery": {tell: func(s *story) {
			done(s)
			s.insert("i", outcome{unsaid: true})
			again(s)
		}},
		"a late insert that was delivered, and then one more": {tell: func(s *story) {
			began := now()
			done(s)
			s.insert("i", outcome{began: began, unsaid: true})
			s.complete("c", outcome{})
			s.insert("i", outcome{})
			again(s)
		}},
		"a late insert, when the row had never gone": {tell: func(s *story) {
			began := now()
			s.insert("i", outcome{began: began, unsaid: true})
			s.handle("w", s.deliver("a", outcome{}))
			again(s)
		}},
		"a send given up before the one that was completed": {why: send, tell: func(s *story) {
			s.insert("i", outcome{})
			began := now()
			s.handle("w", s.deliver("a", outcome{}))
			s.complete("a", outcome{})
			s.handle("w", s.deliver("b", outcome{began: began, unsaid: true}))
		}},
		"a send as long on its way, whose answer came": {tell: func(s *story) {
			s.insert("i", outcome{})
			began := now()
			s.handle("w", s.deliver("a", outcome{}))
			s.complete("a", outcome{})
			s.handle("w", s.deliver("b", outcome{began: began}))
		}},
		"a send given up, made after the other": {tell: func(s *story) {
			s.insert("i", outcome{})
			s.handle("w", s.deliver("a", outcome{}))
			s.complete("a", outcome{})
			s.handle("w", s.deliver("b", outcome{unsaid: true}))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStory()
				s.submission("i", outcome{})
				c.tell(s)
				a := audit.Verdict(s.l, s.j, s.handled, s.facts)
				if c.why != "" {
					require.Empty(t, a.Breaches)
					require.Equal(t, map[string]int{c.why: 1}, a.Why)
					return
				}
				require.Equal(t, 1, a.Unexplained)
				require.Contains(t, strings.Join(a.Breaches, "\n"), "nothing explains")
			})
		})
	}
}

func TestARollIsNoReasonAndItsDuplicatesAreCounted(t *testing.T) {
	for by, rolls := range map[string]int{"a": 1, "b": 1, "c": 0} {
		synctest.Test(t, func(t *testing.T) {
			s := newStory()
			s.insert("i", outcome{})
			s.handle("w", s.deliver("a", outcome{}))
			time.Sleep(time.Second)
			s.disturb(audit.Rolled, by, time.Second)
			s.handle("w", s.deliver("b", outcome{}))
			a := audit.Verdict(s.l, s.j, s.handled, s.facts)
			require.Len(t, a.Breaches, 1)
			require.Equal(t, 1, a.Unexplained)
			require.Equal(t, rolls, a.OnRolls)
		})
	}
}
