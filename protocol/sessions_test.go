package protocol_test

import (
	"encoding/hex"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/bullpen-run/bullpen/protocol"
)

// The numbers of the standard handlers of the vectors.
const (
	hEcho = iota + 1
	hFail
	hMeta
	hBig
	hAny
	hChunks
)

func send(frames ...[]byte) step {
	s := hex.EncodeToString(join(frames...))
	return step{Send: &s}
}

// sendBytes sends b one byte at a time.
func sendBytes(b []byte) []step {
	var steps []step
	for i := range b {
		steps = append(steps, send(b[i:i+1]))
	}
	return steps
}

func exits(status int) step { return step{Exit: &status} }

func result(id uint32, body string) step {
	s := hex.EncodeToString([]byte(body))
	return step{Expect: &expect{Kind: protocol.Result, ID: id, Body: &s}}
}

// chunks are the steps for a result that comes in pieces of one byte, and its end.
func chunks(id uint32, body string) []step {
	var all []step
	for i := range len(body) {
		s := hex.EncodeToString([]byte(body[i : i+1]))
		all = append(all, step{Expect: &expect{Kind: protocol.Chunk, ID: id, Body: &s}})
	}
	return append(all, result(id, ""))
}

func failure(id uint32, code uint16, flags uint8, pairs map[string]string) step {
	return step{Expect: &expect{Kind: protocol.Error, Code: code, Flags: flags, ID: id, Pairs: pairs}}
}

func pong(aux uint32) step {
	empty := ""
	return step{Expect: &expect{Kind: protocol.Ping, Flags: protocol.Ack, Aux: &aux, Body: &empty}}
}

// run is the TASK frame with a number, for a standard handler.
func run(id uint32, handler uint16, payload string) []byte {
	return frame(protocol.Header{Kind: protocol.Task, Code: handler, ID: id}, []byte(payload))
}

func runMeta(id uint32, handler uint16, payload string, kv ...string) []byte {
	return frame(protocol.Header{Kind: protocol.Task, Flags: protocol.Meta, Code: handler, ID: id}, pairs(kv...), []byte(payload))
}

func ping(aux uint32) []byte { return frame(protocol.Header{Kind: protocol.Ping, Aux: aux}) }

var (
	plainHello = hello(pairs("worker", "w1", "pid", "1", "max_frame", "67108864", "output", "0"))
	greeting   = step{Expect: &expect{Kind: protocol.Hello, Code: 1, Pairs: map[string]string{"tasks": "echo\nfail\nmeta\nbig\n*\nchunks"}}}
	closing    = step{Close: true}
	longKey    = strings.Repeat("k", 300)
)

// session begins with HELLO both ways and ends by closing the channel.
func session(name string, steps ...step) sessionVector {
	all := append([]step{send(plainHello), greeting}, steps...)
	return sessionVector{name, append(all, closing, exits(0))}
}

func sessionVectors() []sessionVector {
	return slices.Concat(taskSessions(), channelSessions(), chunkSessions())
}

func chunkSessions() []sessionVector {
	accepts := func(kv ...string) []step {
		announces := step{Expect: &expect{Kind: protocol.Hello, Code: 1, Pairs: map[string]string{"caps": "chunks"}}}
		return []step{send(hello(pairs(append(kv, "caps", "chunks")...))), announces}
	}
	end := []step{closing, exits(0)}
	bounded := append(accepts("output", "2"), send(run(1, hChunks, "ab")))
	bounded = append(append(bounded, chunks(1, "ab")...), send(run(2, hChunks, "abc")))
	bounded = append(append(bounded, chunks(2, "ab")[:2]...), failure(2, 7, 0, nil), send(run(3, hEcho, "on")), result(3, "on"))
	between := append(accepts(), send(run(1, hEcho, "a"), run(2, hChunks, "xy"), run(3, hEcho, "b")), result(1, "a"))
	between = append(append(between, chunks(2, "xy")...), result(3, "b"))
	return []sessionVector{
		session("chunks for a host that accepts none", send(run(1, hChunks, "abc")), result(1, "abc")),
		session("no chunks", send(run(1, hChunks, "")), result(1, "")),
		{"chunks", slices.Concat(accepts(), []step{send(run(1, hChunks, "abc"))}, chunks(1, "abc"), end)},
		{"chunks between other answers", append(between, end...)},
		{"output bound of chunks", append(bounded, end...)},
	}
}

