package api

import (
	"net"
	"net/http"
	"os"
	"testing"
	"time"
)

// TestServe serves an API with some jobs on the address that BULLPEN_SERVE names,
// for a tool that tests it from docs/openapi.yaml, until the file that
// BULLPEN_SERVE_UNTIL names is there.
func TestServe(t *testing.T) {
	address, until := os.Getenv("BULLPEN_SERVE"), os.Getenv("BULLPEN_SERVE_UNTIL")
	if address == "" {
		t.Skip("BULLPEN_SERVE names no address: this is for a tool that asks over the network")
	}
	s := newSite(t, func(c *Config) { c.MaxWait = 50 * time.Millisecond })
	for range 20 {
		s.dead("evidence")
		s.ended(s.submit("", "x"))
		s.submit("delay=1h", "later")
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: s.api.Handler(), ReadHeaderTimeout: time.Second}
	go func() { // ends with server, which the test closes
		server.Serve(listener) //nolint:errcheck // it ends with Close
	}()
	defer server.Close() // nothing is left to be said
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	for range ticker.C {
		if _, err := os.Stat(until); err == nil || t.Context().Err() != nil {
			return
		}
	}
}
