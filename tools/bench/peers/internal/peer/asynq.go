package peer

import (
	"context"
	"time"

	"github.com/hibiken/asynq"
)

const task = "bench"

// asynqSender enqueues one task a call, as asynq's only way is.
func asynqSender(_ context.Context, c *Config) (*sender, error) {
	client := asynq.NewClient(asynq.RedisClientOpt{Addr: c.Addr})
	return &sender{
		send: func(ctx context.Context, due time.Time, payload []byte) error {
			// asynq keeps whole seconds, rounded down: a task may start up to a second
			// early. What is early is counted and not corrected.
			_, err := client.EnqueueContext(ctx, asynq.NewTask(task, payload), asynq.ProcessAt(due))
			return err
		},
		close: client.Close,
	}, nil
}

// AsynqSettings tells what a worker runs with.
func AsynqSettings(tuned bool) string {
	if tuned {
		return "DelayedTaskCheckInterval 100ms, TaskCheckInterval 20ms; due times are whole seconds, rounded down"
	}
	return "defaults: DelayedTaskCheckInterval 5s, TaskCheckInterval 1s; due times are whole seconds, rounded down"
}

func asynqRunner(_ context.Context, c *Config, start func([]byte)) (*runner, error) {
	config := asynq.Config{Concurrency: handlers, LogLevel: asynq.WarnLevel}
	if c.Tuned {
		config.DelayedTaskCheckInterval, config.TaskCheckInterval = 100*time.Millisecond, 20*time.Millisecond
	}
	server := asynq.NewServer(asynq.RedisClientOpt{Addr: c.Addr}, config)
	if err := server.Start(asynq.HandlerFunc(func(_ context.Context, t *asynq.Task) error {
		start(t.Payload())
		return nil
	})); err != nil {
		return nil, err
	}
	return &runner{close: func() error {
		server.Shutdown()
		return nil
	}}, nil
}
