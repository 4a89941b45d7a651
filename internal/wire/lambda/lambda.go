// Package lambda is the server of the AWS Lambda Runtime API for one worker: the side that
// AWS itself has. The runtime clients of AWS (Python, Node, Java, Go, Rust and others) and
// shell scripts with curl run against it unmodified.
//
// A worker asks for its next task with a GET that waits, here called a poll, and answers
// with a POST. Only a waiting poll shows that a worker is ready: one that has answered may
// still exit. See
// https://docs.aws.amazon.com/lambda/latest/dg/runtimes-api.html.
package lambda

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/bullpen-run/bullpen/internal/wire"
)

// Host receives what the worker does. Its methods are called from several goroutines, and
// never while a method of the Server runs.
type Host interface {
	// Polled is called when one more poll waits.
	Polled()
	// Dropped is called for an invocation that could not be written to the worker.
	Dropped(number uint32)
	// Answered is called once for each invocation that the worker has answered.
	Answered(inv *Invocation, a *Answer)
	// Failed is called when the worker reports that it could not start.
	Failed(f *wire.Failure)
	// Process returns the worker's process, 0 if there is none yet, and a channel that is
	// closed when it has ended.
	Process() (pid int, ended <-chan struct{})
}

// Invocation is one task on its way to the worker.
type Invocation struct {
	Number   uint32 // identifies it at this worker
	ID       string // request ID, a UUID; empty for a new one
	Payload  []byte
	Limit    int           // largest answer in bytes
	Chunk    func([]byte)  // receives a response that streams, piece by piece; nil to collect it
	Timeout  time.Duration // its time limit, 0 for none
	Deadline time.Time
	ARN      string // of the function as it was invoked
	Trace    string // trace header of X-Ray, or empty
	Client   string // client context as JSON, or empty
	Identity string // Cognito identity as JSON, or empty
}

// Answer is the answer to an invocation.
type Answer struct {
	Body    []byte
	Failure *wire.Failure // nil for a result
	Size    int           // of the body in bytes if it exceeds the limit, or the least that it may be; else 0
	Ran     time.Duration
	// Broken reports that the worker has asked for its next task instead of answering.
	Broken bool
	// Died reports that the process of the worker that had the invocation has died.
	Died bool
}

// Config configures a Server.
type Config struct {
	Host Host
	// Concurrency is how many tasks the worker runs at a time.
	Concurrency int
	// Admit returns an error for a connection that is not from the worker; nil admits all.
	Admit func(net.Conn) error
	// Listen opens the listener; nil means an unused port of the loopback interface.
	Listen func() (net.Listener, error)
}

// Server is the Runtime API of one worker.
type Server struct {
	config   Config
	listener net.Listener
	http     *http.Server
	handlers sync.WaitGroup // requests in progress
	free     chan struct{}  // an element for each open connection
	served   chan struct{}  // closed when the listener is no longer served

	mu       sync.Mutex
	polls    []*poll            // waiting, the longest first; guarded by mu
	flight   map[string]*flight // invocations without an answer, by request ID; guarded by mu
	released bool               // guarded by mu
	closed   bool               // guarded by mu
	extended bool               // an extension has registered; guarded by mu

	gone chan struct{} // closed by Release, with mu held
}

// poll is a request for the next invocation, which waits.
type poll struct {
	conn  *watched
	given chan *flight // capacity 1
}

// flight is an invocation that the worker has, or is about to get.
type flight struct {
	*Invocation

	id        string
	began     time.Time
	conn      *watched // on which it is handed over
	answering bool     // a request with its answer is being read; Server.mu guards it
}

// mostConnections bounds the connections of a worker. The clients need one for each task
// that they run at a time, or a few.
const mostConnections = 64

// New listens on a port of its own.
func New(c Config) (*Server, error) {
	if c.Listen == nil {
		c.Listen = func() (net.Listener, error) {
			return new(net.ListenConfig).Listen(context.Background(), "tcp4", "127.0.0.1:0")
		}
	}
	inner, err := c.Listen()
	if err != nil {
		return nil, fmt.Errorf("listening for the worker: %w", err)
	}
	s := &Server{
		config: c, listener: inner, free: make(chan struct{}, mostConnections+4*c.Concurrency), flight: map[string]*flight{}, gone: make(chan struct{}), served: make(chan struct{}),
	}
	s.http = &http.Server{
		ConnContext: remember, ConnState: s.watch, Handler: http.HandlerFunc(s.serve), ReadHeaderTimeout: 30 * time.Second, MaxHeaderBytes: 64 << 10,
		ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError), // a worker that breaks off is seen elsewhere
	}
	s.http.Protocols = new(http.Protocols)
	s.http.Protocols.SetHTTP1(true)
	// Ends when the listener is closed; Close waits for it.
	go func() {
		defer close(s.served)
		_ = s.http.Serve(&admitted{Listener: inner, admit: c.Admit, free: s.free})
	}()
	return s, nil
}

// Address returns the value of AWS_LAMBDA_RUNTIME_API.
func (s *Server) Address() string { return s.listener.Addr().String() }

// Waiting returns the number of polls that wait, and of invocations without an answer.
func (s *Server) Waiting() (polls, flight int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.polls), len(s.flight)
}

// Connected reports whether the worker has a connection.
func (s *Server) Connected() bool { return len(s.free) > 0 }

// Extended reports whether an extension has registered, which may need a moment to end.
func (s *Server) Extended() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.extended
}

