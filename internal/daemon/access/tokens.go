package access

import (
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"sync/atomic"

	"github.com/bullpen-run/bullpen/internal/daemon/secretfile"
)

const (
	maxTokenFile   = 1 << 20
	maxTokens      = 1000
	leastTokenSize = 16
	mostTokenSize  = 512
	mostNameSize   = 64
)

// token is one line of the file. It does not hold the token itself.
type token struct {
	role   Role
	name   string
	digest [sha256.Size]byte
}

// tokens is a file of tokens, as last read without error.
type tokens struct {
	path string
	all  atomic.Pointer[[]*token]
	gone bool // the last load found no tokens; used only by the caller of load

	followers followers
}

// errNoToken is the error of a file without tokens.
var errNoToken = errors.New("there is no token in it, so no request would be allowed: add a line ROLE NAME TOKEN")

// load reads the file again. If the file has faults the tokens do not change, so that
// a typo locks nobody out. If the file is gone or empty, the tokens are removed,
// because that is a quick way to revoke them. This takes effect only at the second
// check in a row, because some programs do not write a file in one step.
func (t *tokens) load() error {
	var all []*token
	text, err := secretfile.Read(t.path, maxTokenFile)
	if err == nil {
		if all, err = parseTokens(text); err != nil {
			err = fmt.Errorf("%s has faults:\n%w", t.path, err)
		}
	}
	switch {
	case err == nil:
		t.gone = false
		t.use(all)
		return nil
	case t.all.Load() == nil:
		return fmt.Errorf("http.tokens: %w", err)
	case !errors.Is(err, errNoToken) && !errors.Is(err, fs.ErrNotExist):
		t.gone = false
		return fmt.Errorf("http.tokens: %w; the old content stays in use", err)
	case !t.gone:
		t.gone = true
		return fmt.Errorf("http.tokens: %w; the old content stays in use for now", err)
	}
	t.use(all)
	return fmt.Errorf("http.tokens: %w; all tokens have ended", err)
}

// CheckTokens returns all faults of a file of tokens.
func CheckTokens(path string) error {
	text, err := secretfile.Read(path, maxTokenFile)
	if err == nil {
		_, err = parseTokens(text)
	}
	return err
}

// parseTokens parses lines of "ROLE NAME TOKEN" or "ROLE NAME sha256:HEX". The error
// has every fault with its line, but none of the text: a token may be in the wrong
// place.
func parseTokens(text []byte) ([]*token, error) {
	text = bytes.TrimPrefix(text, []byte("\xef\xbb\xbf"))
	var all []*token
	var faults []error
	lines := map[[sha256.Size]byte]int{}
	number := 0
	for line := range strings.Lines(string(text)) {
		number++
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		t, err := parseToken(line)
		if err != nil {
			faults = append(faults, fmt.Errorf("line %d: %w", number, err))
			continue
		}
		if first, twice := lines[t.digest]; twice {
			faults = append(faults, fmt.Errorf("line %d: this token is already on line %d: remove one of them", number, first))
			continue
		}
		lines[t.digest] = number
		all = append(all, t)
	}
	if len(all) == 0 && len(faults) == 0 {
		faults = append(faults, errNoToken)
	}
	if len(all) > maxTokens {
		faults = append(faults, fmt.Errorf("there are %d tokens, more than %d: remove unused ones", len(all), maxTokens))
	}
	return all, errors.Join(faults...)
}

func parseToken(line string) (*token, error) {
	fields := strings.Fields(line)
	if len(fields) != 3 {
		return nil, fmt.Errorf("it has %d words, not 3: write ROLE NAME TOKEN", len(fields))
	}
	var faults []string
	t := &token{name: fields[1]}
	switch fields[0] {
	case "read":
		t.role = Read
	case "submit":
		t.role = Submit
	case "admin":
		t.role = Admin
	default:
		faults = append(faults, "the first word is not a role: write read, submit or admin")
	}
	if !isTokenName(t.name) {
		faults = append(faults, fmt.Sprintf("the second word is not a valid name: use 1 to %d letters, digits, dots, dashes and underscores", mostNameSize))
	}
	secret := fields[2]
	if digest, ok := strings.CutPrefix(secret, "sha256:"); ok {
		raw, err := hex.DecodeString(digest)
		if err != nil || len(raw) != sha256.Size {
			faults = append(faults, "the text after sha256: is not 64 hexadecimal digits: write the SHA-256 of the token")
		} else {
			t.digest = [sha256.Size]byte(raw)
		}
	} else {
		if len(secret) < leastTokenSize || len(secret) > mostTokenSize {
			faults = append(faults, fmt.Sprintf("the token has %d characters: use %d to %d, such as openssl rand -hex 32 prints", len(secret), leastTokenSize, mostTokenSize))
		}
		if !isTokenText(secret) {
			faults = append(faults, "the token has characters that are not allowed in a header: use letters, digits and -._~+/=")
		}
		t.digest = sha256.Sum256([]byte(secret))
	}
	if len(faults) > 0 {
		return nil, errors.New(strings.Join(faults, "; "))
	}
	return t, nil
}

func isTokenName(s string) bool {
	for i := range len(s) {
		switch c := s[i]; {
		case c|0x20 >= 'a' && c|0x20 <= 'z', c >= '0' && c <= '9', c == '-', c == '.', c == '_':
		default:
			return false
		}
	}
	return s != "" && len(s) <= mostNameSize
}

// isTokenText reports whether s has only the characters that RFC 6750 allows.
func isTokenText(s string) bool {
	for i := range len(s) {
		switch c := s[i]; {
		case c|0x20 >= 'a' && c|0x20 <= 'z', c >= '0' && c <= '9':
		case strings.IndexByte("-._~+/=", c) >= 0:
		default:
			return false
		}
	}
	return true
}

// find returns the token for secret, or nil. It takes the same time in
// all cases: it compares all tokens, and comparing digests does not reveal how much
// of a secret was right.
func (t *tokens) find(secret string) *token {
	if len(secret) > mostTokenSize {
		return nil
	}
	digest := sha256.Sum256([]byte(secret))
	all := *t.all.Load()
	found := -1
	for i, k := range all {
		found = subtle.ConstantTimeSelect(subtle.ConstantTimeCompare(digest[:], k.digest[:]), i, found)
	}
	if found < 0 {
		return nil
	}
	return all[found]
}
