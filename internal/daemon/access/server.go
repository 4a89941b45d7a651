package access

import (
	"context"
	"log/slog"
	"net/http"
	"strings"
	"time"
)

// Server returns a server for a handler from Wrap or WrapProbes, to serve a listener
// from Listen or ListenProbes. All its limits are set.
func (g *Control) Server(h http.Handler) *http.Server {
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: g.times.Header,
		IdleTimeout:       g.times.Idle,
		MaxHeaderBytes:    maxHeaderBytes,
		ConnState:         onState,
		ConnContext:       withConn,
		// OPTIONS * must be checked too.
		DisableGeneralOptionsHandler: true,
		ErrorLog:                     slog.NewLogLogger(serverLog{g.log.Handler()}, slog.LevelWarn),
		// WriteTimeout and ReadTimeout are not set, because waiting for a job or
		// sending a large body may take long. Rolling deadlines replace them.
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams:          128,
			MaxReceiveBufferPerConnection: 256 << 10,
			MaxReceiveBufferPerStream:     128 << 10,
			SendPingTimeout:               15 * time.Second,
			PingTimeout:                   15 * time.Second,
			WriteByteTimeout:              g.times.Answer,
		},
	}
}

// serverLog receives the log of http.Server. Messages that any client can cause at
// will are logged at debug level only.
type serverLog struct{ slog.Handler }

// Handle passes on a record, at the appropriate level.
func (l serverLog) Handle(ctx context.Context, r slog.Record) error {
	for _, noise := range []string{"TLS handshake error", "http2: ", "Unsolicited response"} {
		if strings.Contains(r.Message, noise) {
			r.Level = slog.LevelDebug
		}
	}
	if !l.Enabled(ctx, r.Level) {
		return nil
	}
	return l.Handler.Handle(ctx, r)
}