// Offer gives inv to a waiting poll. It reports whether there was one, and does not wait.
func (s *Server) Offer(inv *Invocation) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.polls) == 0 || s.released {
		return false
	}
	p := s.polls[0]
	s.polls = slices.Delete(s.polls, 0, 1)
	id := inv.ID
	if !isID.MatchString(id) || s.flight[id] != nil {
		id = newID()
	}
	f := &flight{Invocation: inv, id: id, began: time.Now(), conn: p.conn}
	s.flight[id] = f
	p.given <- f
	return true
}

// Release closes the listener and the polls, at which every client exits.
func (s *Server) Release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.released {
		return
	}
	s.released = true
	close(s.gone)
	_ = s.listener.Close()
}

// Close ends the server when the worker has ended. It waits for answers that the worker
// has sent, at most that long, and returns the numbers of the invocations that the worker
// has not read.
func (s *Server) Close(grace time.Duration) (unread []uint32) {
	s.Release()
	<-s.served
	ctx, cancel := context.WithTimeout(context.Background(), grace)
	defer cancel()
	unread = s.unread(ctx)
	if s.http.Shutdown(ctx) != nil {
		_ = s.http.Close()
	}
	s.mu.Lock()
	s.closed = true // no request begins any more
	s.mu.Unlock()
	s.handlers.Wait()
	return unread
}

// unread returns the numbers of the invocations whose connections the worker has left
// before it had read them.
func (s *Server) unread(ctx context.Context) (all []uint32) {
	var left []*flight
	s.mu.Lock()
	for _, f := range s.flight {
		if !f.answering && f.conn != nil {
			left = append(left, f)
		}
	}
	s.mu.Unlock()
	for _, f := range left {
		select {
		case <-f.conn.ended:
			if f.conn.reset {
				all = append(all, f.Number)
			}
		case <-ctx.Done():
		}
	}
	return all
}

// isID matches a request ID that clients accept as part of a path.
var isID = regexp.MustCompile(`^[0-9A-Za-z-]{1,64}$`)

// newID returns a request ID in the form of a UUID. It cannot be guessed.
func newID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	var id [36]byte
	hex.Encode(id[:8], b[:4])
	hex.Encode(id[9:13], b[4:6])
	hex.Encode(id[14:18], b[6:8])
	hex.Encode(id[19:23], b[8:10])
	hex.Encode(id[24:], b[10:])
	id[8], id[13], id[18], id[23] = '-', '-', '-', '-'
	return string(id[:])
}

// next answers GET /runtime/invocation/next, as soon as there is an invocation.
func (s *Server) next(w http.ResponseWriter, r *http.Request) {
	conn, _ := r.Context().Value(connection{}).(*watched)
	p := &poll{conn: conn, given: make(chan *flight, 1)}
	s.identify(conn)
	s.mu.Lock()
	if s.released {
		s.mu.Unlock()
		panic(http.ErrAbortHandler)
	}
	broken := s.abandonedLocked()
	s.polls = append(s.polls, p)
	s.mu.Unlock()
	for _, f := range broken {
		s.config.Host.Answered(f.Invocation, &Answer{Broken: true, Ran: time.Since(f.began)})
	}
	s.config.Host.Polled()
	select {
	case f := <-p.given:
		if !conn.over() {
			s.hand(w, f)
			return
		}
		s.drop(f)
		panic(http.ErrAbortHandler)
	case <-r.Context().Done():
	case <-s.gone: // a client takes a closed poll for the request to exit
	}
	if f := s.withdraw(p); f != nil {
		s.drop(f)
	}
	panic(http.ErrAbortHandler)
}

// abandonedLocked returns the invocations that a worker with one task at a time cannot
// answer any more, as it asks for the next one. Server.mu is held.
func (s *Server) abandonedLocked() (all []*flight) {
	if s.config.Concurrency > 1 {
		return nil
	}
	for id, f := range s.flight {
		if !f.answering {
			delete(s.flight, id)
			all = append(all, f)
		}
	}
	return all
}

// withdraw removes a poll. If it has been given an invocation, withdraw returns that.
func (s *Server) withdraw(p *poll) *flight {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := slices.Index(s.polls, p); i >= 0 {
		s.polls = slices.Delete(s.polls, i, i+1)
		return nil
	}
	return <-p.given // Offer put it there when it removed the poll
}

// hand writes an invocation to the worker.
func (s *Server) hand(w http.ResponseWriter, f *flight) {
	inv := f.Invocation
	h := w.Header()
	h["Content-Type"] = contentJSON
	h["Content-Length"] = []string{strconv.Itoa(len(inv.Payload))}
	h["Lambda-Runtime-Aws-Request-Id"] = []string{f.id}
	h["Lambda-Runtime-Deadline-Ms"] = []string{strconv.FormatInt(inv.Deadline.UnixMilli(), 10)}
	h["Lambda-Runtime-Invoked-Function-Arn"] = []string{inv.ARN}
	optional := func(name, value string) {
		if value != "" {
			h[name] = []string{value}
		}
	}
	optional("Lambda-Runtime-Trace-Id", inv.Trace)
	optional("Lambda-Runtime-Client-Context", inv.Client)
	optional("Lambda-Runtime-Cognito-Identity", inv.Identity)
	_, err := w.Write(inv.Payload)
	if err == nil {
		err = http.NewResponseController(w).Flush()
	}
	if err != nil { // written in part; else the worker may have begun
		s.drop(f)
		panic(http.ErrAbortHandler)
	}
}

// drop reports an invocation that the worker has not got.
func (s *Server) drop(f *flight) {
	if s.end(f) {
		s.config.Host.Dropped(f.Number)
	}
}

var contentJSON = []string{"application/json"}
