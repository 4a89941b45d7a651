// Command pipeworker is the least that a worker can be: frames of a length (u32,
// little-endian) and as many bytes, in on standard input and out on standard
// output, with the one handler that its argument names. It reads with one large
// read, runs every complete frame, and writes all answers at once.
package main

import (
	"crypto/sha512"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"os"
	"syscall"
)

const head = 4

func main() {
	hash := len(os.Args) == 2 && os.Args[1] == "hash"
	if err := serve(0, 1, hash); err != nil {
		fmt.Fprintln(os.Stderr, "pipeworker:", err)
		os.Exit(1)
	}
}

func serve(in, out int, hash bool) error {
	buf, start, end := make([]byte, 256<<10), 0, 0
	var replies []byte
	for {
		n, err := syscall.Read(in, buf[end:])
		if err == syscall.EINTR {
			continue
		}
		if err != nil || n == 0 {
			return err
		}
		end += n
		need := head
		for end-start >= head {
			need = head + int(binary.LittleEndian.Uint32(buf[start:]))
			if end-start < need {
				break
			}
			replies = answer(replies, buf[start+head:start+need], hash)
			start, need = start+need, head
		}
		for rest := replies; len(rest) > 0; {
			n, err := syscall.Write(out, rest)
			if err != nil && err != syscall.EINTR {
				return err
			}
			rest = rest[max(n, 0):]
		}
		replies = replies[:0]
		buf, start, end = room(buf, start, end, need)
	}
}

// room makes place for the frame that comes next, which has need bytes.
func room(buf []byte, start, end, need int) ([]byte, int, int) {
	switch {
	case start == end:
		return buf, 0, 0
	case len(buf)-start >= need && len(buf) > end:
		return buf, start, end
	case len(buf) < need:
		larger := make([]byte, 2*need)
		return larger, 0, copy(larger, buf[start:end])
	default:
		return buf, 0, copy(buf, buf[start:end])
	}
}

func answer(replies, payload []byte, hash bool) []byte {
	if !hash {
		return binary.LittleEndian.AppendUint32(replies, 0)
	}
	sum := sha512.Sum512(payload)
	replies = binary.LittleEndian.AppendUint32(replies, uint32(base64.StdEncoding.EncodedLen(len(sum))))
	return base64.StdEncoding.AppendEncode(replies, sum[:])
}
