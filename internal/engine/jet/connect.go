package jet

import (
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
)

const (
	// connectPatience bounds how long one server may take to accept a client.
	connectPatience = 5 * time.Second
	// stallPatience is how long a server may read nothing of what is sent to it.
	stallPatience = 5 * time.Second
	// writePiece is how much of a message is written at a time.
	writePiece = 64 << 10
)

// Connect returns a connection to an external server, as an engine needs it: it
// reconnects whenever the connection is lost, and drops it when the server stops reading.
func Connect(addresses, name string, options ...nats.Option) (*nats.Conn, error) {
	shown, err := withoutLogins(addresses)
	if err != nil {
		return nil, err
	}
	conn, err := nats.Connect(addresses, append([]nats.Option{
		nats.Name(name), nats.MaxReconnects(-1), nats.Timeout(connectPatience),
		nats.ReconnectWait(200 * time.Millisecond), nats.ReconnectJitter(200*time.Millisecond, 200*time.Millisecond),
		nats.SetCustomDialer(dialer{net.Dialer{Timeout: connectPatience}}),
	}, options...)...)
	if err != nil {
		return nil, fmt.Errorf("no NATS server answers at %s: %w", shown, err)
	}
	return conn, nil
}

// withoutLogins returns addresses without names and passwords, for errors. What is not an
// address is not shown, as it may be a password.
func withoutLogins(addresses string) (string, error) {
	all := strings.Split(addresses, ",")
	for i, address := range all {
		address = strings.TrimSpace(address)
		if !strings.Contains(address, "://") {
			address = "nats://" + address
		}
		u, err := url.Parse(address)
		if err != nil {
			return "", fmt.Errorf("address %d of the server is not a URL: use an address such as nats://127.0.0.1:4222", i+1)
		}
		u.User = nil
		all[i] = u.String()
	}
	return strings.Join(all, ","), nil
}

// dialer makes connections that do not stall.
type dialer struct{ net.Dialer }

// Dial implements nats.CustomDialer.
func (d dialer) Dial(network, address string) (net.Conn, error) {
	conn, err := d.Dialer.Dial(network, address)
	if err != nil {
		return nil, err
	}
	return unstalled{conn}, nil
}

// unstalled ends a write when the peer reads nothing of it for stallPatience. A halted
// server keeps its connections, and what is sent to it fills buffers until a write
// blocks. The client library then holds a lock that everything else needs, and its own
// bound is a minute for a whole message.
type unstalled struct{ net.Conn }

func (c unstalled) Write(b []byte) (written int, err error) {
	for len(b) > 0 {
		if err := c.SetWriteDeadline(time.Now().Add(stallPatience)); err != nil {
			return written, err
		}
		n, err := c.Conn.Write(b[:min(len(b), writePiece)])
		written += n
		if err != nil {
			return written, err
		}
		b = b[n:]
	}
	return written, nil
}
