package sigv4

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
)

// Error is why a request is not accepted, in the words of AWS.
type Error struct {
	Status  int
	Type    string // such as InvalidSignatureException
	Message string
}

func (e *Error) Error() string { return e.Type + ": " + e.Message }

func refuse(kind, format string, args ...any) *Error {
	status := http.StatusForbidden
	if kind == incomplete {
		status = http.StatusBadRequest
	}
	return &Error{status, kind, fmt.Sprintf(format, args...)}
}

// The types of errors.
const (
	missing    = "MissingAuthenticationTokenException"
	incomplete = "IncompleteSignatureException"
	unknown    = "UnrecognizedClientException"
	invalid    = "InvalidSignatureException"
)

const (
	algorithm = "AWS4-HMAC-SHA256"
	suffix    = "aws4_request"
	stamp     = "20060102T150405Z"
	// skew is how far the clocks of caller and daemon may differ.
	skew = 5 * time.Minute
	// mostHeader bounds the header Authorization.
	mostHeader = 8 << 10
)

// Scope is what the signatures must be for. An empty Region accepts all.
type Scope struct{ Region, Service string }

// authorization is a parsed header Authorization.
type authorization struct {
	key, date, region, service string
	signed                     []string // names of the signed headers: sorted, in lower case
	signature                  []byte
}

// parseHeader parses the header Authorization.
func parseHeader(header string) (authorization, *Error) {
	var a authorization
	rest, found := strings.CutPrefix(header, algorithm)
	if !found || rest != "" && rest[0] != ' ' || len(header) > mostHeader {
		return a, refuse(incomplete, "The header Authorization must begin with %s and have at most %d bytes.", algorithm, mostHeader)
	}
	parts := map[string]string{}
	for part := range strings.SplitSeq(rest, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		if _, twice := parts[name]; twice {
			return a, refuse(incomplete, "Authorization header has a parameter twice.")
		}
		parts[name] = value
	}
	for _, name := range []string{"Credential", "Signature", "SignedHeaders"} {
		if parts[name] == "" {
			return a, refuse(incomplete, "Authorization header requires '%s' parameter.", name)
		}
	}
	scope := strings.Split(parts["Credential"], "/")
	if len(scope) != 5 || slices.Contains(scope, "") || scope[4] != suffix {
		return a, refuse(incomplete, "Credential must have the form KEY/DATE/REGION/SERVICE/%s.", suffix)
	}
	a.key, a.date, a.region, a.service = scope[0], scope[1], scope[2], scope[3]
	a.signed = strings.Split(parts["SignedHeaders"], ";")
	if !slices.IsSorted(a.signed) || slices.ContainsFunc(a.signed, func(s string) bool { return s == "" || s != strings.ToLower(s) }) {
		return a, refuse(incomplete, "SignedHeaders must be sorted names in lower case.")
	}
	var err error
	if a.signature, err = hex.DecodeString(parts["Signature"]); err != nil || len(a.signature) != sha256.Size {
		return a, refuse(incomplete, "Signature must have %d hexadecimal digits.", 2*sha256.Size)
	}
	return a, nil
}

// Request is a request whose signature is yet to be checked, because its body has not
// been read.
type Request struct {
	authorization

	request *http.Request
	secret  string
	at      string // when it was signed
}

// Begin checks what can be checked before the body is read. mustSign are headers, in
// canonical form, that have to be signed if they are sent.
func (k *Keys) Begin(r *http.Request, of Scope, now time.Time, mustSign []string) (*Request, *Error) {
	header := r.Header["Authorization"]
	if len(header) == 0 {
		return nil, refuse(missing, "Missing Authentication Token")
	}
	if len(header) > 1 {
		return nil, refuse(incomplete, "There is more than one header Authorization.")
	}
	a, fault := parseHeader(header[0])
	if fault != nil {
		return nil, fault
	}
	s := &Request{authorization: a, request: r}
	if s.secret = (*k.secrets.Load())[a.key]; s.secret == "" {
		return nil, refuse(unknown, "The security token included in the request is invalid.")
	}
	if a.service != of.Service {
		return nil, refuse(invalid, "Credential should be scoped to correct service: '%s'. ", of.Service)
	}
	if of.Region != "" && a.region != of.Region {
		return nil, refuse(invalid, "Credential should be scoped to a valid region: '%s'. ", of.Region)
	}
	if !slices.Contains(a.signed, "host") {
		return nil, refuse(invalid, "The header Host must be signed.")
	}
	for _, name := range mustSign {
		if _, there := r.Header[name]; there && !slices.Contains(a.signed, strings.ToLower(name)) {
			return nil, refuse(invalid, "The header %s must be signed.", name)
		}
	}
	return s, s.checkTime(now)
}

// checkTime checks when the request was signed.
func (s *Request) checkTime(now time.Time) *Error {
	name, layout := "X-Amz-Date", stamp
	text := s.request.Header.Get(name)
	if text == "" {
		name, layout = "Date", http.TimeFormat
		text = s.request.Header.Get(name)
	}
	at, err := time.Parse(layout, text)
	if err != nil || !slices.Contains(s.signed, strings.ToLower(name)) {
		return refuse(incomplete, "Authorization header requires existence of either a signed 'X-Amz-Date' or a signed 'Date' header.")
	}
	s.at = at.UTC().Format(stamp)
	if s.at[:8] != s.date {
		return refuse(invalid, "Date in Credential scope does not match YYYYMMDD from ISO-8601 version of date from HTTP: '%s' != '%s'.", s.date, s.at[:8])
	}
	switch first, last := now.Add(-skew), now.Add(skew); {
	case at.Before(first):
		return refuse(invalid, "Signature expired: %s is now earlier than %s (%s - 5 min.)", s.at, first.UTC().Format(stamp), now.UTC().Format(stamp))
	case at.After(last):
		return refuse(invalid, "Signature not yet current: %s is still later than %s (%s + 5 min.)", s.at, last.UTC().Format(stamp), now.UTC().Format(stamp))
	}
	return nil
}

// Check checks the signature, with the whole body.
func (s *Request) Check(body []byte) *Error {
	want := s.sign(sha256.Sum256(body))
	if !hmac.Equal(want, s.signature) {
		return refuse(invalid, "The request signature we calculated does not match the signature you provided. Check your AWS Secret Access Key and signing method. Consult the service documentation for details.")
	}
	return nil
}

// sign returns the signature that the request should have.
func (s *Request) sign(body [sha256.Size]byte) []byte {
	canonical := sha256.Sum256(s.canonical(body))
	scope := s.date + "/" + s.region + "/" + s.service + "/" + suffix
	text := algorithm + "\n" + s.at + "\n" + scope + "\n" + hex.EncodeToString(canonical[:])
	key := []byte("AWS4" + s.secret)
	for _, part := range []string{s.date, s.region, s.service, suffix, text} {
		h := hmac.New(sha256.New, key)
		h.Write([]byte(part))
		key = h.Sum(nil)
	}
	return key
}
