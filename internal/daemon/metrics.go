package daemon

import (
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/bullpen-run/bullpen/queue/queueprom"
)

// lateHandler answers 503 until its handler is set.
type lateHandler struct{ is atomic.Pointer[http.Handler] }

func (l *lateHandler) set(h http.Handler) { l.is.Store(&h) }

func (l *lateHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if h := l.is.Load(); h != nil {
		(*h).ServeHTTP(w, r)
		return
	}
	http.Error(w, "the daemon is starting", http.StatusServiceUnavailable)
}

// metrics returns the handler of /metrics, with the metrics of the pools, the queue,
// the daemon and the program.
func (d *Daemon) metrics() (http.Handler, error) {
	queues, err := queueprom.New(d.queue, backend{d}.Pools)
	if err != nil {
		return nil, err
	}
	r := prometheus.NewRegistry()
	for _, c := range append(append(d.own(), d.limits()...), d.requests.answered, d.requests.took, d.exported.Processes, queues, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{})) {
		if err := r.Register(c); err != nil {
			return nil, err
		}
	}
	return promhttp.HandlerFor(r, promhttp.HandlerOpts{Timeout: 10 * time.Second, MaxRequestsInFlight: 4}), nil
}

// requests are the metrics of the API.
type requests struct {
	answered *prometheus.CounterVec
	took     *prometheus.HistogramVec
	byRoute  sync.Map // *routeMetrics by name of the route
}

// routeMetrics are the metrics of one route, looked up only once.
type routeMetrics struct {
	took     prometheus.Observer
	answered [6]prometheus.Counter // by the first digit of the status
}

func newRequests() *requests {
	return &requests{
		answered: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "bullpen_http_requests_total", Help: "Answered requests, by route and class of status, such as 2xx.",
		}, []string{"route", "code"}),
		took: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "bullpen_http_request_seconds", Help: "Time that requests took, including the time that callers asked to wait.",
			Buckets: []float64{0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10, 60},
		}, []string{"route"}),
	}
}

// observe counts one request.
func (r *requests) observe(route string, status int, took time.Duration) {
	found, ok := r.byRoute.Load(route)
	if !ok {
		label := route
		if label == "" || label == "/" {
			label = "other"
		}
		m := &routeMetrics{took: r.took.WithLabelValues(label)}
		for class := range m.answered {
			if class >= 2 {
				m.answered[class] = r.answered.WithLabelValues(label, strconv.Itoa(class)+"xx")
			}
		}
		found, _ = r.byRoute.LoadOrStore(route, m)
	}
	m, ok := found.(*routeMetrics)
	if !ok {
		return // the map holds nothing else
	}
	m.took.Observe(took.Seconds())
	if class := status / 100; class >= 2 && class < len(m.answered) {
		m.answered[class].Inc()
	}
}

// limits returns the metrics of the store's limits.
func (d *Daemon) limits() []prometheus.Collector {
	k := d.config().Queue.Keep
	bound := func(stream string, bytes int64) prometheus.Collector {
		g := prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "bullpen_store_limit_bytes", Help: "Maximum size of a stream of the store.", ConstLabels: prometheus.Labels{"stream": stream},
		})
		g.Set(float64(bytes))
		return g
	}
	return []prometheus.Collector{bound("jobs", k.Jobs), bound("outcomes", k.Outcomes), bound("dead", k.Dead)}
}

// own returns the metrics of the daemon itself.
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
		gauge("bullpen_ready", "1 while /readyz succeeds, else 0.", func() float64 { return truth(d.readiness().ok()) }),
		gauge("bullpen_live", "1 while /livez succeeds, else 0.", func() float64 { return truth(d.liveness().ok()) }),
		gauge("bullpen_config_last_reload_successful", "1 if the last reload of the configuration succeeded, else 0.", func() float64 { return truth(d.reloads.fault.Load() == nil) }),
		gauge("bullpen_config_last_reload_success_timestamp_seconds", "When the current configuration was read.", func() float64 { return float64(d.reloads.last.Load()) }),
		counter("bullpen_config_reloads_total", "Reloads of the configuration that succeeded.", d.reloads.good.Load),
		counter("bullpen_config_reload_failures_total", "Reloads of the configuration that failed.", d.reloads.bad.Load),
		counter("bullpen_log_lines_dropped_total", "Log lines that were dropped because the writer was too slow.", d.logLost),
		counter("bullpen_traces_sent_total", "Spans that the trace collector accepted.", func() uint64 { return d.tracer.Counts().Sent }),
		counter("bullpen_traces_dropped_total", "Spans that were dropped because the trace collector was too slow or refused them.", func() uint64 { return d.tracer.Counts().Dropped }),
		counter("bullpen_traces_failures_total", "Requests that the trace collector did not accept.", func() uint64 { return d.tracer.Counts().Failures }),
	}
}
