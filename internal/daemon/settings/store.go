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

// Store is where the jobs are, as it was configured; Settings.Queue.Store is made
// from it.
type Store struct {
	// Dir is the folder of the embedded store.
	Dir string
	// URL is the addresses of a server elsewhere, without names and passwords;
	// empty for the embedded one.
	URL string
	// Memory keeps jobs in memory.
	Memory bool
	// Replicas, Credentials, CA, Cert and Key are for a server elsewhere.
	Replicas      int
	Credentials   string
	CA, Cert, Key string
	// Reserve is for the embedded store.
	Reserve int64

	login *url.Userinfo // of URL; nil for none
}

// String says where the jobs are.
func (s Store) String() string {
	switch {
	case s.Memory:
		return "memory"
	case s.URL != "":
		return s.URL
	}
	return s.Dir
}

// GoString is as String.
func (s Store) GoString() string { return s.String() }

// LogValue is as String.
func (s Store) LogValue() slog.Value { return slog.StringValue(s.String()) }

// schemes are those of servers of NATS.
var schemes = []string{"nats", "tls", "ws", "wss"}

// setURL reads the addresses of a server. Name and password are taken out of
// them, so that they stand in no log.
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
			return fmt.Errorf("address %d of it is no URL: use such as nats://127.0.0.1:4222", i+1)
		}
		if !slices.Contains(schemes, u.Scheme) || u.Hostname() == "" || u.RawQuery != "" || u.Fragment != "" || u.Opaque != "" {
			return fmt.Errorf("address %d of it is none of a server: use such as nats://127.0.0.1:4222; the schemes are %s", i+1, strings.Join(schemes, ", "))
		}
		if u.User != nil && login != nil && u.User.String() != login.String() {
			return errors.New("its addresses have different users: use one for all of them")
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
