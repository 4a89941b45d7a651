// Package client is a client for the HTTP API of a Bullpen daemon. It enqueues
// durable jobs, waits for their results, follows their progress and output, and
// manages pools and dead jobs. [Client.Executor] makes a pool of the daemon a
// [bullpen.Executor], so code that ran tasks in its own process can run them in the
// daemon's workers instead.
//
//	c, err := client.New(client.Config{URL: "http://127.0.0.1:8650"})
//	ref, err := c.Enqueue(ctx, "thumbnails", client.Job{Payload: picture, Key: name})
//	result, err := c.Wait(ctx, ref.ID)
//
// # Errors
//
// A job that did not end well yields an [*EndError], which wraps the
// [*bullpen.TaskError] of its last attempt. Every other failure of a call is an
// [*Error]. Use errors.Is to test for its cause: [ErrNotFound], [ErrEnded],
// [ErrUnauthorized] and the others of this package, and, for a task that never
// started, the reasons of package bullpen ([bullpen.ErrClosed],
// [bullpen.ErrOverloaded], [bullpen.ErrUnknownTask], [bullpen.ErrRefused],
// [bullpen.ErrStart]).
//
// [ErrUnreachable] means that no connection was made, so the daemon never saw the
// request. [ErrUnconfirmed] means that the request was sent but its answer is not
// known: a job may or may not have been enqueued. A [Job] with a Key is sent again
// until there is an answer, because the daemon accepts a key only once; see
// [Config.Keys].
//
// # Retries
//
// A call that certainly had no effect (no connection was made, or the daemon answered
// that it is overloaded or stopping) is retried up to [Config.Retries] times, after
// the delay that the daemon asks for, within the caller's context. Calls that are
// safe to repeat are also retried after a broken connection.
//
// The package imports only the standard library and package bullpen, and reads no
// environment variables.
package client

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"time"
)

// Client is a client of one daemon. It is safe for concurrent use. It keeps
// connections, so create one and share it.
type Client struct {
	config    Config
	base      *url.URL
	transport *http.Transport
	template  *http.Request
	lines     *lines // nil if net/http handles all requests
	log       *slog.Logger
}

// New returns a client. It does not connect. The error lists all faults of c.
func New(c Config) (*Client, error) {
	c = c.withDefaults()
	base, err := c.check()
	if err != nil {
		return nil, err
	}
	dialer := &net.Dialer{
		Timeout: c.ConnectTimeout,
		// Detects a dead host within half a minute, even while a long task runs and
		// nothing is sent.
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 5 * time.Second, Count: 3},
	}
	dial := c.Dial
	if dial == nil {
		dial = dialer.DialContext
	}
	client := &Client{config: c, base: base, log: c.Logger}
	client.transport = &http.Transport{
		DialContext:            dial,
		TLSClientConfig:        c.TLS.Clone(),
		TLSHandshakeTimeout:    c.ConnectTimeout,
		DisableCompression:     true,
		MaxIdleConns:           c.Connections,
		MaxIdleConnsPerHost:    c.Connections,
		IdleConnTimeout:        30 * time.Second, // shorter than the daemon's, so that the daemon does not close first
		MaxResponseHeaderBytes: mostHeader,
		// HTTP/2 would share one connection: a slow body would hold up other
		// requests.
		Protocols: onlyHTTP1(),
	}
	client.template = client.newTemplate()
	if hasLines && c.Dial == nil && base.Scheme == "http" {
		client.lines = client.newLines(dial)
	}
	return client, nil
}

func onlyHTTP1() *http.Protocols {
	p := new(http.Protocols)
	p.SetHTTP1(true)
	return p
}

// newTemplate returns the request that all others are copies of. Requests without
// headers of their own share its header.
func (c *Client) newTemplate() *http.Request {
	header := http.Header{"User-Agent": {"bullpen-go"}, "Accept": {acceptAny}}
	if c.config.Token != "" {
		header["Authorization"] = []string{"Bearer " + c.config.Token}
	}
	request := &http.Request{
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Host: c.base.Host, URL: c.base, Header: header,
	}
	return request.WithContext(context.Background())
}

// acceptAny accepts a result of any content type, or a problem.
const acceptAny = "*/*"

// mostHeader bounds the headers of an answer, in bytes.
const mostHeader = 256 << 10

// Close closes idle connections. Calls in progress continue.
func (c *Client) Close() {
	c.transport.CloseIdleConnections()
	if c.lines != nil {
		c.lines.close()
	}
}