func taskSessions() []sessionVector {
	return []sessionVector{
		session("hello and echo", send(run(1, hEcho, "hello")), result(1, "hello")),
		session("three tasks in one write",
			send(run(1, hEcho, "a"), run(2, hEcho, "b"), run(3, hEcho, "c")), result(1, "a"), result(2, "b"), result(3, "c")),
		session("pairs of the caller", send(runMeta(1, hMeta, "",
			"b", "2", "bullpen.id", "01J", "a", "x y", "größe", "日本", "empty", "", longKey, "long")),
			result(1, "a=x y\nb=2\nempty=\ngröße=日本\n"+longKey+"=long")),
		session("a key twice: the last counts", send(runMeta(1, hMeta, "", "k", "first", "k", "last")), result(1, "k=last")),
		session("pairs and payload", send(runMeta(1, hEcho, "payload", "k", "v")), result(1, "payload")),
		session("META without pairs", send(runMeta(1, hMeta, "")), result(1, ""), send(runMeta(2, hEcho, "p")), result(2, "p")),
		session("meta without META", send(run(1, hMeta, "ignored")), result(1, "")),
		session("empty payload", send(run(1, hEcho, "")), result(1, "")),
		session("every byte", send(run(1, hEcho, everyByte())), result(1, everyByte())),
		session("fail, another try may help", send(run(1, hFail, "try later")), failure(1, 1, 0, map[string]string{"message": "try later"})),
		session("fail for good", send(run(1, hFail, "!no such user")),
			failure(1, 1, protocol.Final, map[string]string{"message": "!no such user"})),
		session("the worker lives on after a failure",
			send(run(1, hFail, "a"), run(2, hEcho, "b")), failure(1, 1, 0, map[string]string{"message": "a"}), result(2, "b")),
		session("catch-all", send(runMeta(1, hAny, "x", "bullpen.name", "resize")), result(1, "any:resize")),
		session("big result in its frame", send(run(1, hBig, "100000")), result(1, strings.Repeat("\x00", 100000))),
		session("big payload in its frame", send(run(1, hEcho, strings.Repeat("payload.", 5000))), result(1, strings.Repeat("payload.", 5000))),
		{"output bound of HELLO", []step{
			send(hello(pairs("output", "10"))), greeting,
			send(run(1, hBig, "10")), result(1, strings.Repeat("\x00", 10)),
			send(run(2, hBig, "11")), failure(2, 7, 0, nil),
			send(run(3, hEcho, "goes on")), result(3, "goes on"), closing, exits(0)}},
		session("output bound of a task",
			send(runMeta(1, hBig, "5", "bullpen.output", "5")), result(1, strings.Repeat("\x00", 5)),
			send(runMeta(2, hBig, "6", "bullpen.output", "5")), failure(2, 7, 0, nil),
			send(run(3, hBig, "6")), result(3, strings.Repeat("\x00", 6))),
		{"output bound of a task in place of that of HELLO", []step{
			send(hello(pairs("output", "10"))), greeting,
			send(runMeta(1, hBig, "20", "bullpen.output", "30")), result(1, strings.Repeat("\x00", 20)),
			send(run(2, hBig, "20")), failure(2, 7, 0, nil), closing, exits(0)}},
		session("the numbers wrap", send(run(math.MaxUint32, hEcho, "last"), run(1, hEcho, "first")),
			result(math.MaxUint32, "last"), result(1, "first")),
		session("limits that are far away", send(
			frame(protocol.Header{Kind: protocol.Task, Flags: protocol.Timeout, Code: hEcho, ID: 1, Aux: 60000000}, []byte("x")),
			frame(protocol.Header{Kind: protocol.Task, Flags: protocol.Timeout, Code: hEcho, ID: 2, Aux: math.MaxUint32}, []byte("y"))),
			result(1, "x"), result(2, "y")),
		session("aux without TIMEOUT is no limit",
			send(frame(protocol.Header{Kind: protocol.Task, Code: hEcho, ID: 1, Aux: 1}, []byte("x"))), result(1, "x")),
	}
}

