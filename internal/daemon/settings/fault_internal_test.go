package settings

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// faulty has many faults, which are those of allFaults.
const faulty = `nod: a
grace: soon
http:
  listen: 0.0.0.0:80
  tls: {cert: missing.pem}
  max_body: 1G
  listen: 127.0.0.1:1
queue:
  dir: a
  url: nats://b
  keep: [1]
  lease:
pools:
  Thumbs: {command: cat}
  thumbs:
    command: nothing-of-this-name x
    workrs: 3
    workers: {min: 3, max: 2}
    limits: {timeout: -1s, memory: 1K}
    memory: 1G
    sandbox: {allow: [/tmp]}
    'null': true
  idle:
    env: {A: 1}
    io: low
  mail:
    command: go version | cat
    retry: {on: [failed, lost]}
`

var allFaults = []string{
	`bullpen.yaml:1:1: nod: no such key; did you mean "node"?`,
	`bullpen.yaml:2:8: grace: "soon": use a duration such as`,
	`bullpen.yaml:4:11: http.listen: "0.0.0.0:80" can be reached from other machines, which needs tokens (http.tokens)`,
	`bullpen.yaml:5:15: http.tls.cert: a certificate needs its private key: set http.tls.key`,
	`bullpen.yaml:5:15: http.tls.cert: "missing.pem" cannot be read: `,
	`bullpen.yaml:6:13: http.max_body: http.max_inflight is 256MiB and http.max_body 1GiB: use`,
	`bullpen.yaml:7:3: http.listen: it is already set at line 4: keep one of them`,
	`bullpen.yaml:10:8: queue.url: queue.dir and queue.url exclude each other: keep one of them`,
	`bullpen.yaml:11:9: queue.keep: it is a list: use a mapping of jobs, outcomes,`,
	`bullpen.yaml:12:9: queue.lease: it has no value: use a duration`,
	`bullpen.yaml:14:3: pools.Thumbs: "Thumbs" is not a valid pool name: use up to 64 lower-case letters`,
	`bullpen.yaml:16:14: pools.thumbs.command: "nothing-of-this-name": executable file not found`,
	`bullpen.yaml:17:5: pools.thumbs.workrs: no such key; did you mean "workers"?`,
	`bullpen.yaml:18:28: pools.thumbs.workers.max: it is 2, below workers.min, which is 3: raise it`,
	`bullpen.yaml:19:23: pools.thumbs.limits.timeout: "-1s": use a duration`,
	`bullpen.yaml:19:36: pools.thumbs.limits.memory: "1K": use a size such as 500K, 64MiB or 1.5G; the minimum is 1MiB`,
	`bullpen.yaml:20:5: pools.thumbs.memory: no such key here; did you mean "limits.memory"?`,
	`bullpen.yaml:21:22: pools.thumbs.sandbox.allow: it needs the profile strict`,
	`bullpen.yaml:22:13: pools.thumbs.null: it is for the protocol lines, but the protocol is frames: leave it out`,
	`bullpen.yaml:23:3: pools.idle: it sets env, io but no command`,
	`bullpen.yaml:27:14: pools.mail.command: | has no meaning without a shell`,
	`bullpen.yaml:28:17: pools.mail.retry.on: lost cannot be retried: leave it out`,
	`environment: BULLPEN_BUDGET_FOO: no such variable`,
	`environment: BULLPEN_HTTP_LISTN: no such variable; did you mean BULLPEN_HTTP_LISTEN?`,
	`environment: BULLPEN_LOG_LEVEL: "loud": use debug, info, warn, error`,
	`environment: BULLPEN_POOLS_A_COMMAND: pools cannot be set by variables`,
	`flags: http.listn: no such key; did you mean "http.listen"?`,
	`flags: node: "\x00": use a text`,
	`flags: pools.a.command: pools cannot be set by flags`,
}

func TestAllFaultsAreTold(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	_, err := Load(Source{Path: filepath.Join(folder, "bullpen.yaml"), Text: []byte(faulty), Env: []string{"BULLPEN_HTTP_LISTN=:1", "BULLPEN_POOLS_A_COMMAND=x", "BULLPEN_QUEUE_LEASE=1", "BULLPEN_LOG_LEVEL=loud", "BULLPEN_BUDGET_FOO=1"},
		Flags: map[string]string{"http.listn": "x", "pools.a.command": "x", "node": "\x00"}})
	wantFaults(t, err, folder, allFaults...)
}

