package protect

import (
	"time"

	"golang.org/x/time/rate"
)

// tokens is a token bucket whose rate may change at any time. The zero value has
// no limit.
type tokens struct {
	lim   *rate.Limiter
	share float64
}

// spare is how many tokens more are kept while calls wait for theirs: these
// return to whichever runner, so that now none comes for a token and then two.
const spare = 4

// set makes share, in calls a second, the rate; a second's worth, at least one,
// may burst. 0 is no limit.
func (b *tokens) set(now time.Time, share float64, queued bool) {
	if share <= 0 {
		b.lim, b.share = nil, 0
		return
	}
	burst := max(1, int(min(share, 1e6)))
	if queued {
		burst += spare
	}
	switch {
	case b.lim == nil:
		b.lim = rate.NewLimiter(rate.Limit(share), burst)
	case b.share != share, b.lim.Burst() != burst:
		b.lim.SetLimitAt(now, rate.Limit(share))
		b.lim.SetBurstAt(now, burst)
	}
	b.share = share
}

// every is the time between two tokens.
func (b *tokens) every() time.Duration { return seconds(1 / b.share) }

// full reports whether tokens are soon lost: there is room for less than one.
func (b *tokens) full(now time.Time) bool {
	return b.lim.TokensAt(now) > float64(b.lim.Burst()-1)
}

// ready returns when the next token is there.
func (b *tokens) ready(now time.Time) time.Time {
	return now.Add(seconds(max(0, 1-b.lim.TokensAt(now)) / b.share))
}

// pace hands out successive times to come back at.
type pace struct {
	next  time.Time
	every time.Duration
}

// slot reserves the next time at or after from, every apart, and puts it
// somewhere before the one that follows: draw is from [0, 1). Where every has
// changed, what is still to come is stretched or squeezed.
//
// Beyond now+limit there are no slots; who comes then is spread over the second
// half of that time.
func (p *pace) slot(now, from time.Time, every, limit time.Duration, draw float64) time.Time {
	if p.every > 0 && p.every != every && p.next.After(now) {
		ahead := float64(p.next.Sub(now)) * float64(every) / float64(p.every)
		p.next = now.Add(time.Duration(min(ahead, float64(limit))))
	}
	p.every = every
	if p.next.Before(from) {
		p.next = from
	}
	if p.next.Sub(now)+every > limit {
		return now.Add(limit/2 + time.Duration(draw*float64(limit/2)))
	}
	at := p.next.Add(time.Duration(draw * float64(every)))
	p.next = p.next.Add(every)
	return at
}

// tenant is what this runner has going for one tenant.
type tenant struct {
	inUse int
	hold  time.Duration // how long a call takes, moving average
	pace  pace
}

// observe takes in how long a call took.
func (t *tenant) observe(d time.Duration) {
	const weight = 8
	t.hold += (max(d, time.Millisecond) - t.hold) / weight
}

// turnover is the time between two calls that end, with share of them going.
func (t *tenant) turnover(share int) time.Duration {
	return max(t.hold/time.Duration(share), time.Millisecond)
}

// divided is this runner's part of what a fleet may have, rounded up.
func divided(whole, members int) int { return (whole + members - 1) / members }

// seconds is the duration of s seconds, at most a century.
func seconds(s float64) time.Duration {
	const century = 100 * 365 * 24 * 3600
	return time.Duration(min(s, century) * float64(time.Second))
}
