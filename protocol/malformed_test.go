package protocol_test

import (
	"encoding/hex"
	"testing"

	"github.com/bullpen-run/bullpen/protocol"
)

type streamRow struct {
	name  string
	first bool // the bytes stand in the place of HELLO
	bytes []byte
	fault string
}

// task and meta make TASK frames with number 1.
func task(handler uint16, flags uint8, body ...[]byte) []byte {
	return frame(protocol.Header{Kind: protocol.Task, Flags: flags, Code: handler, ID: 1}, body...)
}

func answer(kind protocol.Kind, flags uint8, code uint16, id uint32, body ...[]byte) []byte {
	return frame(protocol.Header{Kind: kind, Flags: flags, Code: code, ID: id}, body...)
}

func hello(body []byte) []byte {
	return frame(protocol.Header{Kind: protocol.Hello, Code: protocol.Version}, body)
}

func join(parts ...[]byte) []byte {
	var all []byte
	for _, p := range parts {
		all = append(all, p...)
	}
	return all
}

// cutPairs lists pairs that are cut short or padded, in every way there is.
var cutPairs = []struct {
	name  string
	body  []byte
	fault string
}{
	{"no count", []byte{1}, "pairs are cut short: no count"},
	{"count without pairs", []byte{1, 0}, "pair 1 of 1 is cut short"},
	{"half a key length", []byte{1, 0, 3}, "pair 1 of 1 is cut short"},
	{"half a key", []byte{1, 0, 3, 0, 'k', 'e'}, "the key of pair 1 of 1 is cut short"},
	{"no value length", []byte{1, 0, 1, 0, 'k'}, "the key of pair 1 of 1 is cut short"},
	{"half a value length", []byte{1, 0, 1, 0, 'k', 1, 0}, "the key of pair 1 of 1 is cut short"},
	{"half a value", []byte{1, 0, 1, 0, 'k', 2, 0, 0, 0, 'v'}, `the value of "k" is cut short`},
	{"huge value length", []byte{1, 0, 1, 0, 'k', 255, 255, 255, 255, 'v'}, `the value of "k" is cut short`},
	{"count of one too many", append([]byte{2, 0}, pairs("k", "v")[2:]...), "pair 2 of 2 is cut short"},
	{"huge count", []byte{255, 255, 1, 0, 'k', 0, 0, 0, 0}, "pair 2 of 65535 is cut short"},
	{"empty key", []byte{1, 0, 0, 0, 1, 0, 0, 0, 'v'}, "a pair has an empty key"},
	{"key that is not UTF-8", []byte{1, 0, 2, 0, 0xC3, 0x28, 0, 0, 0, 0}, `is not UTF-8`},
}

