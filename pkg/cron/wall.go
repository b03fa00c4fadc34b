package cron

import (
	"math/bits"
	"time"
)

const (
	minutesPerDay = 24 * 60
	// cycle is the Gregorian calendar's period, in months: 400 years are whole weeks.
	cycle = 400 * 12
)

// Wall times are counted in minutes since 1970-01-01 00:00 of the zone's own
// wall clock, as if it had no transitions.

func daysIn(year, month int) int {
	switch month {
	case 4, 6, 9, 11:
		return 30
	case 2:
		if year%4 == 0 && (year%100 != 0 || year%400 == 0) {
			return 29
		}
		return 28
	}
	return 31
}

// days returns the matching days of a month as bits 1-31, from its length and
// the weekday of its first day.
func (e *Expression) days(month, length, weekday int) uint32 {
	if e.months>>month&1 == 0 {
		return 0
	}
	all := uint32(1<<(length+1)-1) &^ 1
	if e.domStar && e.dowStar {
		return all
	}
	var byMonth, byWeek uint32
	if !e.domStar {
		byMonth = e.dom
		for back := e.domBack; back != 0; back &= back - 1 {
			if day := length - bits.TrailingZeros32(back); day >= 1 {
				byMonth |= 1 << day
			}
		}
	}
	if !e.dowStar {
		for d := range 7 {
			first := 1 + (d-weekday+7)%7
			if e.dow>>d&1 != 0 {
				byWeek |= (1 | 1<<7 | 1<<14 | 1<<21 | 1<<28) << first
			}
			for n, set := range e.dowNth {
				if set>>d&1 == 0 {
					continue
				}
				if n == 0 {
					n = (length-first)/7 + 1
				}
				byWeek |= 1 << (first + 7*(n-1))
			}
		}
	}
	return (byMonth | byWeek) & all
}

// month is one month of the calendar.
type month struct {
	year, month, length, weekday int
	first                        int64 // days since the epoch of its first day
}

func monthOf(year, m int) month {
	t := time.Date(year, time.Month(m), 1, 0, 0, 0, 0, time.UTC)
	year, m = t.Year(), int(t.Month())
	return month{
		year: year, month: m, length: daysIn(year, m),
		weekday: int(t.Weekday()), first: floorDiv(t.Unix(), 86400),
	}
}

func monthAt(day int64) month {
	t := time.Unix(day*86400, 0).UTC()
	return monthOf(t.Year(), int(t.Month()))
}

func (m month) next() month {
	n := month{year: m.year, month: m.month + 1, weekday: (m.weekday + m.length) % 7, first: m.first + int64(m.length)}
	if n.month > 12 {
		n.year, n.month = n.year+1, 1
	}
	n.length = daysIn(n.year, n.month)
	return n
}

func (m month) previous() month { return monthOf(m.year, m.month-1) }

func (e *Expression) daysOf(m month) uint32 { return e.days(m.month, m.length, m.weekday) }

// nextWall returns the first matching wall minute at or after w.
func (e *Expression) nextWall(w int64) int64 {
	day, minute := floorDiv(w, minutesPerDay), int(floorMod(w, minutesPerDay))
	m := monthAt(day)
	set := e.daysOf(m) &^ (1<<(day-m.first+1) - 1)
	if set>>(day-m.first+1)&1 != 0 {
		if at, ok := e.firstMinute(minute); ok {
			return w - int64(minute) + int64(at)
		}
		set &^= 1 << (day - m.first + 1)
	}
	for range cycle + 1 {
		if set != 0 {
			at, _ := e.firstMinute(0)
			return (m.first+int64(bits.TrailingZeros32(set))-1)*minutesPerDay + int64(at)
		}
		m = m.next()
		set = e.daysOf(m)
	}
	panic("cron: an expression that never fires was let through")
}

// previousWall returns the last matching wall minute at or before w.
func (e *Expression) previousWall(w int64) int64 {
	day, minute := floorDiv(w, minutesPerDay), int(floorMod(w, minutesPerDay))
	m := monthAt(day)
	set := e.daysOf(m) & (1<<(day-m.first+2) - 1)
	if set>>(day-m.first+1)&1 != 0 {
		if at, ok := e.lastMinute(minute); ok {
			return w - int64(minute) + int64(at)
		}
		set &^= 1 << (day - m.first + 1)
	}
	for range cycle + 1 {
		if set != 0 {
			at, _ := e.lastMinute(minutesPerDay - 1)
			return (m.first+int64(bits.Len32(set))-2)*minutesPerDay + int64(at)
		}
		m = m.previous()
		set = e.daysOf(m)
	}
	panic("cron: an expression that never fires was let through")
}

// countWalls returns how many wall minutes match in [from, to).
func (e *Expression) countWalls(from, to int64) int64 {
	if from >= to {
		return 0
	}
	return e.countTo(monthAt(floorDiv(from, minutesPerDay)), to) - e.countTo(monthAt(floorDiv(from, minutesPerDay)), from)
}

// countTo returns how many wall minutes match from the start of m until before w.
func (e *Expression) countTo(m month, w int64) int64 {
	day, minute := floorDiv(w, minutesPerDay), int(floorMod(w, minutesPerDay))
	var whole int
	for day >= m.first+int64(m.length) {
		whole += bits.OnesCount32(e.daysOf(m))
		m = m.next()
	}
	set := e.daysOf(m)
	whole += bits.OnesCount32(set & (1<<(day-m.first+1) - 1))
	n := int64(whole) * e.perDay()
	if set>>(day-m.first+1)&1 != 0 {
		hour := minute / 60
		n += int64(bits.OnesCount32(e.hours&(1<<hour-1))) * int64(bits.OnesCount64(e.minutes))
		if e.hours>>hour&1 != 0 {
			n += int64(bits.OnesCount64(e.minutes & (1<<(minute%60) - 1)))
		}
	}
	return n
}

// firstMinute returns the first matching minute of a day at or after the given.
func (e *Expression) firstMinute(minute int) (int, bool) {
	hour := minute / 60
	if e.hours>>hour&1 != 0 {
		if set := e.minutes >> (minute % 60); set != 0 {
			return minute + bits.TrailingZeros64(set), true
		}
	}
	hours := e.hours &^ (1<<(hour+1) - 1)
	return bits.TrailingZeros32(hours)*60 + bits.TrailingZeros64(e.minutes), hours != 0
}

// lastMinute returns the last matching minute of a day at or before the given.
func (e *Expression) lastMinute(minute int) (int, bool) {
	hour := minute / 60
	if e.hours>>hour&1 != 0 {
		if set := e.minutes & (1<<(minute%60+1) - 1); set != 0 {
			return hour*60 + bits.Len64(set) - 1, true
		}
	}
	hours := e.hours & (1<<hour - 1)
	return (bits.Len32(hours)-1)*60 + bits.Len64(e.minutes) - 1, hours != 0
}

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

func floorMod(a, b int64) int64 { return a - floorDiv(a, b)*b }

// ceilMinute returns the first whole minute at or after a wall second.
func ceilMinute(second int64) int64 { return -floorDiv(-second, 60) }
