package guard

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// host is a name by which the API may be called.
type host struct {
	name string // without brackets
	port string // empty for any
}

// parseHosts reads http.hosts.
func parseHosts(names []string) ([]host, error) {
	hosts := make([]host, 0, len(names))
	var faults []error
	for _, n := range names {
		h, ok := splitHost(n)
		if !ok || h.name == "" {
			faults = append(faults, fmt.Errorf("http.hosts: %q is no name or name:port: write it as in an address, without scheme and path", n))
			continue
		}
		hosts = append(hosts, h)
	}
	return hosts, errors.Join(faults...)
}

// splitHost cuts a Host header into name and port. It refuses what is neither a
// name nor an address.
func splitHost(s string) (host, bool) {
	h := host{name: s}
	if strings.HasPrefix(s, "[") {
		end := strings.IndexByte(s, ']')
		if end < 0 {
			return host{}, false
		}
		h.name = s[1:end]
		if a, err := netip.ParseAddr(h.name); err != nil || !a.Is6() {
			return host{}, false
		}
		s = s[end+1:]
		if s == "" {
			return h, true
		}
		if s[0] != ':' {
			return host{}, false
		}
		h.port = s[1:]
		return h, isPort(h.port)
	}
	if name, port, ok := strings.Cut(s, ":"); ok {
		h.name, h.port = name, port
		if !isPort(h.port) {
			return host{}, false
		}
	}
	for i := range len(h.name) {
		switch c := h.name[i]; {
		case c|0x20 >= 'a' && c|0x20 <= 'z', c >= '0' && c <= '9', c == '-', c == '.', c == '_':
		default:
			return host{}, false
		}
	}
	return h, true
}

// isPort reports whether s is digits, up to five.
func isPort(s string) bool {
	if s == "" || len(s) > 5 {
		return false
	}
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return true
}

// isLocalName reports whether name means this machine, to every browser.
func isLocalName(name string) bool {
	if name == "127.0.0.1" || strings.EqualFold(name, "localhost") {
		return true
	}
	a, err := netip.ParseAddr(name)
	return err == nil && a.Zone() == "" && a.IsLoopback()
}

// checkHost says what is wrong with the Host of a request, empty for nothing. A
// page whose name was turned to a loopback address after it was loaded (DNS
// rebinding) sends its own name here.
func (g *Guard) checkHost(value string) string {
	if g.tokens != nil && len(g.hosts) == 0 {
		return "" // no page has the token, so any name will do
	}
	h, ok := splitHost(value)
	if ok && isLocalName(h.name) {
		return ""
	}
	for _, allowed := range g.hosts {
		if ok && strings.EqualFold(h.name, allowed.name) && (allowed.port == "" || allowed.port == h.port) {
			return ""
		}
	}
	return "the API may not be called by this host name: call it as localhost or 127.0.0.1, or add the name to http.hosts"
}

const crossOrigin = "a page of another origin may not use this API: call it from a program, or from a page that comes from the same address"

// checkOrigin says what is wrong with what a browser tells of where a request
// comes from, empty for nothing. Programs send none of these headers.
func (g *Guard) checkOrigin(r *http.Request) string {
	origins := r.Header["Origin"]
	for _, o := range origins {
		if !g.sameOrigin(o, r) {
			return crossOrigin
		}
	}
	sites := r.Header["Sec-Fetch-Site"]
	for _, s := range sites {
		switch s {
		case "same-origin", "none": // none: a person has typed the address
		default:
			// Ports of one host are "same-site", and may belong to anybody.
			if !isPageVisit(r) {
				return crossOrigin
			}
		}
	}
	return ""
}

// isPageVisit reports whether a person follows a link to a page, in a window of its
// own: the page that has the link learns nothing of the answer.
func isPageVisit(r *http.Request) bool {
	return (r.Method == http.MethodGet || r.Method == http.MethodHead) &&
		r.Header.Get("Sec-Fetch-Mode") == "navigate" && r.Header.Get("Sec-Fetch-Dest") == "document"
}

// sameOrigin reports whether origin is where r was sent to.
func (g *Guard) sameOrigin(origin string, r *http.Request) bool {
	scheme, rest, ok := strings.Cut(origin, "://")
	if !ok {
		return false // "null", too
	}
	secure := r.TLS != nil
	switch {
	case strings.EqualFold(scheme, "https"):
		// What ends TLS before us hides the scheme; tokens are no ambient right, so
		// nothing hangs on it there.
		if !secure && g.tokens == nil {
			return false
		}
		secure = true
	case strings.EqualFold(scheme, "http"):
		if secure {
			return false
		}
	default:
		return false
	}
	a, okA := splitHost(rest)
	b, okB := splitHost(r.Host)
	return okA && okB && a.name != "" && strings.EqualFold(a.name, b.name) && portOf(a.port, secure) == portOf(b.port, secure)
}

func portOf(port string, secure bool) string {
	switch {
	case port != "":
		return port
	case secure:
		return "443"
	default:
		return "80"
	}
}

// clientAddress is what a client is known by: its address, or its network where
// one client has many addresses.
func clientAddress(remote string) netip.Addr {
	ap, err := netip.ParseAddrPort(remote)
	if err != nil {
		name, _, err := net.SplitHostPort(remote)
		if err != nil {
			return netip.Addr{}
		}
		a, _ := netip.ParseAddr(name)
		ap = netip.AddrPortFrom(a, 0)
	}
	a := ap.Addr().Unmap().WithZone("")
	if a.Is6() && !a.IsLoopback() {
		if p, err := a.Prefix(64); err == nil {
			return p.Addr()
		}
	}
	return a
}