// eitherWay lists faults that end a session on both sides.
func eitherWay() []streamRow {
	rows := []streamRow{
		{"unknown kind 0", false, frame(protocol.Header{Kind: 0}), "frame of unknown kind 0"},
		{"unknown kind 13", false, frame(protocol.Header{Kind: 13}), "frame of unknown kind 13"},
		{"unknown kind 255", false, frame(protocol.Header{Kind: 255}), "frame of unknown kind 255"},
		{"unknown kind before HELLO", true, frame(protocol.Header{Kind: 13}), "frame of unknown kind 13"},
		{"length over the bound", false,
			protocol.AppendHeader(nil, protocol.Header{Kind: protocol.Ping, Length: protocol.DefaultFrame + 1}), "frame of 67108865 bytes; the bound is 67108864"},
		{"largest length", false,
			protocol.AppendHeader(nil, protocol.Header{Kind: protocol.Drain, Length: 1<<32 - 1}), "frame of 4294967295 bytes; the bound is 67108864"},
		{"length over the bound before HELLO", true,
			protocol.AppendHeader(nil, protocol.Header{Kind: protocol.Hello, Code: 1, Length: protocol.DefaultFrame + 1}), "frame of 67108865 bytes; the bound is 67108864"},
		{"second HELLO", false, hello(pairs("tasks", "echo")), "a second HELLO"},
		{"HELLO of version 0", true, answer(protocol.Hello, 0, 0, 0, pairs("tasks", "echo")), "HELLO of version 0"},
		{"HELLO of version 2", true, answer(protocol.Hello, 0, 2, 0, pairs("tasks", "echo")), "HELLO of version 2"},
		{"PING before HELLO", true, frame(protocol.Header{Kind: protocol.Ping}), "PING before HELLO"},
		{"DRAIN before HELLO", true, frame(protocol.Header{Kind: protocol.Drain}), "DRAIN before HELLO"},
		{"HELLO with an empty body", true, hello(nil), "pairs are cut short: no count"},
		{"HELLO with bytes behind the pairs", true, hello(append(pairs("tasks", "echo"), 0)), "1 bytes stand behind the pairs"},
		{"HELLO with a max_frame that is no number", true, hello(pairs("tasks", "echo", "max_frame", "much")), "max_frame is not a number"},
		{"PING with a body", false, frame(protocol.Header{Kind: protocol.Ping}, []byte{0}), "PING has a body"},
		{"DRAIN with a body", false, frame(protocol.Header{Kind: protocol.Drain}, []byte("now")), "DRAIN has a body"},
	}
	for _, c := range cutPairs {
		rows = append(rows, streamRow{"HELLO: " + c.name, true, hello(c.body), c.fault})
	}
	return rows
}

func toWorker() []streamRow {
	ref := protocol.Reference{Offset: 4096, Length: 40000}
	rows := append(eitherWay(), []streamRow{
		{"TASK before HELLO", true, task(1, 0, []byte("x")), "TASK before HELLO"},
		{"CANCEL before HELLO", true, answer(protocol.Cancel, 0, 4, 1), "CANCEL before HELLO"},
		{"HELLO with an output that is no number", true, hello(pairs("output", "-1")), "output is not a number"},
		{"TASK with handler 0", false, task(0, 0), "TASK for handler 0, which is unknown"},
		{"TASK with handler 7", false, task(7, 0), "TASK for handler 7, which is unknown"},
		{"TASK with number 0", false, answer(protocol.Task, 0, 1, 0, []byte("x")), "TASK has number 0"},
		{"TASK with a bullpen.output that is no number", false, task(1, protocol.Meta, pairs("bullpen.output", "x")), "bullpen.output is not a number"},
		{"arena reference of 0 bytes", false, task(1, protocol.Arena), "an arena reference of 0 bytes"},
		{"arena reference of 15 bytes", false, task(1, protocol.Arena, ref.AppendRequest(nil)[:15]), "an arena reference of 15 bytes"},
		{"arena reference of 24 bytes", false, task(1, protocol.Arena, ref.AppendReply(nil)), "an arena reference of 24 bytes"},
		{"arena reference of 17 bytes behind pairs", false,
			task(1, protocol.Arena|protocol.Meta, pairs("k", "v"), ref.AppendRequest(nil), []byte{0}), "an arena reference of 17 bytes"},
		{"arena reference without shared memory", false, task(1, protocol.Arena, ref.AppendRequest(nil)), "there is no shared memory"},
		{"RESULT to a worker", false, answer(protocol.Result, 0, 0, 1), "RESULT goes from worker to host"},
		{"ERROR to a worker", false, answer(protocol.Error, 0, 1, 1, pairs("message", "no")), "ERROR goes from worker to host"},
		{"RETURNED to a worker", false, answer(protocol.Returned, 0, 0, 1), "RETURNED goes from worker to host"},
		{"STARTED to a worker", false, answer(protocol.Started, 0, 0, 1), "STARTED goes from worker to host"},
		{"PROGRESS to a worker", false, answer(protocol.Progress, 0, 0, 1), "PROGRESS goes from worker to host"},
		{"LOG to a worker", false, answer(protocol.Log, 0, 32768, 0, []byte("x")), "LOG goes from worker to host"},
		{"CHUNK to a worker", false, answer(protocol.Chunk, 0, 0, 1, []byte("x")), "CHUNK goes from worker to host"},
		{"CANCEL with reason 0", false, answer(protocol.Cancel, 0, 0, 1), "CANCEL with reason 0"},
		{"CANCEL with reason 5", false, answer(protocol.Cancel, 0, 5, 1), "CANCEL with reason 5"},
		{"CANCEL with a body", false, answer(protocol.Cancel, 0, 4, 1, []byte("x")), "CANCEL has a body"},
		{"good task, then unknown kind", false, join(task(1, 0, []byte("x")), frame(protocol.Header{Kind: 99})), "frame of unknown kind 99"},
		{"half a header, then end of file", false, task(1, 0, []byte("x"))[:9], "end of file in the middle of a frame"},
		{"header without body, then end of file", false, task(1, 0, []byte("x"))[:16], "end of file in the middle of a frame"},
		{"half a body, then end of file", false, task(1, 0, []byte("hello"))[:19], "end of file in the middle of a frame"},
		{"half a HELLO, then end of file", true, hello(pairs("worker", "w1"))[:20], "end of file in the middle of a frame"},
	}...)
	for _, c := range cutPairs {
		rows = append(rows, streamRow{"TASK: " + c.name, false, task(3, protocol.Meta, c.body), c.fault})
	}
	return rows
}

