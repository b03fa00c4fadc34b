package sqsqueue

import (
	"reflect"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/stretchr/testify/require"
)

// A parameter that the SDK adds, or that the key leaves out, must not make two
// endpoints one.
func TestEndpointKeyTellsEveryParameterApart(t *testing.T) {
	base := endpointKey(sqs.EndpointParameters{})
	fields := reflect.TypeFor[sqs.EndpointParameters]()
	for i := range fields.NumField() {
		var p sqs.EndpointParameters
		switch f := reflect.ValueOf(&p).Elem().Field(i); f.Interface().(type) {
		case *string:
			f.Set(reflect.ValueOf(aws.String("x")))
		case *bool:
			f.Set(reflect.ValueOf(aws.Bool(true)))
		default:
			t.Fatalf("parameter %s has a type that the key does not know", fields.Field(i).Name)
		}
		require.NotEqual(t, base, endpointKey(p), fields.Field(i).Name)
	}
}
