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

// DefaultURL is where a daemon without configuration listens.
const DefaultURL = "http://127.0.0.1:8650"

// Config is what a client has to know. The zero value asks the daemon of this
// machine.
type Config struct {
	// URL is where the daemon listens: scheme, host, port, and a path where a proxy
	// puts the API below one. Default [DefaultURL].
	URL string
	// Token is the bearer token; empty sends none. Beyond loopback it travels by
	// https only, or New refuses it; see PlainToken.
	Token string
	// PlainToken lets Token travel without TLS to another machine, where it can be
	// read on the way.
	PlainToken bool
	// TLS is for https: root certificates, a certificate of the client's own. Nil
	// trusts what the system trusts.
	TLS *tls.Config
	// Dial makes the connections instead of this package, for example to a Unix
	// socket. The TLS handshake is done on what it returns.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// ConnectTimeout bounds the making of a connection, and the TLS handshake.
	// Default 5 s.
	ConnectTimeout time.Duration
	// Timeout bounds a call that waits for no job, and how long after the end of
	// a wait the answer may take. Default 30 s.
	Timeout time.Duration
	// Wait is how long one request waits for the end of a job before the next one
	// goes on waiting. Default 5 min; the daemon may cut it.
	Wait time.Duration
	// Retries is how often a call is tried again, where that is safe. Default 5,
	// which takes about 5 s while nobody answers; -1 is never.
	Retries int
	// Keys gives each job without a Key one of its own, so that enqueuing it can be
	// tried again after a broken connection. It costs the store one message more
	// for each job.
	Keys bool
	// MaxResult bounds each answer in bytes. Default 64 MiB.
	MaxResult int64
	// Connections is how many idle connections are kept. Default 128.
	Connections int
	// Logger is told of calls that are tried again. Nil logs nothing.
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

// check reports every fault at once.
func (c Config) check() (*url.URL, error) {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	base, err := url.Parse(c.URL)
	switch {
	case err != nil:
		fault("URL is not one: %w; use one such as %s", err, DefaultURL)
	case base.Scheme != "http" && base.Scheme != "https" || base.Host == "":
		fault("URL is %q: use http:// or https:// and a host, such as %s", c.URL, DefaultURL)
	case base.RawQuery != "" || base.Fragment != "" || base.User != nil:
		fault("URL %q has a query, a fragment or a user: use scheme, host, port and path only, and Token for who asks", base.Redacted())
	case c.Token != "" && base.Scheme == "http" && !c.PlainToken && !loopback(base.Hostname()):
		fault("Token would travel to %s without TLS: use https, or set PlainToken if nobody can listen on the way", base.Host)
	}
	if strings.ContainsFunc(c.Token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		fault("Token has blanks or characters beyond ASCII: use it as the tokens file has it, without the line feed")
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
