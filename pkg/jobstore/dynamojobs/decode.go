package dynamojobs

import (
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/myosin-jobs/myosin/pkg/job"
)

// DecodeRun reads an item of the runs table, such as its stream shows: for
// whoever has the item and not the table.
func DecodeRun(item map[string]types.AttributeValue) (job.Run, error) { return readRun(item) }
