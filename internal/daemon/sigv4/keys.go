// Package sigv4 checks AWS signatures, version 4, of HTTP requests whose whole body is
// signed.
package sigv4

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/bullpen-run/bullpen/internal/daemon/secretfile"
)

const (
	mostFile    = 1 << 20
	mostKeys    = 1000
	leastSecret = 16
	mostSecret  = 128
	leastID     = 3
	mostID      = 128
)

// Keys is a file of access keys, as last read without error. It is safe for concurrent
// use.
type Keys struct {
	path    string
	secrets atomic.Pointer[map[string]string] // by key ID; nil before the first Load
}

// New returns the keys of a file, which Load reads.
func New(path string) *Keys { return &Keys{path: path} }

// Load reads the file again. After an error the keys do not change.
func (k *Keys) Load() error {
	secrets, err := read(k.path)
	if err != nil {
		return fmt.Errorf("lambda.keys: %w", err)
	}
	k.secrets.Store(&secrets)
	return nil
}

// CheckFile returns all faults of a file of access keys.
func CheckFile(path string) error {
	_, err := read(path)
	return err
}

func read(path string) (map[string]string, error) {
	text, err := secretfile.Read(path, mostFile)
	if err != nil {
		return nil, err
	}
	secrets, err := parse(text)
	if err != nil {
		return nil, fmt.Errorf("%s has faults:\n%w", path, err)
	}
	return secrets, nil
}

// parse parses lines of "ID SECRET". The error has every fault with its line, but none
// of the text.
func parse(text []byte) (map[string]string, error) {
	secrets := make(map[string]string)
	var faults []error
	number := 0
	for line := range strings.Lines(string(bytes.TrimPrefix(text, []byte("\xef\xbb\xbf")))) {
		number++
		fields := strings.Fields(line)
		if len(fields) == 0 || fields[0][0] == '#' {
			continue
		}
		if err := check(fields); err != nil {
			faults = append(faults, fmt.Errorf("line %d: %w", number, err))
			continue
		}
		if _, twice := secrets[fields[0]]; twice {
			faults = append(faults, fmt.Errorf("line %d: this access key ID is on an earlier line too: remove one of them", number))
			continue
		}
		secrets[fields[0]] = fields[1]
	}
	if len(secrets) == 0 && len(faults) == 0 {
		faults = append(faults, errors.New("there is no key in it, so no request would be allowed: add a line ACCESS_KEY_ID SECRET_ACCESS_KEY"))
	}
	if len(secrets) > mostKeys {
		faults = append(faults, fmt.Errorf("there are %d keys, more than %d: remove unused ones", len(secrets), mostKeys))
	}
	return secrets, errors.Join(faults...)
}

// check checks the words of a line.
func check(fields []string) error {
	if len(fields) != 2 {
		return fmt.Errorf("it has %d words, not 2: write ACCESS_KEY_ID SECRET_ACCESS_KEY", len(fields))
	}
	if id := fields[0]; len(id) < leastID || len(id) > mostID || !isWord(id) {
		return fmt.Errorf("the first word is not a valid access key ID: use %d to %d letters, digits and underscores", leastID, mostID)
	}
	if n := len(fields[1]); n < leastSecret || n > mostSecret {
		return fmt.Errorf("the secret has %d characters: use %d to %d, such as openssl rand -hex 20 prints", n, leastSecret, mostSecret)
	}
	return nil
}

// isWord reports whether s has only letters, digits and underscores.
func isWord(s string) bool {
	for i := range len(s) {
		switch c := s[i]; {
		case c|0x20 >= 'a' && c|0x20 <= 'z', c >= '0' && c <= '9', c == '_':
		default:
			return false
		}
	}
	return true
}
