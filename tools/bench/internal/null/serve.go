package null

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/myosin-jobs/myosin/pkg/settings"
)

// Command are the settings of `bench endpoint`. Bind makes them; a program of its
// own takes [Options] and [New].
type Command struct {
	Options
	// Addr is where it listens; port 0 takes a free one.
	Addr string
	// Limits is none or aws: the limits that others below stand in for.
	Limits string
	// Stdin ends it when standard input ends.
	Stdin bool

	writes, reads, partWrites, partReads, calls float64
	parts                                       int
	burst                                       time.Duration
}

// unset is what a limit is that no flag set.
const unset = -1

// Bind adds the settings.
func (c *Command) Bind(s *settings.Set) {
	c.Addr, c.Limits = "127.0.0.1:4577", "none"
	c.Queues.SinkIDs = true
	c.writes, c.reads, c.partWrites, c.partReads = unset, unset, unset, unset
	s.StringVar(&c.Addr, "addr", "", "where it listens; port 0 takes a free one")
	s.DurationVar(&c.LatencyDynamoDB, "latency-dynamodb", "", "mean latency of a request, with jitter")
	s.DurationVar(&c.LatencySQS, "latency-sqs", "", "mean latency of a request, with jitter; a poll's wait comes on top")
	s.StringVar(&c.Limits, "limits", "", "none or aws: 4,000 writes/s and 12,000 reads/s a table, 1,000 and 3,000 a physical partition, 120,000 messages in flight, 300 calls/s on plain FIFO queues")
	s.FloatVar(&c.writes, "table-writes", "", "write units/s of a table; 0: no limit; -1: as --limits says")
	s.FloatVar(&c.reads, "table-reads", "", "read units/s of a table; the same")
	s.FloatVar(&c.partWrites, "partition-writes", "", "write units/s of a physical partition; the same")
	s.FloatVar(&c.partReads, "partition-reads", "", "read units/s of a physical partition; the same")
	s.IntVar(&c.parts, "physical-partitions", "", "of a table; 0: as many as its write limit needs")
	s.BoolVar(&c.Tables.Even, "even", "", "spread hash keys evenly over physical partitions, as a table is after it was split for heat, instead of by their hashes")
	s.DurationVar(&c.burst, "burst", "", "how much unused capacity is kept; AWS keeps up to 300s")
	s.FloatVar(&c.calls, "queue-calls", "", "calls/s of each kind on a queue; 0: no limit")
	s.BoolVar(&c.Queues.Sink, "sink", "", "services' queues (-svc-) keep nothing but how late messages came")
	s.BoolVar(&c.Queues.SinkIDs, "sink-ids", "", "sinks count copies by Myosin-Id, at some 20 bytes of memory a message")
	s.BoolVar(&c.Queues.Checksums, "checksums", "", "add MD5 sums of bodies, for clients that check them")
	s.BoolVar(&c.Stdin, "stdin", "", "end when standard input ends, so as not to outlive a parent")
}

// Resolve makes the limits of what the flags say, and validates.
func (c *Command) Resolve() error {
	switch c.Limits {
	case "none", "":
	case "aws":
		c.LimitAsAWS()
	default:
		return fmt.Errorf("--limits %q; want none or aws", c.Limits)
	}
	for _, one := range []struct {
		to   *float64
		flag float64
	}{
		{&c.Tables.Writes, c.writes}, {&c.Tables.Reads, c.reads},
		{&c.Tables.PhysicalWrites, c.partWrites}, {&c.Tables.PhysicalReads, c.partReads},
	} {
		if one.flag != unset {
			*one.to = one.flag
		}
	}
	c.Tables.Physical, c.Tables.Burst, c.Queues.Calls = c.parts, c.burst, c.calls
	return c.Validate()
}

// Serve serves until ctx ends. It writes one line to out once it listens:
// "bench-endpoint http://127.0.0.1:4577".
func (c *Command) Serve(ctx context.Context, in io.Reader, out io.Writer) error {
	e, err := New(c.Options)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	if c.Stdin {
		go func() { // ends with standard input; nothing can wait for that
			_, _ = io.Copy(io.Discard, in)
			stop()
		}()
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", c.Addr)
	if err != nil {
		return fmt.Errorf("null endpoint: %w", err)
	}
	if _, err := fmt.Fprintf(out, "bench-endpoint http://%s\n", l.Addr()); err != nil {
		return errors.Join(fmt.Errorf("null endpoint: %w", err), l.Close())
	}
	return e.Serve(ctx, l)
}
