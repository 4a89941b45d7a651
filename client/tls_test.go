package client_test

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/bullpen-run/bullpen/client"
	"github.com/bullpen-run/bullpen/job"
)

func TestTLS(t *testing.T) {
	t.Parallel()
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, r.Header.Get("Authorization"))
	}))
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError) // of handshakes that are to fail
	server.StartTLS()
	t.Cleanup(server.Close)
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	c := connect(t, client.Config{URL: server.URL, Token: "secret", TLS: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS13}})
	if p, err := c.Payload(t.Context(), "01J"); err != nil || string(p) != "Bearer secret" {
		t.Errorf("Payload() = %q, %v", p, err)
	}
	begun := time.Now()
	stranger := connect(t, client.Config{URL: server.URL, Retries: 30})
	_, err := stranger.Enqueue(t.Context(), job.Job{Queue: "p"})
	if !errors.Is(err, client.ErrUnreachable) || errors.Is(err, job.ErrUnconfirmed) {
		t.Errorf("with a daemon that is not trusted Enqueue gives %v, want ErrUnreachable", err)
	}
	if took := time.Since(begun); took > 20*time.Second {
		t.Errorf("it took %v: trying again makes nobody trusted", took)
	}
}
