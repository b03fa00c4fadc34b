package forecast_test

import (
	"testing"

	"github.com/myosin-jobs/myosin/pkg/forecast"
	"github.com/myosin-jobs/myosin/pkg/forecast/forecasttest"
)

func TestMemoryPassesTheSuite(t *testing.T) {
	forecasttest.Store(t, func(*testing.T) forecast.Store { return new(forecast.Memory) })
}
