package level

import "github.com/bullpen-run/bullpen/process/processprom"

// Metrics exports the metrics of pools to Prometheus: it has a collector for each level.
type Metrics struct {
	Processes *processprom.Collector
}

// measured is a Pool whose level has metrics.
type measured interface {
	show(m Metrics) error
	hide(m Metrics)
}

// Show exports the metrics of p, in the place of the pool with the same name.
func (m Metrics) Show(p Pool) error {
	if has, ok := p.(measured); ok {
		return has.show(m)
	}
	return nil
}

// Hide ends that.
func (m Metrics) Hide(p Pool) {
	if has, ok := p.(measured); ok {
		has.hide(m)
	}
}
