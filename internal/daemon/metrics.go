package daemon

import (
	"net/http"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/bullpen-run/bullpen/queue/queueprom"
)

// lateHandler answers 503 until its handler is there.
type lateHandler struct{ is atomic.Pointer[http.Handler] }

func (l *lateHandler) set(h http.Handler) { l.is.Store(&h) }

func (l *lateHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if h := l.is.Load(); h != nil {
		(*h).ServeHTTP(w, r)
		return
	}
	http.Error(w, "the daemon is starting", http.StatusServiceUnavailable)
}

// metrics returns what answers /metrics: of the pools, the queue, the daemon and
// the program.
func (d *Daemon) metrics() (http.Handler, error) {
	queues, err := queueprom.New(d.queue, backend{d}.Pools)
	if err != nil {
		return nil, err
	}
	r := prometheus.NewRegistry()
	for _, c := range append(d.own(), d.processes, queues, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{})) {
		if err := r.Register(c); err != nil {
			return nil, err
		}
	}
	return promhttp.HandlerFor(r, promhttp.HandlerOpts{Timeout: 10 * time.Second, MaxRequestsInFlight: 4}), nil
}

// own are the metrics of the daemon itself.
func (d *Daemon) own() []prometheus.Collector {
	gauge := func(name, help string, f func() float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, f)
	}
	counter := func(name, help string, f func() uint64) prometheus.Collector {
		return prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help}, func() float64 { return float64(f()) })
	}
	info := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "bullpen_build_info", Help: "1; the version of the program.", ConstLabels: prometheus.Labels{"version": d.version},
	})
	info.Set(1)
	truth := func(b bool) float64 {
		if b {
			return 1
		}
		return 0
	}
	return []prometheus.Collector{
		info,
		gauge("bullpen_ready", "1 while /readyz says yes.", func() float64 { return truth(d.readiness().ok()) }),
		gauge("bullpen_live", "1 while /livez says yes.", func() float64 { return truth(d.liveness().ok()) }),
		gauge("bullpen_config_last_reload_successful", "1 when the last reload of the configuration was taken over.", func() float64 { return truth(d.reloads.fault.Load() == nil) }),
		gauge("bullpen_config_last_reload_success_timestamp_seconds", "When the configuration in force was read.", func() float64 { return float64(d.reloads.last.Load()) }),
		counter("bullpen_config_reloads_total", "Reloads of the configuration that were taken over.", d.reloads.good.Load),
		counter("bullpen_config_reload_failures_total", "Reloads of the configuration that were refused.", d.reloads.bad.Load),
		counter("bullpen_log_lines_dropped_total", "Lines of the log that were dropped because the writer was too slow.", d.logLost),
		counter("bullpen_traces_sent_total", "Spans that the collector of traces has taken.", func() uint64 { return d.tracer.Counts().Sent }),
		counter("bullpen_traces_dropped_total", "Spans that were dropped because the collector of traces was too slow or refused them.", func() uint64 { return d.tracer.Counts().Dropped }),
		counter("bullpen_traces_failures_total", "Requests that the collector of traces did not take.", func() uint64 { return d.tracer.Counts().Failures }),
	}
}
