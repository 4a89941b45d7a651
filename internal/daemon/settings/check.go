package settings

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io/fs"
	"maps"
	"net"
	"os"
	"slices"
	"strings"

	"github.com/bullpen-run/bullpen/process"
)

// check finds faults in the combination of values that are valid by themselves.
func (l *loader) check() {
	l.checkHTTP()
	l.checkLambda()
	l.checkListeners()
	l.checkStore()
	for _, name := range slices.Sorted(maps.Keys(l.settings.Pools)) {
		p := l.settings.Pools[name]
		l.checkPool(name, &p)
	}
	l.checkSchedules()
	l.checkBudget()
	if len(l.journal.faults) > 0 {
		return
	}
	// What the checks above miss, the library reports in its own words.
	if err := l.settings.Queue.Check(); err != nil {
		for _, one := range leaves(err) {
			l.fault("queue", "%v", one)
		}
	}
}

func (l *loader) checkHTTP() {
	h := &l.settings.HTTP
	l.checkPair("http.tls", h.Cert, h.Key)
	if l.checkFile("http.tokens", h.Tokens) && h.Tokens != "" && l.checkTokens != nil {
		for _, one := range leaves(l.checkTokens(h.Tokens)) {
			l.fault("http.tokens", "%v", one)
		}
	}
	if h.MaxInflight < h.MaxBody {
		at := "http.max_inflight"
		if !l.given(at) {
			at = "http.max_body"
		}
		l.fault(at, "http.max_inflight is %s and http.max_body %s: use a max_inflight that is at least max_body", bytesText(h.MaxInflight), bytesText(h.MaxBody))
	}
	if h.MaxStreams >= h.MaxConnections && h.MaxStreams > 1 {
		l.fault("http.max_streams", "it is %d and http.max_connections is %d: use fewer streams than connections, to leave some for other requests", h.MaxStreams, h.MaxConnections)
	}
	l.checkReach("http.listen", h.Listen, "http.tokens", "tokens (http.tokens), so that not everybody can submit", 8650)
}

// checkReach checks that an address that other machines can reach has TLS, and a file
// with the secrets of callers.
func (l *loader) checkReach(at, address, secrets, why string, port int) {
	if isLoopback(address) {
		return
	}
	var missing []string
	if !l.given("http.tls.cert") && !l.given("http.tls.key") {
		missing = append(missing, "TLS (http.tls.cert and http.tls.key), so that nobody can read the traffic")
	}
	if !l.given(secrets) {
		missing = append(missing, why)
	}
	if len(missing) > 0 {
		l.fault(at, "%s can be reached from other machines, which needs %s: set that, or use an address of this machine only, such as 127.0.0.1:%d",
			quote(address), strings.Join(missing, ", and "), port)
	}
}

// isLoopback reports whether a "host:port" can be reached from this machine only.
func isLoopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	ip := net.ParseIP(host)
	return strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback()
}

// checkPair checks a certificate and its key.
func (l *loader) checkPair(section, cert, key string) {
	hasCert, hasKey := l.given(section+".cert"), l.given(section+".key")
	switch {
	case hasCert && !hasKey:
		l.fault(section+".cert", "a certificate needs its private key: set %s.key", section)
	case hasKey && !hasCert:
		l.fault(section+".key", "a private key needs its certificate: set %s.cert", section)
	}
	good := l.checkFile(section+".cert", cert)
	if good = l.checkFile(section+".key", key) && good; !good || cert == "" || key == "" {
		return
	}
	if _, err := tls.LoadX509KeyPair(cert, key); err != nil {
		l.fault(section+".cert", "it does not match %s.key: %v: use a certificate and its key, in PEM format", section, err)
	}
}

// checkFile checks that a file, if named, can be read. It opens only regular files:
// reading a pipe might block forever, and cannot be repeated.
func (l *loader) checkFile(at, path string) bool {
	if path == "" {
		return true
	}
	shown := quote(path)
	if k := daemonTable.byPath[at]; k != nil && k.secret {
		shown = "the file" // the value may be the secret itself instead of a file name
	}
	info, err := os.Stat(path)
	if err == nil && !info.Mode().IsRegular() {
		l.fault(at, "%s is not a regular file", shown)
		return false
	}
	if err == nil {
		var f *os.File
		if f, err = os.Open(path); err == nil {
			f.Close()
		}
	}
	if err != nil {
		l.fault(at, "%s cannot be read: %v", shown, reason(err))
	}
	return err == nil
}

// reason returns the error about a file without the file's name, which the fault
// already has.
func reason(err error) error {
	var of *fs.PathError
	if errors.As(err, &of) {
		return of.Err
	}
	return err
}