var faultCases = map[string]struct {
	text string
	want []string
}{
	"no YAML":               {"node: a\npools: [1, 2\ngrace: 1s\n", []string{"bullpen.yaml:2: it is not YAML: did not find expected ',' or ']'"}},
	"no YAML in line 1":     {"a: b: c", []string{"bullpen.yaml:1: it is not YAML: mapping values are not allowed"}},
	"a tab":                 {"http:\n\tlisten: a\n", []string{"bullpen.yaml:2: it is not YAML: found character that cannot start any token"}},
	"no such anchor":        {"node: *a\n", []string{"bullpen.yaml:1: it is not YAML: unknown anchor"}},
	"two documents":         {"node: a\n---\nnode: b\n", []string{"bullpen.yaml:2:1: a second document begins here: use only one"}},
	"a list":                {"- a\n", []string{"bullpen.yaml:1:1: it is a list: use keys with values"}},
	"a text":                {"a\n", []string{"bullpen.yaml:1:1: it is a single value: use keys with values"}},
	"a key that is a list":  {"[a]: b\n", []string{"bullpen.yaml:1:1: this key is a list: use a name"}},
	"a tag":                 {"node: !secret a\n", []string{`bullpen.yaml:1:7: node: the tag "!secret" has no meaning here`}},
	"a bad merge":           {"http: {<<: 3}\n", []string{"bullpen.yaml:1:12: http: << has a single value: use an alias of a mapping"}},
	"a bad list of merges":  {"http: {<<: [3]}\n", []string{"bullpen.yaml:1:13: http: << has a single value in its list"}},
	"an alias of itself":    {"x-a: &a {b: *a}\n", []string{"bullpen.yaml:1:13: x-a.b.b"}},
	"dots":                  {"http.listen: 127.0.0.1:1\n", []string{`bullpen.yaml:1:1: http.listen: no such key`}},
	"of a pool":             {"command: cat\n", []string{`bullpen.yaml:1:1: command: no such key here; it belongs to a pool: did you mean "pools.NAME.command"?`}},
	"far from all":          {"log: {everything: 1}\n", []string{"bullpen.yaml:1:7: log.everything: no such key; the keys here are format, level"}},
	"a mapping":             {"node: {a: b}\n", []string{"bullpen.yaml:1:7: node: it is a mapping: use a text"}},
	"pools are a list":      {"pools: [a]\n", []string{"bullpen.yaml:1:8: pools: it is a list: use names of pools"}},
	"a pool is a text":      {"pools: {a: cat}\n", []string{"bullpen.yaml:1:12: pools.a: it is a single value: use a mapping of command,"}},
	"workers are a number":  {"pools: {a: {command: go, workers: 3}}\n", []string{"bullpen.yaml:1:35: pools.a.workers: it is a single value: use a mapping of min, max,"}},
	"same listeners":        {"probes: {listen: 127.0.0.1:8650}\n", []string{`bullpen.yaml:1:18: probes.listen: "127.0.0.1:8650" is also the address of http.listen: use another port`}},
	"any and one":           {"probes: {listen: ':8650'}\n", []string{"bullpen.yaml:1:18: probes.listen: "}},
	"beyond loopback":       {"http: {listen: ':1'}\n", []string{`bullpen.yaml:1:16: http.listen: ":1" can be reached from other machines, which needs TLS (http.tls.cert and http.tls.key), so that nobody can read the traffic, and tokens`}},
	"front beyond loopback": {"lambda: {listen: ':1'}\n", []string{`bullpen.yaml:1:18: lambda.listen: ":1" can be reached from other machines, which needs TLS (http.tls.cert and http.tls.key), so that nobody can read the traffic, and keys (lambda.keys)`}},
	"front and API":         {"lambda: {listen: 127.0.0.1:8650}\n", []string{`bullpen.yaml:1:18: lambda.listen: "127.0.0.1:8650" is also the address of http.listen`}},
	"front is off":          {"lambda: {region: us-east-1}\n", []string{"bullpen.yaml:1:18: lambda.region: it is for the Lambda front, which is off: set lambda.listen"}},
	"no such account":       {"lambda: {listen: 127.0.0.1:1, account: 12345, region: Paris}\n", []string{`bullpen.yaml:1:40: lambda.account: "12345": use the 12 digits`, `bullpen.yaml:1:55: lambda.region: "Paris": use the name of a region`}},
	"no keys":               {"lambda: {listen: 127.0.0.1:1, keys: none}\n", []string{"bullpen.yaml:1:37: lambda.keys: the file cannot be read"}},
	"no key in it":          {"lambda: {listen: 127.0.0.1:1, keys: empty}\n", []string{"bullpen.yaml:1:37: lambda.keys: "}},
	"key alone":             {"http: {tls: {key: empty}}\n", []string{"bullpen.yaml:1:19: http.tls.key: a private key needs its certificate"}},
	"no pair":               {"queue: {url: a, tls: {cert: empty, key: empty}}\n", []string{"bullpen.yaml:1:29: queue.tls.cert: it does not match queue.tls.key: "}},
	"a folder":              {"http: {tokens: /}\n", []string{"bullpen.yaml:1:16: http.tokens: the file is not a regular file"}},
	"a pool of a bad name":  {"pools: {A: {command: nothing-of-this-name, workrs: 1, workers: {min: 2, max: 1}}}\n", []string{`bullpen.yaml:1:9: pools.A: "A" is not a valid pool name`, `bullpen.yaml:1:22: pools.A.command: "nothing-of-this-name"`, "bullpen.yaml:1:44: pools.A.workrs: no such key", "bullpen.yaml:1:78: pools.A.workers.max: it is 1, below workers.min, which is 2"}},
	"cron and its zone":     {"pools: {a: }\nschedules: {s: {pool: a, cron: '61 * * * *', zone: Nowhere, missed: never}}\n", []string{"bullpen.yaml:2:13: schedules.s: Zone \"Nowhere\" is not known", `bullpen.yaml:2:13: schedules.s: cron "61 * * * *": minute: 61`, "bullpen.yaml:2:69: schedules.s.missed"}},
	"no time and no pool":   {"schedules: {s: {pool: A, every: never, zone: Nowhere}}\n", []string{"bullpen.yaml:1:23: schedules.s.pool: ", "bullpen.yaml:1:33: schedules.s.every: "}},
	"no certificate":        {"queue: {url: a, tls: {ca: empty}}\n", []string{`bullpen.yaml:1:27: queue.tls.ca: "empty" has no certificate`}},
	"of a server":           {"queue: {replicas: 3, tls: {ca: x}}\n", []string{"bullpen.yaml:1:19: queue.replicas: it is for jobs in queue.url, but they are in queue.dir", "bullpen.yaml:1:22: queue.tls: it is for", "bullpen.yaml:1:32: queue.tls.ca: "}},
	"of a folder":           {"queue: {url: a, reserve: 1G}\n", []string{"bullpen.yaml:1:26: queue.reserve: it is for jobs in queue.dir, but they are in queue.url"}},
	"of memory":             {"queue: {memory: true, dir: a}\n", []string{"bullpen.yaml:1:17: queue.memory: queue.dir and queue.memory exclude each other"}},
	"a cluster of ours":     {"queue: {dir: a, cluster: {name: a, replicas: 3}}\n", []string{"bullpen.yaml:1:17: queue.cluster: the daemon no longer runs a cluster server: run nats-server with JetStream on three machines, and set queue.url"}},
	"a bad URL":             {"queue: {url: 'http://u:hidden@a'}\n", []string{"bullpen.yaml:1:14: queue.url: address 1 is not the address of a server"}},
	"a worse URL":           {"queue: {url: ['a', 'nats://u:hidden@a:b']}\n", []string{"bullpen.yaml:1:14: queue.url: address 2 is not a URL"}},
	"two users":             {"queue: {url: 'u:hidden@a'}\n", nil},
	"different users":       {"queue: {url: 'nats://u:hidden@a,nats://v:hidden@b'}\n", []string{"bullpen.yaml:1:14: queue.url: the addresses have different users"}},
	"budget of workers":     {"budget: {workers: 2}\npools: {a: {command: go, workers: {min: 2}}, b: {command: go}}\n", []string{"bullpen.yaml:1:19: budget.workers: the pools need at least 3 workers"}},
	"budget of memory":      {"budget: {memory: 1G}\npools: {a: {command: go, workers: {min: 2, need: 1G}}}\n", []string{"bullpen.yaml:1:18: budget.memory: the minimum number of workers (workers.min, and one where that is 0) needs 2GiB"}},
	"no such dir":           {"pools: {a: {command: go, dir: none}}\n", []string{`bullpen.yaml:1:31: pools.a.dir: "none" cannot be used: `}},
	"dir is a file":         {"pools: {a: {command: go, dir: empty}}\n", []string{`bullpen.yaml:1:31: pools.a.dir: "empty" is a file`}},
	"what may be used":      {"pools: {a: {command: go, sandbox: {profile: strict, allow: [none]}}}\n", []string{`bullpen.yaml:1:60: pools.a.sandbox.allow: "none": stat `}},
	"preload of no Python":  {"pools: {a: {command: go, preload: [json]}}\n", []string{"bullpen.yaml:1:35: pools.a.preload: "}},
	"env is a list":         {"pools: {a: {command: go, env: [A=b]}}\n", []string{"bullpen.yaml:1:31: pools.a.env: it is a list: use names with values"}},
	"env of no name":        {"pools: {a: {command: go, env: {'A=B': hidden}}}\n", []string{`bullpen.yaml:1:31: pools.a.env: it has the name "A=B"`}},
	"nice 0":                {"pools: {a: {command: go, nice: 0}}\n", []string{`bullpen.yaml:1:32: pools.a.nice: "0": use a nice value from -20 to 19 other than 0, or host`}},
	"no number":             {"http: {rate: .nan}\n", []string{`bullpen.yaml:1:14: http.rate: ".nan": use a number of requests per second`}},
	"longest wait":          {"http: {max_wait: 25h}\n", []string{"bullpen.yaml:1:18: http.max_wait: \"25h\": use a duration"}},
	"backwards":             {"pools: {a: {retry: {backoff: 5m..1s}}}\n", []string{`bullpen.yaml:1:30: pools.a.retry.backoff: "5m..1s": use a duration such as 1s, or a range`}},
	"too much for a server": {"queue: {max_payload: 32M, max_result: 33M}\n", []string{"bullpen.yaml:1:22: queue.max_payload: it is 32MiB: use at most 31MiB", "bullpen.yaml:1:39: queue.max_result: it is 33MiB: use"}},
	"traces nowhere":        {"traces: {endpoint: localhost}\n", []string{"bullpen.yaml:1:20: traces.endpoint: it is not the URL of a collector: use a URL such as"}},
	"traces with a user":    {"traces: {endpoint: 'http://u:hidden@a:1'}\n", []string{"bullpen.yaml:1:20: traces.endpoint: it has a user, a query or a fragment"}},
	"too many samples":      {"traces: {sample: 1.5}\n", []string{`bullpen.yaml:1:18: traces.sample: "1.5": use a number from 0 to 1`}},
	"headers are a text":    {"traces: {headers: hidden}\n", []string{"bullpen.yaml:1:19: traces.headers: use names with values"}},
	"a header is a list":    {"traces: {headers: {A: [hidden]}}\n", []string{`bullpen.yaml:1:19: traces.headers: "A" has a list: use a text`}},
	"no name of a header":   {"traces: {headers: {'A B': hidden}}\n", []string{"bullpen.yaml:1:19: traces.headers: it has a name that is not valid for a header"}},
	"a header of its own":   {"traces: {headers: {content-type: hidden}}\n", []string{"bullpen.yaml:1:19: traces.headers: content-type is set by the daemon itself"}},
	"a header twice":        {"traces: {headers: {a: hidden, A: hidden}}\n", []string{"bullpen.yaml:1:19: traces.headers: it has \"A\" twice"}},
	"a header of two lines": {"traces: {headers: {A: \"hidden\\nb\"}}\n", []string{"bullpen.yaml:1:19: traces.headers: the value of A has characters that are not visible ASCII"}},
	"a file of no headers":  {"traces: {headers: {A: b}, headers_file: headers}\n", []string{"bullpen.yaml:1:41: traces.headers_file: line 1 of the file has no colon", "bullpen.yaml:1:41: traces.headers_file: line 3 of the file: A is set twice"}},
	"hosts with a scheme":   {"http: {hosts: ['http://a']}\n", []string{"bullpen.yaml:1:15: http.hosts: it is a list: use host names"}},
}

