package peer

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

// connections is the size of every pool to PostgreSQL.
const connections = 20

func pool(ctx context.Context, c *Config) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig(c.Addr)
	if err != nil {
		return nil, err
	}
	config.MaxConns, config.MinConns = connections, connections/2
	return pgxpool.NewWithConfig(ctx, config)
}

func prepareRiver(ctx context.Context, c *Config) error {
	p, err := pool(ctx, c)
	if err != nil {
		return err
	}
	defer p.Close()
	m, err := rivermigrate.New(riverpgxv5.New(p), &rivermigrate.Config{Logger: warnings()})
	if err != nil {
		return err
	}
	_, err = m.Migrate(ctx, rivermigrate.DirectionUp, nil)
	return err
}

// riverArgs is River's job.
type riverArgs struct {
	Payload string `json:"payload"`
}

// Kind implements river.JobArgs.
func (riverArgs) Kind() string { return task }

// riverSender inserts one job a call, as a request of a service would.
func riverSender(ctx context.Context, c *Config) (*sender, error) {
	p, err := pool(ctx, c)
	if err != nil {
		return nil, err
	}
	client, err := river.NewClient(riverpgxv5.New(p), &river.Config{Logger: warnings()})
	if err != nil {
		return nil, err
	}
	return &sender{
		send: func(ctx context.Context, due time.Time, payload []byte) error {
			_, err := client.Insert(ctx, riverArgs{string(payload)}, &river.InsertOpts{ScheduledAt: due})
			return err
		},
		close: func() error {
			p.Close()
			return nil
		},
	}, nil
}

// RiverSettings tells what a worker runs with.
func RiverSettings(tuned bool) string {
	if tuned {
		return "FetchPollInterval 10ms, FetchCooldown 10ms; the scheduler's 5s (it looks 5s ahead) cannot be set"
	}
	return "defaults: FetchPollInterval 1s, FetchCooldown 100ms; scheduler every 5s, looking 5s ahead"
}

type riverWorker struct {
	river.WorkerDefaults[riverArgs]
	start func([]byte)
}

// Work implements river.Worker.
func (w *riverWorker) Work(_ context.Context, job *river.Job[riverArgs]) error {
	w.start([]byte(job.Args.Payload))
	return nil
}

func riverRunner(ctx context.Context, c *Config, start func([]byte)) (*runner, error) {
	p, err := pool(ctx, c)
	if err != nil {
		return nil, err
	}
	workers := river.NewWorkers()
	river.AddWorker(workers, &riverWorker{start: start})
	config := &river.Config{
		Logger: warnings(), Workers: workers, Queues: map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: handlers}},
	}
	if c.Tuned {
		config.FetchPollInterval, config.FetchCooldown = 10*time.Millisecond, 10*time.Millisecond
	}
	client, err := river.NewClient(riverpgxv5.New(p), config)
	if err != nil {
		return nil, err
	}
	if err := client.Start(context.WithoutCancel(ctx)); err != nil {
		return nil, err
	}
	return &runner{close: func() error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 20*time.Second)
		defer cancel()
		defer p.Close()
		return client.Stop(ctx)
	}}, nil
}

// Transactions is how many transactions a database has committed.
func Transactions(ctx context.Context, addr string) (n int64, err error) {
	conn, err := pgx.Connect(ctx, addr)
	if err != nil {
		return 0, err
	}
	err = conn.QueryRow(ctx, "SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()").Scan(&n)
	if err != nil {
		_ = conn.Close(ctx)
		return 0, err
	}
	return n, conn.Close(ctx)
}
