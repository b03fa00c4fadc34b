package protect

import (
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics carry no target and no tenant: their number has no bound.
type metrics struct {
	denied         *prometheus.CounterVec // reason
	opened, closed prometheus.Counter
	probes         prometheus.Counter
	exchangeErrors prometheus.Counter
	open, tracked  prometheus.GaugeFunc
}

func newMetrics(g *Gate, reg prometheus.Registerer) (*metrics, error) {
	single := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Namespace: "myosin", Subsystem: "protect", Name: name, Help: help})
	}
	gauge := func(name, help string, f func() int) prometheus.GaugeFunc {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Namespace: "myosin", Subsystem: "protect", Name: name, Help: help},
			func() float64 {
				g.mu.Lock()
				defer g.mu.Unlock()
				return float64(f())
			})
	}
	m := &metrics{
		denied: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: "myosin", Subsystem: "protect", Name: "denied_total", Help: "Calls not admitted now, by reason.",
		}, []string{"reason"}),
		opened:         single("breaker_opened_total", "Breakers that this runner found to be due to open, or to stay so after a failed probe."),
		closed:         single("breaker_closed_total", "Breakers that this runner's probes closed."),
		probes:         single("probes_total", "Calls admitted to find out whether a target works again."),
		exchangeErrors: single("exchange_errors_total", "Exchanges with the fleet that failed, wholly or for some targets."),
		open:           gauge("open_breakers", "Targets whose breaker is open or half open, as this runner knows.", func() int { return g.open }),
		tracked:        gauge("targets", "Targets of which anything is remembered.", func() int { return len(g.targets) }),
	}
	for _, r := range []Reason{ReasonOpen, ReasonRate, ReasonTenantCap} {
		m.denied.WithLabelValues(string(r))
	}
	if reg == nil {
		return m, nil
	}
	var errs []error
	for _, c := range []prometheus.Collector{m.denied, m.opened, m.closed, m.probes, m.exchangeErrors, m.open, m.tracked} {
		errs = append(errs, reg.Register(c))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("register metrics: %w", err)
	}
	return m, nil
}