func channelSessions() []sessionVector {
	three := join(run(1, hEcho, "a"), run(2, hEcho, "b"), run(3, hEcho, "c"))
	drain := frame(protocol.Header{Kind: protocol.Drain})
	split := []step{send(plainHello), greeting}
	split = append(append(split, sendBytes(run(1, hEcho, "split"))...), result(1, "split"), closing, exits(0))
	splitHello := append(sendBytes(plainHello), greeting, send(run(1, hEcho, "x")), result(1, "x"), closing, exits(0))
	return []sessionVector{
		session("nothing to do"),
		{"closed before HELLO", []step{closing, exits(0)}},
		{"HELLO and a task in one write", []step{send(plainHello, run(1, hEcho, "x")), greeting, result(1, "x"), closing, exits(0)}},
		{"HELLO with unknown keys and flags", []step{
			send(frame(protocol.Header{Kind: protocol.Hello, Flags: 0xE0, Code: 1}, pairs("future", "1", "worker", "w1"))), greeting,
			send(run(1, hEcho, "x")), result(1, "x"), closing, exits(0)}},
		session("unknown flags",
			send(frame(protocol.Header{Kind: protocol.Task, Flags: 0xE0, Code: hEcho, ID: 1}, []byte("x"))), result(1, "x")),
		session("ping", send(ping(0xDEADBEEF)), pong(0xDEADBEEF), send(ping(0)), pong(0)),
		session("ping behind a task", send(run(1, hEcho, "x"), ping(7)), result(1, "x"), pong(7)),
		session("an answer to a ping never sent is ignored",
			send(frame(protocol.Header{Kind: protocol.Ping, Flags: protocol.Ack, Aux: 5}), ping(6)), pong(6)),
		session("cancel of a task that is unknown or answered",
			send(answer(protocol.Cancel, 0, 4, 99)), send(run(1, hEcho, "x")), result(1, "x"),
			send(answer(protocol.Cancel, 0, 3, 1), ping(1)), pong(1)),
		session("cancel for the task after next does it no harm",
			send(answer(protocol.Cancel, 0, 4, 2), run(1, hEcho, "a"), run(2, hEcho, "b")), result(1, "a"), result(2, "b")),
		{"drain", []step{send(plainHello), greeting, send(run(1, hEcho, "x")), result(1, "x"), send(drain), exits(0)}},
		{"drain behind HELLO", []step{send(plainHello, drain), greeting, exits(0)}},
		{"end of file behind three tasks", []step{
			send(plainHello, three), closing, greeting, result(1, "a"), result(2, "b"), result(3, "c"), exits(0)}},
		{"task split into bytes", split},
		{"HELLO split into bytes", splitHello},
		session("a frame and a half, then the rest",
			send(three[:25]), result(1, "a"), send(three[25:40]), result(2, "b"), send(three[40:]), result(3, "c")),
	}
}

func everyByte() string {
	b := make([]byte, 256)
	for i := range b {
		b[i] = byte(i)
	}
	return string(b)
}

func TestSessionVectors(t *testing.T) {
	t.Parallel()
	checkFile(t, "sessions.json", "sessions", anys(sessionVectors()))
}
