package client

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"strings"
	"time"
)

// DefaultURL is the address of a daemon with default settings.
const DefaultURL = "http://127.0.0.1:8650"

// Config configures a Client. The zero value connects to the daemon on this machine.
type Config struct {
	// URL is the daemon's address: scheme, host, port, and the path prefix if a proxy
	// adds one. Default [DefaultURL].
	URL string
	// Token is the bearer token; empty sends none. New refuses a token for an address
	// other than loopback without https, unless PlainToken is set.
	Token string
	// PlainToken allows Token to be sent to another machine without TLS, where it can
	// be read on the way.
	PlainToken bool
	// TLS configures https, for example root certificates or a client certificate.
	// Nil uses the system's root certificates.
	TLS *tls.Config
	// Dial replaces the default dialer, for example to connect to a Unix socket. With
	// https, the TLS handshake runs over the returned connection.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// ConnectTimeout bounds connecting, and the TLS handshake. Default 5 s.
	ConnectTimeout time.Duration
	// Timeout bounds a call that does not wait for a job. For one that does, it
	// bounds the time from the end of the wait to the answer. Default 30 s.
	Timeout time.Duration
	// Wait is how long one request waits for the end of a job before it is replaced
	// by the next. Default 5 min; the daemon may shorten it.
	Wait time.Duration
	// Retries is how often a call is retried, where that is safe. Default 5, which
	// takes about 5 s if the daemon does not answer; -1 disables retries.
	Retries int
	// Keys gives each job without a Key a random one, so that enqueuing it can be
	// retried after a broken connection. It costs one more message to the store for
	// each job.
	Keys bool
	// MaxResult bounds the size of each answer, in bytes. Default 64 MiB.
	MaxResult int64
	// Connections is the maximum number of idle connections kept. Default 128.
	Connections int
	// Logger logs retries. Nil logs nothing.
	Logger *slog.Logger
}

func (c Config) withDefaults() Config {
	c.URL = cmp.Or(c.URL, DefaultURL)
	c.ConnectTimeout = cmp.Or(c.ConnectTimeout, 5*time.Second)
	c.Timeout = cmp.Or(c.Timeout, 30*time.Second)
	c.Wait = cmp.Or(c.Wait, 5*time.Minute)
	c.Retries = cmp.Or(c.Retries, 5)
	c.MaxResult = cmp.Or(c.MaxResult, 64<<20)
	c.Connections = cmp.Or(c.Connections, 128)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

// check returns all faults of c in one error.
func (c Config) check() (*url.URL, error) {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	base, err := url.Parse(c.URL)
	switch {
	case err != nil:
		fault("URL is not valid: %w; use one such as %s", err, DefaultURL)
	case base.Scheme != "http" && base.Scheme != "https" || base.Host == "":
		fault("URL is %q: use http:// or https:// and a host, such as %s", c.URL, DefaultURL)
	case base.RawQuery != "" || base.Fragment != "" || base.User != nil:
		fault("URL %q has a query, a fragment or a user: use only scheme, host, port and path, and Token for the credentials", base.Redacted())
	case c.Token != "" && base.Scheme == "http" && !c.PlainToken && !loopback(base.Hostname()):
		fault("Token would be sent to %s without TLS: use https, or set PlainToken if the network can be trusted", base.Host)
	}
	if strings.ContainsFunc(c.Token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		fault("Token has spaces or characters that are not ASCII: use it as it stands in the tokens file, without the line feed")
	}
	for name, d := range map[string]time.Duration{"ConnectTimeout": c.ConnectTimeout, "Timeout": c.Timeout, "Wait": c.Wait} {
		if d < 0 {
			fault("%s is %v: use a positive duration, or 0 for the default", name, d)
		}
	}
	if c.Retries < -1 {
		fault("Retries is %d: use a positive number, 0 for the default or -1 for none", c.Retries)
	}
	if c.MaxResult < 0 || c.Connections < 0 {
		fault("MaxResult is %d and Connections %d: use positive numbers, or 0 for the defaults", c.MaxResult, c.Connections)
	}
	if err := errors.Join(faults...); err != nil {
		return nil, fmt.Errorf("configuration of the client: %w", err)
	}
	base.Path, base.RawPath = strings.TrimRight(base.Path, "/"), ""
	return base, nil
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
