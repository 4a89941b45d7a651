package access

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// host is a name under which the API may be called.
type host struct {
	name string // without brackets
	port string // empty for any
}

// parseHosts parses http.hosts.
func parseHosts(names []string) ([]host, error) {
	hosts := make([]host, 0, len(names))
	var faults []error
	for _, n := range names {
		h, ok := splitHost(n)
		if !ok || h.name == "" {
			faults = append(faults, fmt.Errorf("http.hosts: %q is not a name or name:port: write it without scheme and path", n))
			continue
		}
		hosts = append(hosts, h)
	}
	return hosts, errors.Join(faults...)
}

// splitHost splits a Host header into name and port. It rejects anything that is
// neither a name nor an address.
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

// isPort reports whether s is one to five digits.
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

// isLocalName reports whether every browser resolves name to this machine.
func isLocalName(name string) bool {
	if name == "127.0.0.1" || strings.EqualFold(name, "localhost") {
		return true
	}
	a, err := netip.ParseAddr(name)
	return err == nil && a.Zone() == "" && a.IsLoopback()
}

// checkHost returns what is wrong with the Host of a request; empty if nothing is. In
// a DNS rebinding attack, where a page's name is redirected to a loopback address
// after loading, the Host is that page's name. secret reports that callers need a token
// or a key.
func (g *Control) checkHost(value string, secret bool) string {
	if secret && len(g.hosts) == 0 {
		return "" // a page does not have the secret, so any name is safe
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
	return "the API may not be called under this host name: call it as localhost or 127.0.0.1, or add the name to http.hosts"
}

const crossOrigin = "a page of another origin may not use this API: call it from a program, or from a page that is served from the same address"

// checkOrigin returns what is wrong with a browser's headers about the origin of a
// request; empty if nothing is. Other programs do not send these headers.
func (g *Control) checkOrigin(r *http.Request, secret bool) string {
	origins := r.Header["Origin"]
	for _, o := range origins {
		if !sameOrigin(o, r, secret) {
			return crossOrigin
		}
	}
	sites := r.Header["Sec-Fetch-Site"]
	for _, s := range sites {
		switch s {
		case "same-origin", "none": // none: the user entered the address
		default:
			// Other ports of the same host are "same-site", and may belong to anyone.
			if !isPageVisit(r) {
				return crossOrigin
			}
		}
	}
	return ""
}

// isPageVisit reports whether the user follows a link that opens a page: the page
// with the link cannot read the answer.
func isPageVisit(r *http.Request) bool {
	return (r.Method == http.MethodGet || r.Method == http.MethodHead) &&
		r.Header.Get("Sec-Fetch-Mode") == "navigate" && r.Header.Get("Sec-Fetch-Dest") == "document"
}

// sameOrigin reports whether origin is the origin of the URL of r.
func sameOrigin(origin string, r *http.Request, secret bool) bool {
	scheme, rest, ok := strings.Cut(origin, "://")
	if !ok {
		return false // also "null"
	}
	secure := r.TLS != nil
	switch {
	case strings.EqualFold(scheme, "https"):
		// A TLS proxy hides the scheme. That is harmless with tokens and keys, which
		// browsers do not add by themselves.
		if !secure && !secret {
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

// clientAddress returns the address that identifies a client, or its network if one
// client has many addresses.
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
