// Package client talks to a Bullpen daemon over its HTTP API: it enqueues durable
// jobs, waits for their results, follows what they say while they run, and looks
// after pools and dead jobs. [Client.Executor] makes a pool of the daemon a
// [bullpen.Executor], so that code which ran its tasks in its own process runs
// them in the daemon's workers.
//
//	c, err := client.New(client.Config{URL: "http://127.0.0.1:8650"})
//	ref, err := c.Enqueue(ctx, "thumbnails", client.Job{Payload: picture, Key: name})
//	result, err := c.Wait(ctx, ref.ID)
//
// # Errors
//
// A job that ended otherwise than well gives an [*EndError], which wraps the
// [*bullpen.TaskError] of its last attempt. Everything else that the daemon says
// no to is an [*Error]; errors.Is tells its cause: [ErrNotFound], [ErrEnded],
// [ErrUnauthorized] and the others of this package, and where a task never started
// the reasons of package bullpen ([bullpen.ErrClosed], [bullpen.ErrOverloaded],
// [bullpen.ErrUnknownTask], [bullpen.ErrRefused], [bullpen.ErrStart]).
//
// [ErrUnreachable] says that the daemon was never asked: no connection was made.
// [ErrUnconfirmed] says that it was asked and that its answer is not known: a job
// may have been enqueued or not. A [Job] with a Key is then given again until there
// is an answer, for the daemon takes a key once; see [Config.Keys].
//
// # Trying again
//
// What certainly did not happen (no connection was made, or the daemon said that
// it is overloaded or stopping) is tried again up to [Config.Retries] times, after
// the time that the daemon names, within the caller's context. The same holds for
// broken connections where asking twice is the same as asking once.
//
// The package imports the standard library and package bullpen only, and reads no
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

// Client asks one daemon. It is safe for concurrent use; make one and share it,
// for it keeps connections.
type Client struct {
	config    Config
	base      *url.URL
	transport *http.Transport
	template  *http.Request
	lines     *lines // nil where net/http does all
	log       *slog.Logger
}

// New returns a client. It connects to nobody; faults of c are reported all at
// once.
func New(c Config) (*Client, error) {
	c = c.withDefaults()
	base, err := c.check()
	if err != nil {
		return nil, err
	}
	dialer := &net.Dialer{
		Timeout: c.ConnectTimeout,
		// A host that is gone is noticed within half a minute, also while a long
		// task runs and nothing travels.
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
		IdleConnTimeout:        30 * time.Second, // less than the daemon's, so that it is not the one who closes
		MaxResponseHeaderBytes: mostHeader,
		// One request on one connection at a time: a slow body holds up no other.
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

// newTemplate is the request that all others are copies of. Its header is shared
// by those that add none of their own.
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

// acceptAny wants a result as it is, and a problem where there is one.
const acceptAny = "*/*"

// mostHeader bounds the headers of an answer.
const mostHeader = 256 << 10

// Close closes the connections that are not in use. Calls under way go on.
func (c *Client) Close() {
	c.transport.CloseIdleConnections()
	if c.lines != nil {
		c.lines.close()
	}
}
