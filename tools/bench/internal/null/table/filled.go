package table

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"sort"
	"strconv"
	"time"

	"github.com/myosin-jobs/myosin/pkg/trigger"
)

// filled are rows that fills made: nothing of them is stored but the key, the
// rest is made when one is read. A row that is written becomes one like all
// others, and is hidden here.
type filled struct {
	keys   []compact // sorted
	hidden []uint64  // a bit for each key
	gone   int       // bits set
	filler *Filler   // the last one's: what it says of services and payload holds for all
}

// compact is the key of a filled row: 24 bytes.
type compact struct {
	due int64
	id  trigger.ID
}

// compare orders keys as their texts are ordered.
func (c *compact) compare(d *compact) int {
	if c.due != d.due {
		return cmp.Compare(c.due, d.due)
	}
	return bytes.Compare(c.id[:], d.id[:])
}

// appendText appends the sort key.
func (c *compact) appendText(dst []byte) []byte {
	n := len(dst)
	dst = append(dst, "0000000000000#"...)
	for i, d := n+12, c.due; d > 0 && i >= n; i-- {
		dst[i] = byte('0' + d%10)
		d /= 10
	}
	const hex = "0123456789abcdef"
	for i, b := range c.id {
		switch i {
		case 4, 6, 8, 10:
			dst = append(dst, '-')
		}
		dst = append(dst, hex[b>>4], hex[b&15])
	}
	return dst
}

// filledFrom returns the place of the first filled row whose key is not below k.
func (f *filled) filledFrom(k []byte) int {
	var buf [64]byte
	return sort.Search(len(f.keys), func(i int) bool { return bytes.Compare(f.keys[i].appendText(buf[:0]), k) >= 0 })
}

func (f *filled) filledAt(k []byte) (int, bool) {
	if len(f.keys) == 0 {
		return 0, false
	}
	i := f.filledFrom(k)
	if i == len(f.keys) || f.shown(i) != i {
		return 0, false
	}
	return i, bytes.Equal(f.keys[i].appendText(nil), k)
}

// shown returns the first place from i on that is not hidden.
func (f *filled) shown(i int) int {
	for word := i / 64; word < len(f.hidden); word++ {
		seen := ^f.hidden[word]
		if word == i/64 {
			seen &= ^uint64(0) << (i % 64)
		}
		if seen != 0 {
			return min(64*word+bits.TrailingZeros64(seen), len(f.keys))
		}
	}
	return max(i, min(64*len(f.hidden), len(f.keys)))
}

func (f *filled) hide(i int) {
	if f.hidden == nil {
		f.hidden = make([]uint64, (len(f.keys)+63)/64)
	}
	f.hidden[i/64] |= 1 << (i % 64)
	f.gone++
}

func (f *filled) left() int { return len(f.keys) - f.gone }

// add adds the keys of a further fill, sorted.
func (f *filled) add(keys []compact, by *Filler) {
	if f.left() == 0 {
		*f = filled{keys: keys, filler: by}
		return
	}
	all := make([]compact, 0, f.left()+len(keys))
	for i := f.shown(0); i < len(f.keys); i = f.shown(i + 1) {
		for len(keys) > 0 && keys[0].compare(&f.keys[i]) < 0 {
			all, keys = append(all, keys[0]), keys[1:]
		}
		all = append(all, f.keys[i])
	}
	*f = filled{keys: append(all, keys...), filler: by}
}

func (f *filled) row(t *Table, p *partition, i int) *item { return f.filler.item(t, p, &f.keys[i]) }

// Filler describes rows to make: scheduled triggers of random ids, spread over
// the partitions as ids are, due evenly over a span.
type Filler struct {
	Rows       int
	Partitions int          // of the lane; default 64
	Lane       trigger.Lane // default: standard
	From, To   time.Time    // due; default: from a year ahead for a year
	Services   int          // s0, s1, …; default 50
	Payload    int          // bytes; default 300
	Seed       uint64       // of the ids; the same seed makes the same rows

	body []byte
}

