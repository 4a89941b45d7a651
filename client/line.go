package client

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"math"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// lines is a pool of connections for small requests. The caller's goroutine sends the
// request with one system call and reads the answer with another. net/http would pass
// the request to a writing goroutine and the answer back from a reading one, which
// roughly doubles the processor time. net/http handles everything else: TLS, large
// bodies, streams, and connections made by Config.Dial.
type lines struct {
	dial  func(ctx context.Context, network, address string) (net.Conn, error)
	to    string // host and port
	most  int    // maximum number of idle connections
	begin []byte // header bytes that each request begins with

	mu    sync.Mutex
	idle  []*line     // most recently used last; guarded by mu
	timer *time.Timer // closes connections idle for too long; nil while none is idle; guarded by mu
}

func (c *Client) newLines(dial func(ctx context.Context, network, address string) (net.Conn, error)) *lines {
	port := c.base.Port()
	if port == "" {
		port = "80"
	}
	var begin bytes.Buffer
	c.template.Header.Write(&begin) //nolint:errcheck // a buffer takes all
	return &lines{dial: dial, to: net.JoinHostPort(c.base.Hostname(), port), most: c.config.Connections, begin: begin.Bytes()}
}

// line is one connection. One goroutine uses it at a time.
type line struct {
	net.Conn

	in      *bufio.Reader
	left    int64 // bytes that may still be read
	since   time.Time
	reused  bool
	request []byte // buffer for the request, reused
}

const (
	longestIdle = 30 * time.Second
	// restsFor is how long a connection may have been idle to be reused without
	// checking whether the daemon has closed it.
	restsFor = time.Millisecond
)

// Read reads at most l.left bytes in total.
func (l *line) Read(p []byte) (int, error) {
	if l.left <= 0 {
		return 0, errors.New("the headers of the answer are too long")
	}
	n, err := l.Conn.Read(p[:min(int64(len(p)), l.left)])
	l.left -= int64(n)
	return n, err
}

// end closes a connection that is no longer usable.
func (l *line) end() { l.Close() } //nolint:errcheck // what was sent over it has been answered, or is lost

// take returns an idle connection, or makes one.
func (s *lines) take(ctx context.Context) (*line, error) {
	for {
		s.mu.Lock()
		n := len(s.idle)
		if n == 0 {
			s.mu.Unlock()
			break
		}
		l := s.idle[n-1]
		s.idle[n-1] = nil
		s.idle = s.idle[:n-1]
		s.mu.Unlock()
		if rested := time.Since(l.since); rested < restsFor || rested < longestIdle && quiet(l.Conn) {
			l.reused = true
			return l, nil
		}
		l.end()
	}
	conn, err := s.dial(ctx, "tcp", s.to)
	if err != nil {
		return nil, err
	}
	l := &line{Conn: conn}
	l.in = bufio.NewReaderSize(l, 4<<10)
	return l, nil
}

// give returns a connection to the pool.
func (s *lines) give(l *line) {
	const largest = 32 << 10
	if cap(l.request) > largest {
		l.request = nil
	}
	l.since = time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.idle) >= s.most {
		l.end()
		return
	}
	s.idle = append(s.idle, l)
	if s.timer == nil {
		s.timer = time.AfterFunc(longestIdle, s.prune)
	}
}

// prune closes connections that were idle for too long.
func (s *lines) prune() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.timer = nil
	old := 0
	for old < len(s.idle) && time.Since(s.idle[old].since) >= longestIdle {
		s.idle[old].end()
		old++
	}
	rest := copy(s.idle, s.idle[old:])
	clear(s.idle[rest:])
	if s.idle = s.idle[:rest]; rest > 0 {
		s.timer = time.AfterFunc(longestIdle, s.prune)
	}
}

// close closes all idle connections.
func (s *lines) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.timer != nil {
		s.timer.Stop()
		s.timer = nil
	}
	for _, l := range s.idle {
		l.end()
	}
	s.idle = nil
}

// fits reports whether a request can be sent over a line.
func (c *Client) fits(r *call) bool {
	return c.lines != nil && (r.body == nil || r.body.size <= copied)
}

// direct sends a request over a line and reads its answer.
func (c *Client) direct(ctx context.Context, r call, sent *sending) (*answer, error) {
	for {
		l, err := c.lines.take(ctx)
		if err != nil {
			return nil, err
		}
		if ctx.Err() != nil {
			l.end()
			return nil, context.Cause(ctx)
		}
		before := sent.begun.Swap(true)
		a, written, keep, err := c.over(ctx, l, r)
		if keep {
			c.lines.give(l)
		} else {
			l.end()
		}
		if err == nil || written || !l.reused || ctx.Err() != nil {
			return a, err
		}
		sent.begun.Store(before) // nothing was sent: the daemon had closed the connection
	}
}

// over sends a request over l and reads its answer. written reports that the daemon
// may have seen the request, keep that the connection can be reused.
func (c *Client) over(ctx context.Context, l *line, r call) (a *answer, written, keep bool, err error) {
	if ctx.Done() != nil {
		stop := context.AfterFunc(ctx, func() { l.SetDeadline(time.Unix(1, 0)) }) //nolint:errcheck // a connection that is closed needs no deadline
		defer func() { keep = stop() && keep }()
	}
	c.compose(l, &r)
	n, err := l.Write(l.request)
	if err != nil {
		return nil, n > 0, false, err
	}
	response, err := l.response()
	if err != nil {
		return nil, true, false, err
	}
	body, err := readBody(response, c.config.MaxResult)
	if err != nil {
		return nil, true, false, err
	}
	keep = !response.Close && l.in.Buffered() == 0
	return &answer{response.StatusCode, response.Header, body}, true, keep, nil
}

// response reads the status line and headers of an answer, and skips informational
// (1xx) ones.
func (l *line) response() (*http.Response, error) {
	for {
		l.left = mostHeader
		response, err := http.ReadResponse(l.in, nil)
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return nil, err
		}
		l.left = math.MaxInt64
		switch {
		case response.StatusCode == http.StatusSwitchingProtocols:
			return nil, errors.New("the daemon wants to switch protocols")
		case response.StatusCode >= http.StatusOK:
			return response, nil
		}
	}
}

// compose writes a request into the buffer of l.
func (c *Client) compose(l *line, r *call) {
	b := append(l.request[:0], r.method...)
	b = append(b, ' ')
	b = append(append(b, c.base.EscapedPath()...), r.path...)
	if r.query != "" {
		b = append(append(b, '?'), r.query...)
	}
	b = append(append(append(b, " HTTP/1.1\r\nHost: "...), c.base.Host...), "\r\n"...)
	if r.header == nil {
		b = append(b, c.lines.begin...)
	} else {
		text := bytes.NewBuffer(b)
		r.header.Write(text) //nolint:errcheck // a buffer takes all
		b = text.Bytes()
	}
	if r.body != nil {
		b = strconv.AppendInt(append(b, "Content-Length: "...), int64(r.body.size), 10)
		b = append(b, "\r\n"...)
	}
	b = append(b, "\r\n"...)
	if r.body != nil {
		b = r.body.appendTo(b)
	}
	l.request = b
}
