//go:build unix

package process

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/bullpen-run/bullpen/protocol"
)

// zoo is a collection of bad workers: each speaks the protocol by hand, up to the
// point where it lies. The role says what happens with a task.
func zoo(role string, args []string) {
	switch role {
	case "exit-at-start":
		fmt.Fprintln(os.Stderr, "cannot import nonsense")
		os.Exit(7)
	case "silent-start":
		<-time.After(time.Hour)
	case "hog", "hog-and-stay":
		if err := hog(args[0]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		if role == "hog-and-stay" {
			<-time.After(time.Hour)
		}
		return
	case "upper-lines":
		upperLines()
		return
	}
	out, in := os.NewFile(4, "out"), os.NewFile(3, "in")
	r := bufio.NewReader(in)
	if _, _, ok := readFrame(r); !ok {
		os.Exit(1)
	}
	switch role {
	case "wrong-version":
		write(out, protocol.Header{Kind: protocol.Hello, Code: 99}, nil)
		<-time.After(time.Hour)
	case "garbage-hello":
		_, _ = out.WriteString("Welcome to my worker!\n")
		<-time.After(time.Hour)
	}
	hello := protocol.BeginPairs(nil, 3)
	hello = protocol.AppendPair(hello, "tasks", "any")
	hello = protocol.AppendPair(hello, "sdk", "zoo/1")
	hello = protocol.AppendPair(hello, "caps", caps(role))
	write(out, protocol.Header{Kind: protocol.Hello, Code: protocol.Version}, hello)
	served := 0
	for {
		h, body, ok := readFrame(r)
		if !ok {
			os.Exit(0)
		}
		if h.Kind != protocol.Task {
			continue
		}
		served++
		if denies(role, out, h, body) {
			continue
		}
		if len(args) > 0 && strconv.Itoa(served) != args[0] {
			write(out, protocol.Header{Kind: protocol.Result, ID: h.ID, Aux: 1}, body)
			continue
		}
		misbehave(role, out, h, body)
	}
}

func misbehave(role string, out *os.File, h protocol.Header, body []byte) {
	if strings.HasPrefix(role, "chunk-") {
		chunkRole(role, out, h)
	}
	answer := protocol.Header{Kind: protocol.Result, ID: h.ID, Aux: 1}
	switch role {
	case "half-frame":
		answer.Length = 100
		_, _ = out.Write(append(protocol.AppendHeader(nil, answer), "half"...))
		os.Exit(9)
	case "half-header":
		_, _ = out.Write(protocol.AppendHeader(nil, answer)[:7])
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	case "wrong-id":
		answer.ID += 1000
		write(out, answer, body)
	case "double-answer":
		write(out, answer, body)
		write(out, answer, body)
	case "unknown-kind":
		answer.Kind = 77
		write(out, answer, body)
	case "text":
		_, _ = out.WriteString("Traceback (most recent call last):\n")
	case "huge":
		answer.Length = 1 << 31
		_, _ = out.Write(protocol.AppendHeader(nil, answer))
	case "bad-outcome":
		answer.Kind, answer.Code = protocol.Error, 5
		write(out, answer, protocol.BeginPairs(nil, 0))
	case "bad-pairs":
		answer.Kind, answer.Code = protocol.Error, 1
		write(out, answer, []byte{9, 9, 9})
	case "closes-output":
		_ = out.Close()
		<-time.After(time.Hour)
	case "never-answers":
		<-time.After(time.Hour)
	case "arena-unannounced":
		answer.Flags = protocol.Arena
		write(out, answer, make([]byte, protocol.ReplyReference))
	}
}

// deniers keep the shared page, by their word, and never write to it.
var deniers = []string{"denies-exit", "denies-hang", "denies-close", "denies-return", "denies-oldest"}

func caps(role string) string {
	if slices.Contains(deniers, role) {
		return "page"
	}
	switch role {
	case "chunk-unannounced":
		return ""
	case "chunk-exit":
		return "chunks page" // to which it writes nothing
	default:
		return "chunks"
	}
}

// denyOldest says that a task runs which was answered long ago.
func denyOldest() {
	memory, err := syscall.Mmap(5, 0, protocol.PageSize, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err != nil {
		panic(err)
	}
	page, err := protocol.NewPage(memory)
	if err != nil {
		panic(err)
	}
	page.End(1)
}

// denies is a worker that answers like any other, but denies that it has started a
// task whose payload ends in "bad", and does as its role says.
func denies(role string, out *os.File, h protocol.Header, body []byte) bool {
	if !slices.Contains(deniers, role) {
		return false
	}
	if !bytes.HasSuffix(body, []byte("bad")) {
		write(out, protocol.Header{Kind: protocol.Result, ID: h.ID, Aux: 1}, body)
		return true
	}
	switch role {
	case "denies-exit":
		os.Exit(0)
	case "denies-close":
		_ = out.Close()
		<-time.After(time.Hour)
	case "denies-oldest":
		denyOldest()
		fallthrough
	case "denies-hang":
		<-time.After(time.Hour)
	case "denies-return":
		write(out, protocol.Header{Kind: protocol.Returned, ID: h.ID}, nil)
	}
	return true
}

func write(out *os.File, h protocol.Header, body []byte) {
	_, _ = out.Write(protocol.AppendFrame(nil, h, body))
}

func readFrame(r *bufio.Reader) (protocol.Header, []byte, bool) {
	var head [protocol.HeaderSize]byte
	if _, err := readFull(r, head[:]); err != nil {
		return protocol.Header{}, nil, false
	}
	h := protocol.ParseHeader(head[:])
	body := make([]byte, h.Length)
	_, err := readFull(r, body)
	return h, body, err == nil
}

func readFull(r *bufio.Reader, b []byte) (int, error) {
	n := 0
	for n < len(b) {
		k, err := r.Read(b[n:])
		if err != nil {
			return n, err
		}
		n += k
	}
	return n, nil
}

// upperLines answers each line in upper case; the line "twice" gets two answers,
// "never" none, "die" ends it, and "slow N" is answered after N reads of the
// clock.
func upperLines() {
	s := bufio.NewScanner(os.Stdin)
	for s.Scan() {
		text := s.Text()
		switch text {
		case "never":
			continue
		case "die":
			fmt.Fprintln(os.Stderr, "dying")
			os.Exit(5)
		case "twice":
			fmt.Println("TWICE")
		}
		fmt.Println(strings.ToUpper(text))
	}
}
