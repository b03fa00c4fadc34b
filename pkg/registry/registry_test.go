package registry_test

import (
	"errors"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/myosin-jobs/myosin/pkg/registry"
	"github.com/myosin-jobs/myosin/pkg/registry/registrytest"
	"github.com/myosin-jobs/myosin/pkg/trigger"
)

func TestStaticPassesTheSuite(t *testing.T) {
	registrytest.Source(t, func(*testing.T) registry.Source { return new(registry.Static) })
}

func TestStaticKeepsNoSliceOfTheCaller(t *testing.T) {
	svc := registrytest.Full("payments")
	src := registry.NewStatic(svc)
	svc.Senders[0] = "changed"
	got, err := src.Get(t.Context(), "payments")
	require.NoError(t, err)
	got.Senders[1] = "changed"
	got, err = src.Get(t.Context(), "payments")
	require.NoError(t, err)
	require.Equal(t, registrytest.Full("payments").Senders, got.Senders)
}

func TestValidateNamesEveryField(t *testing.T) {
	full := registrytest.Full("payments")
	require.NoError(t, full.Validate())

	bad := registry.Service{
		Name: "-x", QueueURL: "queue", UrgentQueueURL: "arn:aws:sqs:us-east-1:1:q", DLQURL: "https://host/",
		Rate: math.NaN(), Senders: []string{"ok*", "", "a*b"},
	}
	var fields []string
	collect(bad.Validate(), &fields)
	require.Equal(t, []string{"name", "queue_url", "urgent_queue_url", "dlq_url", "rate", "senders[1]", "senders[2]"}, fields)

	full.DLQURL = full.QueueURL
	require.ErrorContains(t, full.Validate(), "dlq_url")
}

func collect(err error, fields *[]string) {
	var many interface{ Unwrap() []error }
	var one *trigger.FieldError
	switch {
	case errors.As(err, &many):
		for _, e := range many.Unwrap() {
			collect(e, fields)
		}
	case errors.As(err, &one):
		*fields = append(*fields, one.Field)
	}
}

func TestSendersMatchExactlyOrByPrefix(t *testing.T) {
	svc := registry.Service{Senders: []string{"AROA1:*", "AIDA2"}}
	require.True(t, svc.Allows("AROA1:session"))
	require.True(t, svc.Allows("AIDA2"))
	require.False(t, svc.Allows("AIDA2x"))
	require.False(t, svc.Allows("AROA1"))
	require.False(t, svc.Allows(""))
	open := registry.Service{}
	require.True(t, open.Allows(""))
}

func TestUrgentTriggersUseTheUrgentQueueIfThereIsOne(t *testing.T) {
	svc := registrytest.Full("payments")
	require.Equal(t, svc.UrgentQueueURL, svc.Queue(trigger.Urgent))
	require.Equal(t, svc.QueueURL, svc.Queue(trigger.Standard))
	svc.UrgentQueueURL = ""
	require.Equal(t, svc.QueueURL, svc.Queue(trigger.Urgent))
}
