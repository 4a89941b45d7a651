package confine

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
)

// ErrServerGone is wrapped by the error of a [Server.Start] whose server has ended or
// does not answer. No process was started; start it without the server.
var ErrServerGone = errors.New("confine: the fork server has ended")

// ServerVariable is the environment variable in which [Spawner.StartServer] passes
// "v1,fd=N,name=NAME" to a server: the descriptor of its socket, and the name that the
// server has in /proc/PID/comm. Its children have that name until they have reported to
// the host.
const ServerVariable = "BULLPEN_ZYGOTE"

// maxServerFiles bounds Spec.Files of a child of a server.
const maxServerFiles = 63

// forked is the request for one child.
type forked struct {
	id                        uint32
	flags                     uint16
	files, groups, namespaces int // descriptors that come with it
	dir                       string
	refuge                    string // where to start if dir cannot be used; empty: nowhere
	filter                    []byte
	args, env                 []string
}

// Flags of a request.
const (
	forkInMemory = 1 << iota // the first descriptor holds the body
	forkMortal               // the child gets a parent-death signal
	forkConfined             // the child drops its rights, then applies ruleset and filter
	forkRuleset              // the last descriptor is a Landlock ruleset
)

// The protocol: one packet per message, all numbers little-endian. process/zygote.py has
// the same constants.
const (
	wireVersion = 1
	wireFork    = 1

	wireReady   = 1 // the imports are done
	wireFailed  = 2 // the imports failed, and the server ends; with a text
	wireForked  = 3 // from the server: a child exists; with its pidfd
	wireStarted = 4 // from the child: its program begins; with its pidfd
	wireRefused = 5 // from either: no child was made, or the child ends; with a text

	wireHead      = 16       // bytes of a request before its body
	wireReplyHead = 8        // bytes of a reply before its text
	wireText      = 32 << 10 // largest text in bytes
	wirePacket    = 48 << 10 // largest request in one packet, in bytes; the body of a larger one goes into memory
	wireBody      = 6 << 20  // largest body in bytes: the most that execve accepts
	wireString    = 128 << 10
)

// head returns the part of a request that the server itself reads.
func (r *forked) head() []byte {
	b := make([]byte, 0, wireHead)
	b = append(b, wireVersion, wireFork, byte(r.flags), byte(r.flags>>8))
	b = appendUint32(b, r.id)
	for _, n := range []int{r.files, r.groups, r.namespaces, 0} {
		b = append(b, byte(n), byte(n>>8))
	}
	return b
}

// body returns the part that the child reads. Its errors are those of execve: E2BIG if it
// is too large, EINVAL for a zero byte.
func (r *forked) body() ([]byte, error) {
	size := 4 + len(r.dir) + 4 + len(r.refuge) + 4 + len(r.filter) + 8
	for _, list := range [][]string{r.args, r.env} {
		for _, s := range list {
			if strings.IndexByte(s, 0) >= 0 {
				return nil, fmt.Errorf("confine: an argument or a variable has a zero byte: %w", syscall.EINVAL)
			}
			if len(s) >= wireString {
				return nil, fmt.Errorf("confine: an argument or a variable has %d bytes, the maximum is %d: %w", len(s), wireString-1, syscall.E2BIG)
			}
			size += 4 + len(s)
		}
	}
	if size > wireBody {
		return nil, fmt.Errorf("confine: arguments and environment have %d bytes, the maximum is %d: %w", size, wireBody, syscall.E2BIG)
	}
	b := make([]byte, 0, size)
	b = appendText(b, r.dir)
	b = appendText(b, r.refuge)
	b = appendText(b, r.filter)
	for _, list := range [][]string{r.args, r.env} {
		b = appendUint32(b, uint32(len(list)))
		for _, s := range list {
			b = appendText(b, s)
		}
	}
	return b, nil
}

func appendUint32(b []byte, n uint32) []byte {
	return append(b, byte(n), byte(n>>8), byte(n>>16), byte(n>>24))
}

func appendText[T string | []byte](b []byte, text T) []byte {
	return append(appendUint32(b, uint32(len(text))), text...)
}

// reply is a message of a server or of one of its children.
type reply struct {
	kind byte
	id   uint32
	text string
}

// parseReply decodes one message.
func parseReply(b []byte) (reply, error) {
	if len(b) < wireReplyHead || len(b) > wireReplyHead+wireText {
		return reply{}, fmt.Errorf("confine: the fork server sent a message of %d bytes", len(b))
	}
	r := reply{kind: b[1], id: uint32(b[4]) | uint32(b[5])<<8 | uint32(b[6])<<16 | uint32(b[7])<<24}
	if b[0] != wireVersion {
		return reply{}, fmt.Errorf("confine: the fork server speaks version %d, not %d", b[0], wireVersion)
	}
	if r.kind < wireReady || r.kind > wireRefused || b[2] != 0 || b[3] != 0 {
		return reply{}, fmt.Errorf("confine: the fork server sent a message of unknown kind %d", r.kind)
	}
	r.text = strings.ToValidUTF8(string(b[wireReplyHead:]), "�")
	return r, nil
}
