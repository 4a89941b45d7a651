package invoke

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/bullpen-run/bullpen/internal/daemon/access"
	"github.com/bullpen-run/bullpen/internal/daemon/sigv4"
)

// The headers, in canonical form.
const (
	headerKind    = "X-Amz-Invocation-Type"
	headerLog     = "X-Amz-Log-Type"
	headerContext = "X-Amz-Client-Context"
	headerRequest = "X-Amzn-Requestid"
	headerTrace   = "X-Amzn-Trace-Id"
	headerTry     = "Amz-Sdk-Invocation-Id"
	headerParent  = "Bullpen-Parent"
	headerTask    = "Bullpen-Task"
	headerJob     = "Bullpen-Job"
)

// mustSign are the headers that decide what an invocation does.
var mustSign = []string{headerKind, headerLog, headerContext}

// The types of invocations.
const (
	requestResponse = "RequestResponse"
	event           = "Event"
	dryRun          = "DryRun"
)

// The keys of a task's metadata. The protocol lambda hands them on to functions.
const (
	metaRequest = "lambda.request-id"
	metaARN     = "lambda.function-arn"
	metaContext = "lambda.client-context"
	metaTrace   = "lambda.trace-id"
)

const (
	mostContext = 3583 // bytes in base64, as AWS has it
	mostTrace   = 512
	mostTry     = 64
)

// invocation is a request to invoke a function.
type invocation struct {
	id       string
	streams  bool
	kind     string
	tail     bool
	name     name
	function Function
	payload  []byte
	meta     map[string]string
	key      string // of the job of an event
}

// newID returns a random UUID.
func newID() string {
	var b [16]byte
	rand.Read(b[:])
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// read reads and checks a request.
func (f *Front) read(r *http.Request, v *invocation) *fault {
	if bad := v.readKind(r); bad != nil {
		return bad
	}
	if bad := f.readPayload(r, v); bad != nil {
		return bad
	}
	if bad := f.readName(r, v); bad != nil {
		return bad
	}
	v.meta = map[string]string{metaRequest: v.id, metaARN: v.name.arn(f.config.Region, f.config.Account), "content-type": "application/json"}
	for _, of := range []struct{ header, key string }{{"Traceparent", "traceparent"}, {"Tracestate", "tracestate"}, {headerTrace, metaTrace}} {
		if s := r.Header.Get(of.header); s != "" && len(s) <= mostTrace {
			v.meta[of.key] = s
		}
	}
	// SDKs send the same number with each try of a call, so that an event whose answer
	// was lost is not stored twice.
	if try := r.Header.Get(headerTry); v.kind == event && isVisible(try) && len(try) <= mostTry {
		v.key = "lambda:" + try
	}
	return v.readContext(r)
}

func (v *invocation) readKind(r *http.Request) *fault {
	v.kind = r.Header.Get(headerKind)
	switch v.kind {
	case "":
		v.kind = requestResponse
	case requestResponse, dryRun:
	case event:
		if !v.streams {
			break
		}
		fallthrough
	default:
		return &fault{status: http.StatusBadRequest, kind: badValue, message: "The invocation type " + short(v.kind) + " is not possible here: use RequestResponse, Event (without response streaming) or DryRun."}
	}
	switch r.Header.Get(headerLog) {
	case "", "None":
	case "Tail":
		v.tail = true
	default:
		return &fault{status: http.StatusBadRequest, kind: badValue, message: "The log type must be None or Tail."}
	}
	return nil
}

// readPayload reads the body and checks the signature.
func (f *Front) readPayload(r *http.Request, v *invocation) *fault {
	var signed *sigv4.Request
	if f.config.Keys != nil {
		var bad *sigv4.Error
		if signed, bad = f.config.Keys.Begin(r, f.scope, time.Now(), mustSign); bad != nil {
			return signatureFault(bad)
		}
	}
	most := mostPayload
	if v.kind == event {
		most = f.config.MaxEvent
	}
	body, err := access.ReadBody(r, int64(most))
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return &fault{status: http.StatusRequestEntityTooLarge, kind: tooLarge, message: fmt.Sprintf("Request must be smaller than %d bytes for the InvokeFunction operation", large.Limit)}
	case err != nil:
		return &fault{status: http.StatusBadRequest, kind: badContent, message: "The body could not be read to its end (" + err.Error() + "): send it again."}
	}
	if signed != nil {
		if bad := signed.Check(body); bad != nil {
			return signatureFault(bad)
		}
	}
	if body = oneLine(bytes.TrimSpace(body)); body == nil {
		return &fault{status: http.StatusBadRequest, kind: badContent, message: "Could not parse request body into json: the payload must be JSON."}
	}
	v.payload = body
	return nil
}

// oneLine returns JSON without line feeds, so that workers that read lines can take it;
// nil if it is not JSON. No payload is an empty object, as with AWS.
func oneLine(text []byte) []byte {
	switch {
	case len(text) == 0:
		return []byte("{}")
	case bytes.IndexByte(text, '\n') < 0:
		if !json.Valid(text) {
			return nil
		}
		return text
	}
	var b bytes.Buffer
	if json.Compact(&b, text) != nil {
		return nil
	}
	return b.Bytes()
}

// readName finds the function.
func (f *Front) readName(r *http.Request, v *invocation) *fault {
	text := r.PathValue("function")
	n, ok := parseName(text)
	if !ok {
		return &fault{status: http.StatusBadRequest, kind: badValue, message: short(text) + " is not the name of a function: use the name of a pool, or an ARN."}
	}
	if !n.qualify(r.URL.Query().Get("Qualifier")) {
		return &fault{status: http.StatusBadRequest, kind: badValue, message: "The derived qualifier from the function name does not match the specified qualifier."}
	}
	v.name, ok = n, n.qualifier == "" || n.qualifier == latest
	ok = ok && (n.region == "" || f.config.Region == "" || n.region == f.config.Region)
	ok = ok && (n.account == "" || f.config.Account == "" || n.account == f.config.Account)
	if ok {
		v.function, ok = f.config.Backend.Function(n.function)
	}
	if ok {
		r.SetPathValue("pool", n.function) // for traces
	} else {
		return &fault{status: http.StatusNotFound, kind: notFound, message: "Function not found: " + n.arn(f.config.Region, f.config.Account)}
	}
	return nil
}

// readContext reads the client context, which only functions that are run at once get,
// as with AWS.
func (v *invocation) readContext(r *http.Request) *fault {
	text := r.Header.Get(headerContext)
	if text == "" || v.kind == event {
		return nil
	}
	context, err := base64.StdEncoding.DecodeString(text)
	if err != nil || len(text) > mostContext || !json.Valid(context) {
		return &fault{status: http.StatusBadRequest, kind: badContent, message: fmt.Sprintf("Client context must be a valid Base64-encoded JSON object of at most %d bytes.", mostContext)}
	}
	v.meta[metaContext] = string(context)
	return nil
}

// short returns a caller's value in the form in which faults quote it.
func short(s string) string {
	const most = 80
	if len(s) > most {
		return fmt.Sprintf("%q…", s[:most])
	}
	return fmt.Sprintf("%q", s)
}

// isVisible reports whether s has only visible ASCII characters, and any at all.
func isVisible(s string) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] > '~' {
			return false
		}
	}
	return s != ""
}
