package settings

import (
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"reflect"
	"slices"
	"strings"
)

// Store is the configured place of the jobs; Settings.Queue.Store is made from it.
type Store struct {
	// Dir is the folder of the embedded store.
	Dir string
	// URL has the addresses of a NATS server, without names and passwords; empty for
	// the embedded store.
	URL string
	// Memory keeps jobs in memory.
	Memory bool
	// Replicas, Credentials, CA, Cert and Key are for a NATS server.
	Replicas      int
	Credentials   string
	CA, Cert, Key string
	// Reserve is for the embedded store.
	Reserve int64

	login *url.Userinfo // user of URL; nil for none
}

// String returns where the jobs are.
func (s Store) String() string {
	switch {
	case s.Memory:
		return "memory"
	case s.URL != "":
		return s.URL
	}
	return s.Dir
}

// GoString is like String.
func (s Store) GoString() string { return s.String() }

// LogValue is like String.
func (s Store) LogValue() slog.Value { return slog.StringValue(s.String()) }

// schemes are the URL schemes of NATS servers.
var schemes = []string{"nats", "tls", "ws", "wss"}

// setURL reads the addresses of a server. It removes name and password from them, so
// that they do not appear in logs.
func (s *Store) setURL(v value) error {
	texts, ok := v.scalars()
	if !ok {
		return errUse
	}
	texts = splitList(strings.Join(texts, ","))
	var login *url.Userinfo
	for i, text := range texts {
		if !strings.Contains(text, "://") {
			text = "nats://" + text
		}
		u, err := url.Parse(text)
		if err != nil {
			return fmt.Errorf("address %d is not a URL: use an address such as nats://127.0.0.1:4222", i+1)
		}
		if !slices.Contains(schemes, u.Scheme) || u.Hostname() == "" || u.RawQuery != "" || u.Fragment != "" || u.Opaque != "" {
			return fmt.Errorf("address %d is not the address of a server: use an address such as nats://127.0.0.1:4222; the schemes are %s", i+1, strings.Join(schemes, ", "))
		}
		if u.User != nil && login != nil && u.User.String() != login.String() {
			return errors.New("the addresses have different users: use the same user for all of them")
		}
		if u.User != nil {
			login, u.User = u.User, nil
		}
		texts[i] = u.String()
	}
	s.URL, s.login = strings.Join(texts, ","), login
	return nil
}

func (s *Store) sameURL(other *Store) bool {
	return s.URL == other.URL && reflect.DeepEqual(s.login, other.login)
}
