package jet

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"

	"github.com/bullpen-run/bullpen/internal/engine"
)

// verdict is the server's answer to a put.
type verdict struct {
	seq         uint64
	code        int // the server's error code; 0 is none
	description string
}

// noAnswerer is our own code for a put that reached no server.
const noAnswerer = -1

// badAnswer is our own code for an answer that cannot be parsed.
const badAnswer = -2

// parseAnswer parses the server's answer to a put. A successful answer starts with
// begins; any other is decoded in full.
func parseAnswer(begins string, data []byte) verdict {
	if len(data) > len(begins)+1 && string(data[:len(begins)]) == begins && data[len(data)-1] == '}' {
		if seq, ok := number(data[len(begins) : len(data)-1]); ok && seq > 0 {
			return verdict{seq: seq}
		}
	}
	var answer struct {
		Seq   uint64 `json:"seq"`
		Error *struct {
			Code        int    `json:"code"`
			ErrCode     int    `json:"err_code"`
			Description string `json:"description"`
		} `json:"error"`
	}
	if err := json.Unmarshal(data, &answer); err != nil {
		return verdict{code: badAnswer, description: err.Error()}
	}
	if e := answer.Error; e != nil {
		code := e.ErrCode
		if code <= 0 {
			code = max(e.Code, 1)
		}
		return verdict{code: code, description: e.Description}
	}
	if answer.Seq == 0 {
		return verdict{code: badAnswer, description: "it names no sequence number"}
	}
	return verdict{seq: answer.Seq}
}

// number parses decimal digits and nothing else.
func number[T ~string | ~[]byte](s T) (uint64, bool) {
	if len(s) == 0 {
		return 0, false
	}
	var n uint64
	for i := range len(s) {
		d := uint64(s[i] - '0')
		if d > 9 || n > (math.MaxUint64-d)/10 {
			return 0, false
		}
		n = n*10 + d
	}
	return n, true
}

// The server's error codes for a put.
const (
	codeAccountFull    = 10002 // resource limits exceeded for account
	codeNotAvailable   = 10008 // system temporarily unavailable
	codeNotLeader      = 10009
	codeNoResources    = 10023 // insufficient resources
	codeNoMemory       = 10028
	codeNoStorage      = 10047
	codeTooLarge       = 10054
	codeWrongLast      = 10071 // wrong last sequence
	codeNotEnabled     = 10076
	codeStoreFailed    = 10077 // with its reason in words
	codeHeaderTooLarge = 10097
	codeOffline        = 10118
	codeNotReady       = 10163 // the last sequence of this subject is unknown, just after a change of leader
	codeInProcess      = 10164 // another put on this subject is on its way
)

// passing reports whether the server stored nothing, for a reason that may soon pass.
func (v verdict) passing() bool {
	switch v.code {
	case noAnswerer, codeNotAvailable, codeNotLeader, codeNotReady, codeOffline, codeInProcess:
		return true
	}
	return false
}

// conflict reports whether the condition of the put did not hold.
func (v verdict) conflict() bool { return v.code == codeWrongLast }

// err returns the error for a put to the stream s; nil if it was stored.
func (v verdict) err(s engine.Stream) error {
	switch v.code {
	case 0:
		return nil
	case codeWrongLast:
		return fmt.Errorf("jet: %w: %s", engine.ErrConflict, v.description)
	case codeAccountFull, codeNoResources, codeNoMemory, codeNoStorage:
		return fmt.Errorf("jet: %w: the server has no room for %s (%s, %d); free disk, or raise its limits", engine.ErrFull, s, v.description, v.code)
	case codeStoreFailed:
		if full(v.description) {
			return fmt.Errorf("jet: %w: %s: %s (%d); free disk, or raise the limits of the stream", engine.ErrFull, s, v.description, v.code)
		}
	case codeTooLarge, codeHeaderTooLarge:
		return fmt.Errorf("jet: the message is too large for the server: %s (%d); make it smaller, or raise the server's limit", v.description, v.code)
	case codeInProcess:
		return fmt.Errorf("jet: another put on the same subject in %s has no majority of the servers and blocks this one; nothing was stored, try again later", s)
	case noAnswerer:
		return fmt.Errorf("jet: no server accepts messages for %s: the stream has no leader now, or was removed; nothing was stored", s)
	case badAnswer:
		// It is unknown whether the message was stored.
		return fmt.Errorf("jet: %w: cannot parse the server's answer to a put on %s: %s", engine.ErrUnknown, s, v.description)
	}
	return fmt.Errorf("jet: the server did not store a message in %s: %s (%d)", s, v.description, v.code)
}

// full reports whether storing failed for lack of room.
func full(description string) bool {
	for _, words := range []string{"maximum bytes", "maximum messages", "no space left", "disk quota", "insufficient"} {
		if strings.Contains(description, words) {
			return true
		}
	}
	return false
}
