package runner

import (
	"context"

	"github.com/myosin-jobs/myosin/pkg/worker"
)

// Handle takes one message through, as the worker does.
func (r *Runner) Handle(ctx context.Context, m worker.Job[[]byte]) error { return r.handle(ctx, m) }
