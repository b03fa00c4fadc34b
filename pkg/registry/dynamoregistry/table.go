package dynamoregistry

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// TableAPI is what [CreateTable] calls of *dynamodb.Client.
type TableAPI interface {
	CreateTable(context.Context, *dynamodb.CreateTableInput, ...func(*dynamodb.Options)) (*dynamodb.CreateTableOutput, error)
	DescribeTable(context.Context, *dynamodb.DescribeTableInput, ...func(*dynamodb.Options)) (*dynamodb.DescribeTableOutput, error)
}

// CreateTable makes the table, billed by request, and waits up to a minute
// until it can be used; a table that exists is left alone. It is meant for
// emulators and tests: elsewhere Terraform owns the table.
func CreateTable(ctx context.Context, client TableAPI, table string) error {
	_, err := client.CreateTable(ctx, &dynamodb.CreateTableInput{
		TableName:            &table,
		BillingMode:          types.BillingModePayPerRequest,
		KeySchema:            []types.KeySchemaElement{{AttributeName: aws.String(attrName), KeyType: types.KeyTypeHash}},
		AttributeDefinitions: []types.AttributeDefinition{{AttributeName: aws.String(attrName), AttributeType: types.ScalarAttributeTypeS}},
	})
	var there *types.ResourceInUseException
	if err != nil && !errors.As(err, &there) {
		return fmt.Errorf("create table %s: %w", table, err)
	}
	quick := func(o *dynamodb.TableExistsWaiterOptions) {
		o.MinDelay, o.MaxDelay = 100*time.Millisecond, 2*time.Second
	}
	err = dynamodb.NewTableExistsWaiter(client, quick).Wait(ctx, &dynamodb.DescribeTableInput{TableName: &table}, time.Minute)
	if err != nil {
		return fmt.Errorf("wait for table %s: %w", table, err)
	}
	return nil
}
