package protocol_test

import (
	"fmt"
	"math"
	"time"

	"github.com/bullpen-run/bullpen/protocol"
)

func ExampleAppendFrame() {
	b := protocol.AppendFrame(nil, protocol.Header{Kind: protocol.Task, Code: 1, ID: 7}, []byte("hi"))
	fmt.Printf("% x\n", b)
	// Output: 02 00 00 00 02 00 01 00 07 00 00 00 00 00 00 00 68 69
}

func ExampleAppendHeader() {
	// The body may follow from elsewhere; its length must be in the header.
	b := protocol.AppendHeader(nil, protocol.Header{Length: 2, Kind: protocol.Result, ID: 7})
	fmt.Println(protocol.ParseHeader(b))
	// Output: RESULT length=2 flags=0x00 code=0 id=7 aux=0
}

func ExampleSplit() {
	buffer := protocol.AppendFrame(nil, protocol.Header{Kind: protocol.Ping, Aux: 1}, nil)
	buffer = protocol.AppendFrame(buffer, protocol.Header{Kind: protocol.Result, ID: 7}, []byte("hi"))
	buffer = buffer[:len(buffer)-1] // the last byte has not come yet
	for {
		h, body, n, need, err := protocol.Split(buffer, protocol.DefaultFrame)
		if err != nil || n == 0 {
			fmt.Println("waits for", need-len(buffer), "byte, fault:", err)
			return
		}
		fmt.Printf("%v, body %q\n", h.Kind, body)
		buffer = buffer[n:]
	}
	// Output:
	// PING, body ""
	// waits for 1 byte, fault: <nil>
}

func ExampleParsePairs() {
	body := protocol.BeginPairs(nil, 1)
	body = protocol.AppendPair(body, "traceparent", "00-4bf9")
	body = append(body, "payload"...)
	pairs, payload, err := protocol.ParsePairs(body)
	value, ok := protocol.Lookup(pairs, "traceparent")
	fmt.Printf("%s %v %s %v\n", value, ok, payload, err)
	_, err = protocol.ParseAllPairs(body)
	fmt.Println(err)
	// Output:
	// 00-4bf9 true payload <nil>
	// protocol: 7 bytes stand behind the pairs
}

func ExampleCheckPair() {
	fmt.Println(protocol.CheckPair("traceparent"), protocol.CheckPair(""))
	// Output: <nil> protocol: a pair has an empty key
}

func ExampleWorkerHello() {
	b := protocol.WorkerHello{SDK: "go/0.1", Tasks: []string{"echo", "*"}, Page: true}.Append(nil)
	h, body, _, _, err := protocol.Split(b, protocol.DefaultFrame)
	if err != nil {
		fmt.Println(err)
		return
	}
	hello, err := protocol.ParseWorkerHello(h, body)
	fmt.Println(hello.SDK, hello.Tasks, hello.Concurrency, hello.Page, hello.Arena, err)
	// Output: go/0.1 [echo *] 1 true false <nil>
}

func ExampleHostHello() {
	b := protocol.HostHello{Worker: "w1", Output: 1 << 20}.Append(nil)
	h, body, _, _, err := protocol.Split(b, protocol.DefaultFrame)
	if err != nil {
		fmt.Println(err)
		return
	}
	hello, err := protocol.ParseHostHello(h, body)
	fmt.Println(hello.Worker, hello.Output, hello.MaxFrame, err)
	// Output: w1 1048576 67108864 <nil>
}

func ExampleCheckToWorker() {
	fmt.Println(protocol.CheckToWorker(protocol.Header{Kind: protocol.Result, ID: 1}, nil))
	// Output: protocol: RESULT goes from worker to host
}

func ExampleCheckToHost() {
	fmt.Println(protocol.CheckToHost(protocol.Header{Kind: protocol.Error, Code: 5, ID: 1}, nil))
	// Output: protocol: ERROR with outcome 5, which is none of a worker's
}

func ExampleCheckTasks() {
	fmt.Println(protocol.CheckTasks([]string{"echo", "echo"}))
	// Output: protocol: HELLO names "echo" twice
}

func ExampleParseNumber() {
	n, err := protocol.ParseNumber("output", "1048576")
	fmt.Println(n, err)
	// Output: 1048576 <nil>
}

func ExampleBefore() {
	fmt.Println(protocol.Before(1, 2), protocol.Before(math.MaxUint32, 1))
	// Output: true true
}

func ExampleNext() {
	fmt.Println(protocol.Next(1), protocol.Next(math.MaxUint32))
	// Output: 2 1
}

func ExampleMicros() {
	n, ok := protocol.Micros(1500*time.Microsecond + 1)
	fmt.Println(n, ok)
	// Output: 1501 true
}

func ExamplePage() {
	memory := aligned(protocol.PageSize) // in earnest: mapped by both sides
	page, err := protocol.NewPage(memory)
	if err != nil {
		fmt.Println(err)
		return
	}
	page.Init()
	fmt.Println("task 1 starts:", page.Begin(1))
	page.End(1)
	fmt.Println("recalled after task", page.Recall(2))
	fmt.Println("task 2 starts:", page.Begin(2))
	// Output:
	// task 1 starts: true
	// recalled after task 1
	// task 2 starts: false
}

func ExampleRing() {
	ring := protocol.Ring{Part: protocol.Part{Offset: 4096, Length: 128}}
	first, ok := ring.Reserve(100, 0)
	fmt.Println(first, ok)
	_, ok = ring.Reserve(64, 0) // the host has not copied the first one out
	fmt.Println(ok)
	again, ok := ring.Reserve(64, first.Taken)
	fmt.Println(again, ok)
	// Output:
	// {4096 100 128} true
	// false
	// {4096 64 192} true
}

func ExamplePart() {
	part, err := protocol.ParsePart("4096 100")
	fmt.Println(part.Offset, part.Length, err)
	_, err = part.Slice(make([]byte, 8192), protocol.Reference{Offset: 4000, Length: 10})
	fmt.Println(err)
	// Output:
	// 4096 100 <nil>
	// protocol: an arena reference to 10 bytes at 4000 lies outside its part (100 bytes at 4096)
}

func ExampleInvalidf() {
	fmt.Println(protocol.Invalidf("frame of unknown %v", protocol.Kind(99)))
	// Output: protocol: frame of unknown kind 99
}
