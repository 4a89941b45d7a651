package archtest

// module is the import path of the root.
const module = "github.com/bullpen-run/bullpen"

// rule says what the packages of one folder, and of the folders below it that
// have no row of their own, may import besides the standard library. Packages
// of one row may import each other.
type rule struct {
	folder string
	ours   []string // folders of rows
	theirs []string // import paths, each with everything below it
	tests  []string // folders of rows that its tests may import besides
}

// rules is the table of who may import whom. Every package has a row.
var rules = []rule{
	{folder: ".", ours: []string{"internal/durations", "internal/feed"}},
	{folder: "protocol"},
	{folder: "internal/lifecycle"},
	{folder: "internal/schedule"},
	{folder: "internal/command"},
	{folder: "internal/durations"},
	{folder: "internal/feed"},
	{folder: "internal/jsonvalue", ours: []string{"."}},
	{folder: "internal/histogram", ours: []string{"."}},
	{folder: "internal/units"},
	{folder: "internal/wasmcode"},
	{folder: "internal/archtest"},
	{folder: "internal/leak", theirs: []string{"go.uber.org/goleak"}},
	{folder: "internal/probe", theirs: []string{"golang.org/x/sys"}},
	{folder: "internal/confine", ours: []string{"internal/probe"}, theirs: []string{"golang.org/x/sys"}},
	{folder: "internal/wire", ours: []string{".", "protocol", "internal/confine"}, theirs: []string{"golang.org/x/sys"}},
	{folder: "internal/engine"},
	{
		folder: "internal/engine/jet",
		ours:   []string{"internal/engine"},
		theirs: []string{"github.com/nats-io/nats.go"},
		tests:  []string{"internal/engine/enginetest", "internal/natstest"},
	},
	{folder: "internal/engine/memory", ours: []string{"internal/engine"}, tests: []string{"internal/engine/enginetest"}},
	{
		folder: "internal/engine/pebble",
		ours:   []string{"internal/engine", "internal/lifecycle"},
		theirs: []string{"github.com/cockroachdb/pebble"},
		tests:  []string{"internal/engine/enginetest"},
	},
	{
		folder: "internal/engine/transfer", ours: []string{"internal/engine"},
		tests: []string{"internal/engine/memory", "internal/engine/pebble", "internal/natstest", "job", "queue"},
	},
	{folder: "internal/engine/enginetest", ours: []string{"internal/engine"}},
	{folder: "internal/natstest", theirs: []string{"github.com/nats-io/nats.go"}},
	{folder: "pool", ours: []string{".", "internal/feed", "internal/histogram"}},
	{
		folder: "wasm",
		ours:   []string{".", "pool", "protocol", "internal/feed", "internal/histogram", "internal/wasmcode"},
		theirs: []string{"github.com/tetratelabs/wazero"},
	},
	{folder: "pool/poolhttp", ours: []string{".", "pool"}},
	{folder: "pool/poolprom", ours: []string{".", "pool", "internal/durations"}, theirs: []string{"github.com/prometheus/client_golang"}, tests: []string{"internal/metriclist"}},
	{folder: "process", ours: []string{".", "protocol", "internal/feed", "internal/wire", "internal/confine", "internal/probe"}},
	{folder: "process/processprom", ours: []string{".", "process", "internal/durations"}, theirs: []string{"github.com/prometheus/client_golang"}, tests: []string{"internal/metriclist"}},
	{folder: "internal/level", ours: []string{".", "process", "process/processprom"}},
	{folder: "queue/queueprom", ours: []string{".", "job", "queue", "internal/durations"}, theirs: []string{"github.com/prometheus/client_golang"}, tests: []string{"internal/metriclist"}},
	{folder: "internal/metriclist", theirs: []string{"github.com/prometheus/client_golang"}},
	{folder: "job", ours: []string{".", "internal/schedule", "internal/jsonvalue"}},
	// The layers of the queue: each imports what stands above it here, and queue is
	// their public face.
	{
		folder: "internal/queue/record", ours: []string{".", "job", "internal/engine"},
		theirs: []string{"github.com/oklog/ulid/v2"},
	},
	{
		folder: "internal/queue/jobs", ours: []string{".", "job", "internal/feed", "internal/histogram", "internal/engine", "internal/queue/record"},
		theirs: []string{"github.com/oklog/ulid/v2"},
		tests:  []string{"internal/engine/memory"},
	},
	{
		folder: "internal/queue/group", ours: []string{"job", "internal/engine", "internal/queue/record", "internal/queue/jobs"},
		tests: []string{"internal/engine/memory"},
	},
	{
		folder: "internal/queue/run",
		ours:   []string{".", "job", "internal/engine", "internal/queue/record", "internal/queue/jobs", "internal/queue/group"},
		tests:  []string{"internal/engine/memory"}, theirs: []string{"github.com/oklog/ulid/v2"}, // for tests
	},
	{
		folder: "internal/queue/batch",
		ours:   []string{".", "job", "internal/engine", "internal/queue/record", "internal/queue/jobs", "internal/queue/run"},
		theirs: []string{"github.com/oklog/ulid/v2"},
	},
	{folder: "internal/queue/cron", ours: []string{".", "job", "internal/histogram", "internal/schedule", "internal/engine", "internal/queue/record", "internal/queue/jobs"}},
	{
		folder: "queue",
		ours: []string{
			".", "job", "internal/engine", "internal/engine/jet", "internal/engine/memory", "internal/feed",
			"internal/queue/record", "internal/queue/jobs", "internal/queue/run", "internal/queue/batch", "internal/queue/cron",
		},
		theirs: []string{"github.com/nats-io/nats.go", "github.com/oklog/ulid/v2"},
		tests:  []string{"pool", "internal/queue/queuetest", "internal/queue/group"},
	},
	{folder: "internal/queue/queuetest", ours: []string{".", "job", "queue"}},
	{
		folder: "queue/embedded",
		ours:   []string{"job", "queue", "internal/engine", "internal/engine/pebble"},
		theirs: []string{"github.com/cockroachdb/pebble", "github.com/nats-io/nats.go"}, // for tests
		tests:  []string{"pool", "process", "internal/queue/queuetest", "internal/natstest", "internal/queue/record"},
	},
	{folder: "client", ours: []string{".", "job", "internal/jsonvalue"}, tests: []string{"pool", "process"}},
	{folder: "worker", ours: []string{".", "protocol"}},
	{folder: "executortest", ours: []string{"."}},
	{
		folder: "internal/daemon",
		ours: []string{
			".", "protocol", "pool", "pool/poolprom", "process", "process/processprom", "job", "queue", "queue/queueprom", "queue/embedded", "client",
			"internal/confine", "internal/daemon/trace", "internal/dashboard", "internal/feed", "internal/jsonvalue", "internal/level", "internal/probe", "internal/schedule", "internal/units", "internal/wire",
		},
		theirs: []string{
			"github.com/prometheus/client_golang", "go.yaml.in/yaml/v3", "github.com/oklog/ulid/v2", "github.com/nats-io/nats.go",
		},
		tests: []string{"internal/daemon/trace/tracetest", "internal/natstest"},
	},
	{
		folder: "internal/daemon/trace",
		ours:   []string{".", "internal/daemon", "internal/level", "job", "queue"},
		theirs: []string{"google.golang.org/protobuf"},
		tests:  []string{"internal/daemon/trace/tracetest", "pool"},
	},
	{folder: "internal/daemon/trace/tracetest", theirs: []string{"go.opentelemetry.io/proto/slim/otlp", "google.golang.org/protobuf"}},
	{folder: "internal/dashboard", ours: []string{"."}},
	{
		folder: "internal/cli",
		ours:   []string{".", "client", "process", "internal/command", "internal/confine", "internal/daemon", "internal/jsonvalue", "internal/level", "internal/engine", "internal/engine/pebble", "internal/engine/transfer", "internal/probe", "internal/queue/record", "internal/units", "job", "queue", "queue/embedded"},
		theirs: []string{"github.com/spf13/cobra", "github.com/spf13/pflag"},
		tests:  []string{"internal/natstest"},
	},
	{folder: "cmd/bullpen", ours: []string{"internal/cli"}},
	{folder: "examples", ours: []string{".", "client", "job", "pool", "process", "queue", "queue/embedded", "wasm", "worker"}},
}

