package app

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/myosin-jobs/myosin/pkg/client"
)

type partitionsOutput struct{ Body client.PartitionsView }

func (a *api) registerPartitions(h huma.API) {
	huma.Register(h, operation(h, huma.Operation{
		OperationID: "get-partitions", Method: http.MethodGet, Path: client.PartitionsPath,
		Tags: []string{"partitions"}, Summary: "Tell the partition counts of the trigger table",
		Description: "For senders of their own: n of a submission is the last count whose time has come. " +
			"A growth is announced a minute ahead, so an answer may be kept for that long.",
	}), a.getPartitions)
}

func (a *api) getPartitions(ctx context.Context, _ *struct{}) (*partitionsOutput, error) {
	epochs, err := a.o.Partitions.Epochs(ctx)
	if err != nil {
		return nil, a.fail(ctx, "get partitions", err)
	}
	return &partitionsOutput{Body: client.PartitionsViewOf(epochs)}, nil
}
