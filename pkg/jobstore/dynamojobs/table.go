package dynamojobs

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// TableAPI is what [EnsureTables] calls of *dynamodb.Client.
type TableAPI interface {
	CreateTable(context.Context, *dynamodb.CreateTableInput, ...func(*dynamodb.Options)) (*dynamodb.CreateTableOutput, error)
	DescribeTable(context.Context, *dynamodb.DescribeTableInput, ...func(*dynamodb.Options)) (*dynamodb.DescribeTableOutput, error)
	DescribeTimeToLive(context.Context, *dynamodb.DescribeTimeToLiveInput, ...func(*dynamodb.Options)) (*dynamodb.DescribeTimeToLiveOutput, error)
	UpdateTimeToLive(context.Context, *dynamodb.UpdateTimeToLiveInput, ...func(*dynamodb.Options)) (*dynamodb.UpdateTimeToLiveOutput, error)
}

var _ TableAPI = (*dynamodb.Client)(nil)

// EnsureTables makes the tables with their indexes and time to live unless they
// exist, billed by request, and waits up to a minute for each until it can be
// used. It is meant for emulators and tests: elsewhere Terraform owns them.
func EnsureTables(ctx context.Context, client TableAPI, jobs, runs string) error {
	if err := ensure(ctx, client, jobs, index{wakeIndex, attrShard, attrWake}); err != nil {
		return fmt.Errorf("table %s: %w", jobs, err)
	}
	err := ensure(ctx, client, runs, index{wakeIndex, attrShard, attrWake}, index{deadIndex, attrDead, attrDied})
	if err != nil {
		return fmt.Errorf("table %s: %w", runs, err)
	}
	return nil
}

// index is an index of keys only, by a text and a number.
type index struct{ name, hash, sort string }

func ensure(ctx context.Context, client TableAPI, table string, indexes ...index) error {
	in := &dynamodb.CreateTableInput{
		TableName: &table, BillingMode: types.BillingModePayPerRequest, KeySchema: schema(attrP, attrS),
		AttributeDefinitions: []types.AttributeDefinition{
			{AttributeName: aws.String(attrP), AttributeType: types.ScalarAttributeTypeS},
			{AttributeName: aws.String(attrS), AttributeType: types.ScalarAttributeTypeS},
		},
	}
	for _, i := range indexes {
		in.AttributeDefinitions = append(in.AttributeDefinitions,
			types.AttributeDefinition{AttributeName: &i.hash, AttributeType: types.ScalarAttributeTypeS},
			types.AttributeDefinition{AttributeName: &i.sort, AttributeType: types.ScalarAttributeTypeN})
		in.GlobalSecondaryIndexes = append(in.GlobalSecondaryIndexes, types.GlobalSecondaryIndex{
			IndexName: &i.name, KeySchema: schema(i.hash, i.sort),
			Projection: &types.Projection{ProjectionType: types.ProjectionTypeKeysOnly},
		})
	}
	_, err := client.CreateTable(ctx, in)
	if _, there := errors.AsType[*types.ResourceInUseException](err); err != nil && !there {
		return fmt.Errorf("create: %w", err)
	}
	quick := func(o *dynamodb.TableExistsWaiterOptions) {
		o.MinDelay, o.MaxDelay = 100*time.Millisecond, 2*time.Second
	}
	err = dynamodb.NewTableExistsWaiter(client, quick).Wait(ctx, &dynamodb.DescribeTableInput{TableName: &table}, time.Minute)
	if err != nil {
		return fmt.Errorf("wait: %w", err)
	}
	ttl, err := client.DescribeTimeToLive(ctx, &dynamodb.DescribeTimeToLiveInput{TableName: &table})
	if err != nil {
		return fmt.Errorf("time to live: %w", err)
	}
	if d := ttl.TimeToLiveDescription; d != nil &&
		(d.TimeToLiveStatus == types.TimeToLiveStatusEnabled || d.TimeToLiveStatus == types.TimeToLiveStatusEnabling) {
		return nil // asking again is an error
	}
	_, err = client.UpdateTimeToLive(ctx, &dynamodb.UpdateTimeToLiveInput{
		TableName:               &table,
		TimeToLiveSpecification: &types.TimeToLiveSpecification{AttributeName: aws.String(attrExpires), Enabled: aws.Bool(true)},
	})
	if err != nil {
		return fmt.Errorf("time to live: %w", err)
	}
	return nil
}

func schema(hash, sort string) []types.KeySchemaElement {
	return []types.KeySchemaElement{
		{AttributeName: &hash, KeyType: types.KeyTypeHash},
		{AttributeName: &sort, KeyType: types.KeyTypeRange},
	}
}
