package trace

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/bullpen-run/bullpen/internal/daemon/settings"
)

// Config configures a Tracer. Only Traces.Endpoint is required.
type Config struct {
	// Traces are the settings. Without an Endpoint New returns nil and nothing is
	// traced. With a Sample of 0 only the traces of callers are exported.
	Traces settings.Traces
	// Node and Version are attributes of all spans.
	Node, Version string
	// Buffer is the maximum number of spans that wait for the collector; as many
	// again may be in transit. Default 8192, about 14 MiB when both are full.
	Buffer int
	// Pause bounds how long a span waits for a batch to fill. Default 1 s.
	Pause time.Duration
	// Logger logs when the collector fails; nil logs nothing.
	Logger *slog.Logger
}

const (
	defaultTimeout = 10 * time.Second
	defaultBuffer  = 8 << 10
	defaultPause   = time.Second
	// batchSize is the number of spans in one request.
	batchSize = 1 << 10
	tracePath = "/v1/traces"
)

func (c Config) withDefaults() Config {
	c.Traces.Timeout = cmp.Or(c.Traces.Timeout, defaultTimeout)
	c.Traces.Service = cmp.Or(c.Traces.Service, "bullpen")
	c.Buffer = cmp.Or(c.Buffer, defaultBuffer)
	c.Pause = cmp.Or(c.Pause, defaultPause)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

func (c Config) check() error {
	errs := []error{c.Traces.Check()}
	if c.Pause < 0 || c.Buffer < 0 {
		errs = append(errs, fmt.Errorf("Pause is %v and Buffer is %d: use positive values, or 0 for the default", c.Pause, c.Buffer))
	}
	return errors.Join(errs...)
}

// target returns the URL of requests.
func (c *Config) target() string {
	base := strings.TrimRight(c.Traces.Endpoint, "/")
	if strings.HasSuffix(base, tracePath) {
		return base
	}
	return base + tracePath
}

func (c *Config) resource() []attribute {
	var s span
	s.text("service.name", c.Traces.Service)
	s.text("service.version", c.Version)
	s.text("service.instance.id", c.Node)
	s.text("telemetry.sdk.name", "bullpen")
	s.text("telemetry.sdk.language", "go")
	s.text("telemetry.sdk.version", c.Version)
	return s.attributes
}