func toHost() []streamRow {
	reply := protocol.Reference{Offset: 4096, Length: 40000, Taken: 40000}
	rows := append(eitherWay(), []streamRow{
		{"RESULT before HELLO", true, answer(protocol.Result, 0, 0, 1, []byte("x")), "RESULT before HELLO"},
		{"HELLO without tasks", true, hello(pairs("sdk", "go/0.1")), "HELLO names no tasks"},
		{"HELLO with an empty task name", true, hello(pairs("tasks", "echo\n\nfail")), "HELLO names a task without a name"},
		{"HELLO with a task twice", true, hello(pairs("tasks", "echo\necho")), `HELLO names "echo" twice`},
		{"HELLO with concurrency 0", true, hello(pairs("tasks", "echo", "concurrency", "0")), "it is 1 to 960"},
		{"HELLO with concurrency 961", true, hello(pairs("tasks", "echo", "concurrency", "961")), "it is 1 to 960"},
		{"HELLO with a concurrency that is no number", true, hello(pairs("tasks", "echo", "concurrency", "two")), "concurrency is not a number"},
		{"HELLO with an ask that is no signal", true, hello(pairs("tasks", "echo", "caps", "page ask=urg")), "ask is not a number"},
		{"TASK to a host", false, task(1, 0), "TASK goes from host to worker"},
		{"CANCEL to a host", false, answer(protocol.Cancel, 0, 4, 1), "CANCEL goes from host to worker"},
		{"RESULT for a task never sent", false, answer(protocol.Result, 0, 0, 2, []byte("x")), "RESULT for task 2, which is not open"},
		{"RESULT for task 0", false, answer(protocol.Result, 0, 0, 0), "RESULT for task 0, which is not open"},
		{"RESULT twice", false, join(answer(protocol.Result, 0, 0, 1), answer(protocol.Result, 0, 0, 1)), "RESULT for task 1, which is not open"},
		{"ERROR behind RESULT", false, join(answer(protocol.Result, 0, 0, 1), answer(protocol.Error, 0, 1, 1, pairs())), "ERROR for task 1, which is not open"},
		{"RETURNED behind RESULT", false, join(answer(protocol.Result, 0, 0, 1), answer(protocol.Returned, 0, 0, 1)), "RETURNED for task 1, which is not open"},
		{"RETURNED for a task never sent", false, answer(protocol.Returned, 0, 0, 7), "RETURNED for task 7, which is not open"},
		{"RETURNED with a body", false, answer(protocol.Returned, 0, 0, 1, []byte("x")), "RETURNED has a body"},
		{"STARTED for a task never sent", false, answer(protocol.Started, 0, 0, 2), "STARTED for task 2, which is not open"},
		{"STARTED with a body", false, answer(protocol.Started, 0, 0, 1, []byte("x")), "STARTED has a body"},
		{"CHUNK before HELLO", true, answer(protocol.Chunk, 0, 0, 1, []byte("x")), "CHUNK before HELLO"},
		{"CHUNK that HELLO did not announce", true,
			join(hello(pairs("tasks", "echo")), answer(protocol.Chunk, 0, 0, 1, []byte("x"))), "which HELLO did not announce"},
		{"CHUNK without a body", false, answer(protocol.Chunk, 0, 0, 1), "CHUNK of 0 bytes"},
		{"CHUNK for a task never sent", false, answer(protocol.Chunk, 0, 0, 2, []byte("x")), "CHUNK for task 2, which is not open"},
		{"CHUNK for task 0", false, answer(protocol.Chunk, 0, 0, 0, []byte("x")), "CHUNK for task 0, which is not open"},
		{"CHUNK behind RESULT", false,
			join(answer(protocol.Result, 0, 0, 1), answer(protocol.Chunk, 0, 0, 1, []byte("x"))), "CHUNK for task 1, which is not open"},
		{"CHUNK behind ERROR", false,
			join(answer(protocol.Error, 0, 1, 1, pairs()), answer(protocol.Chunk, 0, 0, 1, []byte("x"))), "CHUNK for task 1, which is not open"},
		{"RETURNED behind CHUNK", false,
			join(answer(protocol.Chunk, 0, 0, 1, []byte("x")), answer(protocol.Returned, 0, 0, 1)), "RETURNED for task 1, which has chunks"},
		{"PROGRESS over 1000000", false, frame(protocol.Header{Kind: protocol.Progress, ID: 1, Aux: 1000001}), "PROGRESS of 1000001"},
		{"LOG from stream 3", false, frame(protocol.Header{Kind: protocol.Log, Code: 32768, Aux: 3}, []byte("x")), "LOG from stream 3"},
		{"arena reference of 16 bytes", false, answer(protocol.Result, protocol.Arena, 0, 1, reply.AppendRequest(nil)), "an arena reference of 16 bytes"},
		{"arena reference without shared memory", false, answer(protocol.Result, protocol.Arena, 0, 1, reply.AppendReply(nil)), "there is no shared memory"},
		{"ERROR with an empty body", false, answer(protocol.Error, 0, 1, 1), "pairs are cut short: no count"},
		{"ERROR with bytes behind the pairs", false, answer(protocol.Error, 0, 1, 1, pairs("message", "no"), []byte{7}), "1 bytes stand behind the pairs"},
		{"ERROR with outcome ok", false, answer(protocol.Error, 0, 0, 1, pairs()), "ERROR with outcome 0"},
		{"ERROR with outcome crashed", false, answer(protocol.Error, 0, 5, 1, pairs()), "ERROR with outcome 5"},
		{"ERROR with outcome memory", false, answer(protocol.Error, 0, 6, 1, pairs()), "ERROR with outcome 6"},
		{"ERROR with outcome 8", false, answer(protocol.Error, 0, 8, 1, pairs()), "ERROR with outcome 8"},
		{"ERROR with outcome 65535", false, answer(protocol.Error, 0, 65535, 1, pairs()), "ERROR with outcome 65535"},
	}...)
	for _, c := range cutPairs {
		rows = append(rows, streamRow{"ERROR: " + c.name, false, answer(protocol.Error, 0, 1, 1, c.body), c.fault})
	}
	return rows
}

func streamVectors() []streamVector {
	var all []streamVector
	for _, side := range []struct {
		to   string
		rows []streamRow
	}{{"worker", toWorker()}, {"host", toHost()}} {
		for _, r := range side.rows {
			all = append(all, streamVector{r.name, side.to, r.first, hex.EncodeToString(r.bytes), r.fault})
		}
	}
	return all
}

func TestMalformedVectors(t *testing.T) {
	t.Parallel()
	checkFile(t, "malformed.json", "streams", anys(streamVectors()))
}
