package access

import (
	"crypto/tls"
	"fmt"
	"sync/atomic"
)

// certificate is a pair of files, as last read without error.
type certificate struct {
	cert, key string
	pair      atomic.Pointer[tls.Certificate]
}

// load reads the files again. On an error the pair is unchanged.
func (c *certificate) load() error {
	pair, err := tls.LoadX509KeyPair(c.cert, c.key)
	if err != nil {
		err = fmt.Errorf("http.tls: %s and %s are not a certificate and its key: %w", c.cert, c.key, err)
		if c.pair.Load() != nil {
			err = fmt.Errorf("%w; the old content stays in use", err)
		}
		return err
	}
	c.pair.Store(&pair)
	return nil
}

// config returns the TLS configuration.
func (c *certificate) config() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		NextProtos: []string{"h2", "http/1.1"},
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			return c.pair.Load(), nil
		},
	}
}