// lifecycleBarred lists the rows that may not use the state machine. All others
// may.
var lifecycleBarred = []string{".", "protocol", "internal/lifecycle", "internal/probe"}

// forTests is what test files may import besides what their row allows.
var forTests = rule{
	ours: []string{
		".", "protocol", "worker", "executortest",
		"internal/leak", "internal/lifecycle", "internal/probe",
	},
	theirs: []string{"github.com/aws/aws-lambda-go", "github.com/creack/pty", "github.com/google/go-cmp", "github.com/rogpeppe/go-internal", "github.com/tetratelabs/wazero", "go.uber.org/goleak", "pgregory.net/rapid"},
}

// testingAllowed lists the rows whose product code may import testing.
var testingAllowed = []string{"executortest", "internal/engine/enginetest", "internal/leak", "internal/metriclist", "internal/natstest", "internal/queue/queuetest"}

// rawCallsAllowed lists the rows that may make system calls by number. The
// wrappers of package syscall are free to all.
var rawCallsAllowed = []string{"internal/confine", "internal/probe", "internal/wire"}

// badNames says of packages nothing, so none has one of them.
var badNames = []string{"util", "utils", "common", "types", "pkg", "core", "manager", "managers", "helper", "helpers", "misc", "shared", "lib"}

// The largest sizes, in lines. A function counts from its first line to its
// closing brace, without its doc comment.
const (
	mostFileLines     = 400
	mostFunctionLines = 60
)

// exceptions has the subjects that may break a rule, each with its reason. A key
// is the name of a rule and the subject as the fault gives it, such as
// "size: process/pool.go" or "size: process/pool.go: (*Pool).run".
var exceptions = map[string]string{
	"leak: internal/archtest": "it only reads files, and imports nothing of ours",
	"leak: internal/leak":     "its tests are about leak.Main, which it calls as Main",
}