// Validate reports everything that is wrong, joined.
func (f *Filler) Validate() error {
	var errs []error
	if f.Rows < 1 || f.Rows > math.MaxInt32 {
		errs = append(errs, fmt.Errorf("rows: %d; want 1 or more", f.Rows))
	}
	if f.Partitions < 0 || f.Partitions > trigger.MaxPartitions {
		errs = append(errs, fmt.Errorf("partitions: %d; want up to %d", f.Partitions, trigger.MaxPartitions))
	}
	if f.To.Before(f.From) {
		errs = append(errs, errors.New("to: before from"))
	}
	if f.Services < 0 || f.Payload < 0 || f.Payload > trigger.MaxPayload {
		errs = append(errs, errors.New("services or payload: out of range"))
	}
	return errors.Join(errs...)
}

func (f *Filler) setDefaults(now time.Time) {
	if f.Partitions == 0 {
		f.Partitions = trigger.DefaultPartitions
	}
	if f.From.IsZero() {
		f.From = now.AddDate(1, 0, 0)
	}
	if f.To.IsZero() {
		f.To = f.From.AddDate(1, 0, 0)
	}
	if f.Services == 0 {
		f.Services = 50
	}
	if f.Payload == 0 {
		f.Payload = 300
	}
	f.body = fmt.Appendf(nil, `{"B":%q}`, base64.StdEncoding.EncodeToString(bytes.Repeat([]byte("myosin "), f.Payload/7+1)[:f.Payload]))
}

// item makes the row of a key.
func (f *Filler) item(t *Table, p *partition, c *compact) *item {
	service := strconv.Itoa((int(c.id[0])<<8 | int(c.id[1])) % f.Services)
	return t.build(p, c.appendText(nil), attrs{
		{hot, []byte(`{"S":"` + string(trigger.StateScheduled) + `"}`)},
		{"v", []byte(`{"S":"s` + service + `"}`)},
		{"n", []byte(`{"N":"` + strconv.Itoa(f.Partitions) + `"}`)},
		{"c", []byte(`{"N":"1700000000000"}`)},
		{"b", f.body},
	})
}

// Fill puts rows into a table. Those that an earlier fill made in the same
// partitions stay, with the services and payload of this one.
func (e *Engine) Fill(name string, f Filler) error {
	if err := f.Validate(); err != nil {
		return fmt.Errorf("fill: %w", err)
	}
	t := e.table(name)
	if t == nil {
		return fmt.Errorf("fill: no table %q", name)
	}
	f.setDefaults(time.Now())
	lists := make([][]compact, f.Partitions)
	for i := range lists {
		lists[i] = make([]compact, 0, f.Rows/f.Partitions+f.Rows/f.Partitions/16+8)
	}
	random := f.Seed
	span := uint64(f.To.UnixMilli()-f.From.UnixMilli()) + 1 //nolint:gosec // not negative.
	for range f.Rows {
		var c compact
		for i := 0; i < len(c.id); i += 8 {
			random += 0x9E3779B97F4A7C15
			v := mix(random)
			for k := range 8 {
				c.id[i+k] = byte(v >> (8 * k)) //nolint:gosec // one byte after another.
			}
		}
		c.id[6], c.id[8] = c.id[6]&0x0f|0x40, c.id[8]&0x3f|0x80
		random += 0x9E3779B97F4A7C15
		c.due = f.From.UnixMilli() + int64(mix(random)%span) //nolint:gosec // within the span.
		p := trigger.Partition(c.id, f.Partitions)
		lists[p] = append(lists[p], c)
	}
	for i, keys := range lists {
		slices.SortFunc(keys, func(a, b compact) int { return a.compare(&b) })
		t.mu.Lock()
		p := t.partition([]byte(trigger.PartitionKey(f.Lane, i)), true)
		t.rows += len(keys)
		p.add(keys, &f)
		t.mu.Unlock()
	}
	return nil
}

// mix is the output step of splitmix64 (Steele, Lea and Flood, 2014).
func mix(z uint64) uint64 {
	z = (z ^ z>>30) * 0xBF58476D1CE4E5B9
	z = (z ^ z>>27) * 0x94D049BB133111EB
	return z ^ z>>31
}
