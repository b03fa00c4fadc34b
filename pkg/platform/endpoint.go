package platform

import (
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
)

// endpoint is everything DynamoDB's endpoint rules look at.
type endpoint struct {
	region, url, account, accountMode, arn, arns string
	dualStack, fips, search                      bool
}

func endpointKey(p dynamodb.EndpointParameters) endpoint {
	return endpoint{
		region: aws.ToString(p.Region), url: aws.ToString(p.Endpoint),
		account: aws.ToString(p.AccountId), accountMode: aws.ToString(p.AccountIdEndpointMode),
		arn: aws.ToString(p.ResourceArn), arns: strings.Join(p.ResourceArnList, "\x00"),
		dualStack: aws.ToBool(p.UseDualStack), fips: aws.ToBool(p.UseFIPS), search: aws.ToBool(p.IsSearchOperation),
	}
}
