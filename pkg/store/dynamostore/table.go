package dynamostore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// TableAPI is what [CreateTable] uses of the SDK's client.
type TableAPI interface {
	CreateTable(context.Context, *dynamodb.CreateTableInput, ...func(*dynamodb.Options)) (*dynamodb.CreateTableOutput, error)
	DescribeTable(context.Context, *dynamodb.DescribeTableInput, ...func(*dynamodb.Options)) (*dynamodb.DescribeTableOutput, error)
	DescribeTimeToLive(context.Context, *dynamodb.DescribeTimeToLiveInput, ...func(*dynamodb.Options)) (*dynamodb.DescribeTimeToLiveOutput, error)
	UpdateTimeToLive(context.Context, *dynamodb.UpdateTimeToLiveInput, ...func(*dynamodb.Options)) (*dynamodb.UpdateTimeToLiveOutput, error)
}

var _ TableAPI = (*dynamodb.Client)(nil)

// CreateTable creates the trigger table, with on-demand billing, its TTL and the
// index of dead rows, unless it exists, and waits until it is active. It is for
// the embedded engine and for tests: in production Terraform owns the table.
func CreateTable(ctx context.Context, api TableAPI, name string) error {
	_, err := api.CreateTable(ctx, &dynamodb.CreateTableInput{
		TableName:   &name,
		BillingMode: types.BillingModePayPerRequest,
		AttributeDefinitions: []types.AttributeDefinition{
			{AttributeName: aws.String(attrP), AttributeType: types.ScalarAttributeTypeS},
			{AttributeName: aws.String(attrS), AttributeType: types.ScalarAttributeTypeS},
			{AttributeName: aws.String(attrDead), AttributeType: types.ScalarAttributeTypeS},
		},
		KeySchema: keySchema(attrP),
		GlobalSecondaryIndexes: []types.GlobalSecondaryIndex{{
			IndexName: aws.String(deadIndex), KeySchema: keySchema(attrDead),
			Projection: &types.Projection{ProjectionType: types.ProjectionTypeAll},
		}},
	})
	var exists *types.ResourceInUseException
	if err != nil && !errors.As(err, &exists) {
		return fmt.Errorf("create table %s: %w", name, err)
	}
	if err := waitActive(ctx, api, name); err != nil {
		return fmt.Errorf("create table %s: %w", name, err)
	}
	return enableTTL(ctx, api, name)
}

func keySchema(hash string) []types.KeySchemaElement {
	return []types.KeySchemaElement{
		{AttributeName: aws.String(hash), KeyType: types.KeyTypeHash},
		{AttributeName: aws.String(attrS), KeyType: types.KeyTypeRange},
	}
}

func waitActive(ctx context.Context, api TableAPI, name string) error {
	for wait := 50 * time.Millisecond; ; wait = min(2*wait, 2*time.Second) {
		out, err := api.DescribeTable(ctx, &dynamodb.DescribeTableInput{TableName: &name})
		var missing *types.ResourceNotFoundException
		switch {
		case errors.As(err, &missing): // not to be seen yet
		case err != nil:
			return fmt.Errorf("describe: %w", err)
		case active(out.Table):
			return nil
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return fmt.Errorf("wait until it is active: %w", ctx.Err())
		}
	}
}

func active(t *types.TableDescription) bool {
	if t == nil || t.TableStatus != types.TableStatusActive {
		return false
	}
	for _, index := range t.GlobalSecondaryIndexes {
		if index.IndexStatus != "" && index.IndexStatus != types.IndexStatusActive {
			return false
		}
	}
	return true
}

func enableTTL(ctx context.Context, api TableAPI, name string) error {
	out, err := api.DescribeTimeToLive(ctx, &dynamodb.DescribeTimeToLiveInput{TableName: &name})
	if err == nil && out.TimeToLiveDescription != nil {
		switch out.TimeToLiveDescription.TimeToLiveStatus {
		case types.TimeToLiveStatusEnabled, types.TimeToLiveStatusEnabling:
			return nil
		}
	}
	_, err = api.UpdateTimeToLive(ctx, &dynamodb.UpdateTimeToLiveInput{
		TableName:               &name,
		TimeToLiveSpecification: &types.TimeToLiveSpecification{AttributeName: aws.String(attrExpires), Enabled: aws.Bool(true)},
	})
	if err != nil {
		return fmt.Errorf("time to live of %s: %w", name, err)
	}
	return nil
}
