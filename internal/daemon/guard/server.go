package guard

import (
	"context"
	"log/slog"
	"net/http"
	"strings"
	"time"
)

// Server returns a server for a handler that Wrap or WrapProbes made, to serve a
// listener of Listen or ListenProbes. All its bounds are set.
func (g *Guard) Server(h http.Handler) *http.Server {
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: g.times.Header,
		IdleTimeout:       g.times.Idle,
		MaxHeaderBytes:    maxHeaderBytes,
		ConnState:         onState,
		ConnContext:       withConn,
		// OPTIONS * goes through the guard like all else.
		DisableGeneralOptionsHandler: true,
		ErrorLog:                     slog.NewLogLogger(serverLog{g.log.Handler()}, slog.LevelWarn),
		// There is no WriteTimeout, nor ReadTimeout: a job may be waited for, and a
		// large body take its time. Deadlines roll instead.
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

// serverLog takes what a server says of itself. What strangers can bring about as
// often as they like is for debugging only.
type serverLog struct{ slog.Handler }

// Handle passes on a record, at the level that it is worth.
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