// checkListeners checks that each address is used only once.
func (l *loader) checkListeners() {
	s := l.settings
	all := []struct{ at, address string }{
		{"http.listen", s.HTTP.Listen}, {"probes.listen", s.Probes.Listen}, {"lambda.listen", s.Lambda.Listen},
	}
	for i, one := range all {
		for _, other := range all[:i] {
			if !clash(one.address, other.address) {
				continue
			}
			if at, before := one.at, other.at; l.given(at) {
				l.fault(at, "%s is also the address of %s: use another port", quote(one.address), before)
			} else {
				l.fault(before, "%s is also the address of %s: use another port", quote(other.address), at)
			}
		}
	}
}

// clash reports whether two addresses cannot both be listened on.
func clash(a, b string) bool {
	hostA, portA, errA := net.SplitHostPort(a)
	hostB, portB, errB := net.SplitHostPort(b)
	if errA != nil || errB != nil || portA != portB || strings.Trim(portA, "0") == "" {
		return false
	}
	any := func(host string) bool { return host == "" || host == "0.0.0.0" || host == "::" }
	return any(hostA) || any(hostB) || strings.EqualFold(hostA, hostB) || isLoopback(a) && isLoopback(b) && (hostA == "localhost" || hostB == "localhost")
}

// checkStore checks that there is only one place for the jobs, and that no settings
// of another kind of store are set.
func (l *loader) checkStore() {
	s := &l.settings.Store
	kinds := []string{"queue.dir", "queue.url"}
	if s.Memory {
		kinds = append(kinds, "queue.memory")
	}
	kinds = slices.DeleteFunc(kinds, func(at string) bool { return !l.given(at) })
	if len(kinds) > 1 {
		l.fault(kinds[len(kinds)-1], "%s exclude each other: keep one of them", strings.Join(kinds, " and "))
		return
	}
	of := "queue.dir"
	if len(kinds) == 1 {
		of = kinds[0]
	}
	for _, only := range []struct{ of, at string }{
		{"queue.url", "queue.replicas"}, {"queue.url", "queue.credentials"}, {"queue.url", "queue.tls"},
		{"queue.dir", "queue.reserve"},
	} {
		if only.of != of && (l.given(only.at) || l.givenBelow(only.at)) {
			l.fault(l.first(only.at), "it is for jobs in %s, but they are in %s: leave it out", only.of, of)
		}
	}
	if s.URL == "" && !s.Memory {
		l.checkSizes()
	}
	l.checkFile("queue.credentials", s.Credentials)
	l.checkPair("queue.tls", s.Cert, s.Key)
	if l.checkFile("queue.tls.ca", s.CA) && s.CA != "" {
		if text, err := readFile(s.CA); err == nil && !x509.NewCertPool().AppendCertsFromPEM(text) {
			l.fault("queue.tls.ca", "%s has no certificate: use a file in PEM format", quote(s.CA))
		}
	}
}

// mostEmbedded is the largest payload or result that a queue in a folder accepts.
const mostEmbedded = 31 << 20

func (l *loader) checkSizes() {
	for _, n := range []struct {
		at   string
		size int
	}{{"queue.max_payload", l.settings.Queue.MaxPayload}, {"queue.max_result", l.settings.Queue.MaxResult}} {
		if n.size > mostEmbedded {
			l.fault(n.at, "it is %s: use at most %s, the limit of a queue in a folder; put larger data into a file, and its path into the job",
				bytesText(int64(n.size)), bytesText(mostEmbedded))
		}
	}
}

// first returns path itself or, for a mapping, the first key in it that was set.
func (l *loader) first(path string) string {
	if l.given(path) {
		return path
	}
	for _, at := range slices.Sorted(maps.Keys(l.positions)) {
		if strings.HasPrefix(at, path+".") {
			return at
		}
	}
	return path
}

// checkBudget checks that the minimum numbers of workers fit into the budget.
func (l *loader) checkBudget() {
	b := l.settings.Budget
	if b == nil {
		return
	}
	var workers int
	var memory, loose int64
	for _, p := range l.settings.Pools {
		if len(p.Process.Command) == 0 {
			continue
		}
		need := int64(process.DefaultNeed)
		if p.Process.Need > 0 {
			need = p.Process.Need
		} else if p.Process.Limits.Memory > 0 {
			need = p.Process.Limits.Memory
		}
		workers += p.Process.Min
		memory += int64(p.Process.Min) * need
		if p.Process.Min == 0 {
			loose = max(loose, need)
		}
	}
	if loose > 0 {
		workers, memory = workers+1, memory+loose
	}
	if b.Workers > 0 && workers > b.Workers {
		l.fault("budget.workers", "the pools need at least %d workers (workers.min, and one where that is 0), but the budget is %d: use fewer, or a larger budget", workers, b.Workers)
	}
	if b.Memory > 0 && (memory > b.Memory || memory < 0) {
		l.fault("budget.memory", "the minimum number of workers (workers.min, and one where that is 0) needs %s "+
			"(workers.need, else limits.memory, else %s each), but the budget is %s: use fewer, or a "+
			"larger budget",
			bytesText(memory), bytesText(process.DefaultNeed), bytesText(b.Memory))
	}
}
