package lambda

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/bullpen-run/bullpen/internal/wire"
)

// serve routes a request.
func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		panic(http.ErrAbortHandler)
	}
	s.handlers.Add(1)
	s.mu.Unlock()
	defer s.handlers.Done()
	path, ok := strings.CutPrefix(r.URL.Path, "/2018-06-01/runtime/")
	if !ok {
		s.extension(w, r)
		return
	}
	id, ok := strings.CutPrefix(path, "invocation/")
	switch {
	case path == "init/error" && r.Method == http.MethodPost:
		s.initError(w, r)
	case !ok:
		http.NotFound(w, r) // restore/next among them: there are no snapshots
	case id == "next" && r.Method == http.MethodGet:
		s.next(w, r)
	case r.Method != http.MethodPost:
		http.NotFound(w, r)
	default:
		id, what, _ := strings.Cut(id, "/")
		switch what {
		case "response":
			s.response(w, r, id)
		case "error":
			s.error(w, r, id)
		default:
			http.NotFound(w, r)
		}
	}
}

// extension answers the calls of extensions, which runtime clients make to learn of the
// end. They learn of it by a signal.
func (s *Server) extension(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.URL.Path == "/2020-01-01/extension/register" && r.Method == http.MethodPost:
		s.mu.Lock()
		s.extended = true
		s.mu.Unlock()
		w.Header().Set("Lambda-Extension-Identifier", newID())
		reply(w, http.StatusOK, `{"functionName":"function","functionVersion":"$LATEST","handler":"handler"}`)
	case r.URL.Path == "/2020-01-01/extension/event/next" && r.Method == http.MethodGet:
		select {
		case <-r.Context().Done():
		case <-s.gone:
		}
		panic(http.ErrAbortHandler)
	default:
		http.NotFound(w, r)
	}
}

// mostError bounds the body of an error, and what is read of a result beyond its bound so
// that the worker reads the reply.
const mostError = 1 << 20

// response takes a result.
func (s *Server) response(w http.ResponseWriter, r *http.Request, id string) {
	f := s.begin(id)
	if f == nil {
		unknown(w)
		return
	}
	streams := f.Chunk != nil && isStream(r)
	var body []byte
	var size int
	var err error
	if streams {
		size, err = wire.CopyChunks(f.Chunk, r.Body, f.Limit)
	} else {
		body, size, err = readBody(r, f.Limit)
	}
	if err != nil && !streams {
		s.resume(f)
		panic(http.ErrAbortHandler) // the worker has broken off: it may answer once more, or has died
	}
	a := &Answer{Body: body, Ran: time.Since(f.began)}
	status, text := http.StatusAccepted, accepted
	if err != nil { // pieces have gone to the caller, so there is no second answer
		a.Failure = &wire.Failure{Type: "Runtime.TruncatedResponse", Message: "the response ended early: " + err.Error()}
	} else if size > f.Limit {
		_, _ = io.CopyN(io.Discard, r.Body, mostError)
		a.Size = size
		status, text = http.StatusRequestEntityTooLarge, fmt.Sprintf(tooLarge, f.Limit)
	} else if kind := r.Trailer.Get(headerErrorType); kind != "" {
		text, _ := base64.StdEncoding.DecodeString(r.Trailer.Get("Lambda-Runtime-Function-Error-Body")) // the type says enough
		a.Body, a.Failure = nil, ParseFailure(text, kind)
	}
	s.answer(f, a)
	reply(w, status, text)
}

// isStream reports whether a function streams its response. Node says so. Go sends every
// response in chunks, and JSON when it is whole.
func isStream(r *http.Request) bool {
	if r.Header.Get("Lambda-Runtime-Function-Response-Mode") == "streaming" {
		return true
	}
	return r.ContentLength < 0 && r.Header.Get("Content-Type") == "application/octet-stream"
}

// error takes an error.
func (s *Server) error(w http.ResponseWriter, r *http.Request, id string) {
	f := s.begin(id)
	if f == nil {
		unknown(w)
		return
	}
	body, _, err := readBody(r, mostError)
	if err != nil {
		s.resume(f)
		panic(http.ErrAbortHandler)
	}
	s.answer(f, &Answer{Failure: ParseFailure(body, r.Header.Get(headerErrorType)), Ran: time.Since(f.began)})
	reply(w, http.StatusAccepted, accepted)
}

// answer passes a on. The caller has begun to answer f.
func (s *Server) answer(f *flight, a *Answer) {
	if s.end(f) {
		s.config.Host.Answered(f.Invocation, a)
	}
}

// initError takes the error of a worker that could not start.
func (s *Server) initError(w http.ResponseWriter, r *http.Request) {
	body, _, err := readBody(r, mostError)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	s.config.Host.Failed(ParseFailure(body, r.Header.Get(headerErrorType)))
	reply(w, http.StatusAccepted, accepted)
}

const (
	headerErrorType = "Lambda-Runtime-Function-Error-Type"
	accepted        = `{"status":"OK"}`
	tooLarge        = `{"errorMessage":"Exceeded maximum allowed payload size (%d bytes).","errorType":"Function.ResponseSizeTooLarge"}`
)

// begin returns the invocation with that ID, whose answer is about to be read. It returns
// nil for an unknown ID, and for an invocation that another request answers.
func (s *Server) begin(id string) *flight {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.flight[id]
	if f == nil || f.answering {
		return nil
	}
	f.answering = true
	return f
}

// resume undoes begin.
func (s *Server) resume(f *flight) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f.answering = false
}

// end removes f, and reports whether it was still without an answer.
func (s *Server) end(f *flight) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	had := s.flight[f.id] == f
	delete(s.flight, f.id)
	return had
}

// readBody reads a body of at most limit bytes. It returns no body but the size, or the
// least that it may be, of one that is longer.
func readBody(r *http.Request, limit int) (body []byte, size int, err error) {
	const trust = 1 << 20 // a false length reserves no more memory than this
	if r.ContentLength > int64(limit) {
		return nil, int(r.ContentLength), nil
	}
	var b bytes.Buffer
	b.Grow(int(min(max(r.ContentLength, 0), trust)) + bytes.MinRead)
	if _, err = b.ReadFrom(io.LimitReader(r.Body, int64(limit)+1)); err != nil {
		return nil, 0, err
	}
	if b.Len() > limit {
		return nil, b.Len(), nil
	}
	return b.Bytes(), b.Len(), nil
}

// reply writes JSON.
func reply(w http.ResponseWriter, status int, text string) {
	h := w.Header()
	h["Content-Type"] = contentJSON
	h["Content-Length"] = []string{strconv.Itoa(len(text))}
	w.WriteHeader(status)
	_, _ = io.WriteString(w, text)
}

// unknown answers a request about an invocation that the worker does not have.
func unknown(w http.ResponseWriter) {
	reply(w, http.StatusBadRequest, `{"errorMessage":"The worker has no invocation with this request ID, or has answered it.","errorType":"InvalidRequestID"}`)
}
