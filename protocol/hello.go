package protocol

import (
	"math"
	"slices"
	"strconv"
	"strings"
)

// HostHello is the content of a host's first frame, SPEC.md section 4.
type HostHello struct {
	Worker   string // name of the worker in logs
	PID      int    // process ID of the worker as seen by the host; 0 if unknown
	MaxFrame uint32 // longest body that the host accepts; 0 means DefaultFrame
	Output   uint64 // maximum size of a result in bytes; 0 means no limit
	// Request and Reply are the parts of the arena; zero without an arena.
	Request, Reply Part
	Chunks         bool // the word of caps: the host accepts CHUNK
}

// Append appends h as a frame.
func (h HostHello) Append(b []byte) []byte {
	kv := []string{"worker", h.Worker, "output", strconv.FormatUint(h.Output, 10)}
	if h.PID != 0 {
		kv = append(kv, "pid", strconv.Itoa(h.PID))
	}
	if h.MaxFrame != 0 {
		kv = append(kv, "max_frame", strconv.FormatUint(uint64(h.MaxFrame), 10))
	}
	if h.Request.Length != 0 || h.Reply.Length != 0 {
		kv = append(kv, "arena.request", h.Request.String(), "arena.reply", h.Reply.String())
	}
	if h.Chunks {
		kv = append(kv, "caps", capChunks)
	}
	return appendHello(b, kv)
}

// ParseHostHello reads the first frame of a host. A frame of another kind or version, or
// with invalid values, gives an [*InvalidError].
func ParseHostHello(h Header, body []byte) (hello HostHello, err error) {
	hello.MaxFrame = DefaultFrame
	err = parseHello(h, body, CheckToWorker, func(key, value string) error {
		var n uint64
		switch key {
		case "worker":
			hello.Worker = value
		case "pid":
			n, err = ParseNumber(key, value)
			hello.PID = int(n)
		case "max_frame":
			hello.MaxFrame, err = parseMaxFrame(value)
		case "output":
			hello.Output, err = ParseNumber(key, value)
		case "arena.request":
			hello.Request, err = ParsePart(value)
		case "arena.reply":
			hello.Reply, err = ParsePart(value)
		case "caps":
			hello.Chunks = slices.Contains(strings.Fields(value), capChunks)
		}
		return err
	})
	return hello, err
}

// WorkerHello is the content of a worker's first frame, SPEC.md section 4.
type WorkerHello struct {
	SDK         string   // name and version, such as "go/0.1"
	Tasks       []string // names of the handlers; the first has number 1
	Concurrency int      // handlers that may run at the same time; 0 means 1
	// Page, Arena, Started and Chunks are the words of caps.
	Page, Arena, Started, Chunks bool
	Ask                          int    // signal number, section 7; 0 means none
	MaxFrame                     uint32 // longest body that the worker accepts; 0 means DefaultFrame
}

// capChunks is the word of caps for CHUNK, on both sides.
const capChunks = "chunks"

// Append appends h as a frame.
func (h WorkerHello) Append(b []byte) []byte {
	var caps []string
	for _, c := range []struct {
		on   bool
		word string
	}{{h.Page, "page"}, {h.Arena, "arena"}, {h.Started, "started"}, {h.Chunks, capChunks}, {h.Ask != 0, "ask=" + strconv.Itoa(h.Ask)}} {
		if c.on {
			caps = append(caps, c.word)
		}
	}
	kv := []string{"sdk", h.SDK, "tasks", strings.Join(h.Tasks, "\n"),
		"concurrency", strconv.Itoa(max(1, h.Concurrency)), "caps", strings.Join(caps, " ")}
	if h.MaxFrame != 0 {
		kv = append(kv, "max_frame", strconv.FormatUint(uint64(h.MaxFrame), 10))
	}
	return appendHello(b, kv)
}

// ParseWorkerHello reads the first frame of a worker. A frame of another kind or version,
// or with invalid values, gives an [*InvalidError].
func ParseWorkerHello(h Header, body []byte) (hello WorkerHello, err error) {
	hello.MaxFrame, hello.Concurrency = DefaultFrame, 1
	err = parseHello(h, body, CheckToHost, func(key, value string) error {
		switch key {
		case "sdk":
			hello.SDK = value
		case "tasks":
			hello.Tasks = strings.Split(value, "\n")
		case "concurrency":
			n, err := ParseNumber(key, value)
			if err != nil {
				return err
			}
			if n < 1 || n > MaxConcurrency {
				return Invalidf("concurrency is %d; it is 1 to %d", n, MaxConcurrency)
			}
			hello.Concurrency = int(n)
		case "caps":
			return hello.parseCaps(value)
		case "max_frame":
			hello.MaxFrame, err = parseMaxFrame(value)
		}
		return err
	})
	if err == nil {
		err = CheckTasks(hello.Tasks)
	}
	return hello, err
}

func (h *WorkerHello) parseCaps(value string) error {
	for word := range strings.FieldsSeq(value) {
		switch number, isAsk := strings.CutPrefix(word, "ask="); {
		case isAsk:
			n, err := ParseNumber("ask", number)
			if err != nil {
				return err
			}
			h.Ask = int(n)
		case word == "page":
			h.Page = true
		case word == "arena":
			h.Arena = true
		case word == "started":
			h.Started = true
		case word == capChunks:
			h.Chunks = true
		}
	}
	return nil
}

// CheckTasks returns an error if names cannot be the handlers of a worker.
func CheckTasks(names []string) error {
	if len(names) == 0 {
		return Invalidf("HELLO names no tasks")
	}
	if len(names) > math.MaxUint16 {
		return Invalidf("HELLO names %d tasks; the bound is %d", len(names), math.MaxUint16)
	}
	seen := make(map[string]bool, len(names))
	for _, name := range names {
		switch {
		case name == "":
			return Invalidf("HELLO names a task without a name")
		case strings.Contains(name, "\n"):
			return Invalidf("HELLO names the task %q, which has a line feed", name)
		case seen[name]:
			return Invalidf("HELLO names %q twice", name)
		}
		seen[name] = true
	}
	return nil
}

func appendHello(b []byte, kv []string) []byte {
	body := BeginPairs(nil, len(kv)/2)
	for i := 0; i < len(kv); i += 2 {
		body = AppendPair(body, kv[i], kv[i+1])
	}
	return AppendFrame(b, Header{Kind: Hello, Code: Version}, body)
}

func parseHello(h Header, body []byte, check func(Header, []byte) error, each func(key, value string) error) error {
	if h.Kind != Hello {
		return Invalidf("%v before HELLO", h.Kind)
	}
	if err := check(h, body); err != nil {
		return err
	}
	pairs, err := ParseAllPairs(body)
	if err != nil {
		return err
	}
	for _, p := range pairs {
		if err := each(p.Key, string(p.Value)); err != nil {
			return err
		}
	}
	return nil
}

func parseMaxFrame(value string) (uint32, error) {
	n, err := ParseNumber("max_frame", value)
	if err == nil && n > math.MaxUint32 {
		err = Invalidf("max_frame is %d; a frame has up to %d", n, uint32(math.MaxUint32))
	}
	return uint32(n), err
}