func TestFaults(t *testing.T) {
	t.Parallel()
	for name, c := range faultCases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			folder := t.TempDir()
			writeFiles(t, folder, map[string]string{"empty": "", "headers": "hidden\n\na: hidden\n"})
			_, err := load(t, folder, c.text)
			if err == nil && len(c.want) > 0 {
				t.Fatalf("no fault is reported of %q", c.want)
			}
			wantFaults(t, err, folder, c.want...)
			if err != nil && strings.Contains(err.Error(), "hidden") {
				t.Errorf("a secret is shown: %v", err)
			}
		})
	}
}

func TestBounds(t *testing.T) {
	t.Parallel()
	var bomb, merges strings.Builder
	bomb.WriteString("x-a: &a [1,1,1,1,1,1,1,1]\n")
	for c := 'b'; c < 'k'; c++ {
		fmt.Fprintf(&bomb, "x-%c: &%c [*%[3]c,*%[3]c,*%[3]c,*%[3]c,*%[3]c,*%[3]c,*%[3]c,*%[3]c]\n", c, c, c-1)
	}
	merges.WriteString("x-a: &a {k: 1}\n")
	for c := 'b'; c < 'z'; c++ {
		fmt.Fprintf(&merges, "x-%c: &%c {<<: [*%[3]c,*%[3]c,*%[3]c]}\n", c, c, c-1)
	}
	deep := "x-a: " + strings.Repeat("[", 50) + strings.Repeat("]", 50)
	for name, text := range map[string]string{"aliases": bomb.String(), "merges": merges.String(), "depth": deep} {
		_, err := load(t, t.TempDir(), text)
		if err == nil || !strings.Contains(err.Error(), "too large: use ") || strings.Count(err.Error(), "\n") > 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := load(t, t.TempDir(), strings.Repeat("#", mostBytes+1)); err == nil || !strings.Contains(err.Error(), "1048577 bytes: use at most 1048576") {
		t.Errorf("a large file: %v", err)
	}
	var nonsense strings.Builder
	for i := range 2 * mostFaults {
		fmt.Fprintf(&nonsense, "k%d: 1\n", i)
	}
	_, err := load(t, t.TempDir(), nonsense.String())
	if err == nil || strings.Count(err.Error(), "\n") != mostFaults || !strings.Contains(err.Error(), "fix these first") {
		t.Errorf("nonsense: %d lines", strings.Count(err.Error(), "\n"))
	}
}

func TestNoFile(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	_, err := Load(Source{Path: filepath.Join(folder, "bullpen.yaml")})
	wantFaults(t, err, folder, "bullpen.yaml: it cannot be read: ")
	name := filepath.Join(folder, "there.yaml")
	if err := os.WriteFile(name, []byte("node: there\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := Load(Source{Path: name})
	if err != nil || s.Node != "there" || s.Path != name {
		t.Errorf("%v, %v", s, err)
	}
}

// A service of Kubernetes whose name begins with ours puts such variables into
// every container beside it.
func TestVariablesOfServices(t *testing.T) {
	t.Parallel()
	if _, err := Load(Source{Env: []string{
		"BULLPEN_PORT=tcp://10.0.0.1:8650", "BULLPEN_SERVICE_HOST=10.0.0.1", "BULLPEN_HTTP_SERVICE_HOST=10.0.0.1", "BULLPEN_HTTP_SERVICE_PORT=8650",
		"BULLPEN_HTTP_SERVICE_PORT_API=8650", "BULLPEN_HTTP_PORT=tcp://10.0.0.1:8650", "BULLPEN_QUEUE_PORT_4222_TCP=tcp://10.0.0.1:4222",
		"BULLPEN_QUEUE_PORT_4222_TCP_ADDR=10.0.0.1", "BULLPEN_QUEUE_PORT_4222_TCP_PROTO=tcp", "BULLPEN_QUEUE_PORT_4222_TCP_PORT=4222",
	}}); err != nil {
		t.Error(err)
	}
}

func TestNearest(t *testing.T) {
	t.Parallel()
	for written, want := range map[string]string{
		"workrs": "workers", "worker": "workers", "wrokers": "workers", "Workers": "workers", "queu": "queue", "x": "", "retrys": "retry", "retries": "", "": "",
		strings.Repeat("workers", 20): "",
	} {
		if got := nearest(written, []string{"workers", "queue", "retry"}); got != want {
			t.Errorf("nearest to %q is %q, want %q", written, got, want)
		}
	}
	for _, c := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"a", "", 1}, {"", "ab", 2}, {"ab", "ba", 1}, {"kitten", "sitting", 3}, {"abcd", "acbd", 1}} {
		if got := distance(c.a, c.b); got != c.want {
			t.Errorf("distance of %q and %q is %d, want %d", c.a, c.b, got, c.want)
		}
	}
}

// TestTokensAreChecked wants what is wrong with a file of tokens among the other faults.
func TestTokensAreChecked(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	file := filepath.Join(folder, "tokens")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Load(Source{
		Path: filepath.Join(folder, "bullpen.yaml"), Text: []byte("nod: a\nhttp: {tokens: tokens}\n"),
		CheckTokens: func(path string) error {
			if path != file {
				t.Errorf("asked about %s, want %s", path, file)
			}
			return errors.Join(errors.New("one"), errors.New("two"))
		},
	})
	wantFaults(t, err, folder, "bullpen.yaml:1:1: nod: ", "bullpen.yaml:2:16: http.tokens: one", "bullpen.yaml:2:16: http.tokens: two")
}
