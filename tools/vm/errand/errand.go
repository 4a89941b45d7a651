// Package errand is what the host tells the first process of a virtual machine:
// which test binary to run, and where among the control groups.
package errand

// Where things lie in the virtual machine. The files are put there by the host.
const (
	System  = "/system" // what becomes the root; all below lies in it
	Folder  = "/vm"     // of the test binary
	File    = "/vm/errand.json"
	Init    = "/vm/init" // the first process, to be called once more
	Module  = "/module"  // of the Go module that the test belongs to
	Busybox = "/bin/busybox"
)

// The serial ports of the virtual machine. The kernel and the first process
// write to the console; the test has a port to itself, so that nothing gets
// between its lines.
const (
	Console = "/dev/ttyS0"
	Output  = "/dev/ttyS1"
	Verdict = "/dev/ttyS2"
)

// Errand is one run of one test binary.
type Errand struct {
	Path  string   // of the test binary, in the virtual machine
	Args  []string // without the name of the program
	Env   []string
	Dir   string // current folder
	Place Place
}

// Place is where among the control groups the test runs.
type Place string

// The places are those in which a host of workers is found in practice.
const (
	// Service is a group of its own with all controllers offered and none
	// enabled below it, as systemd gives it to a service with Delegate=yes.
	Service Place = "service"
	// User is the same, given to an ordinary user who runs the test.
	User Place = "user"
	// Container is the same, seen from a cgroup namespace: the own group looks
	// like the root of the tree, and is not.
	Container Place = "container"
	// Root is the root of the tree, for which the kernel makes exceptions.
	Root Place = "root"
)

// Places are all places.
var Places = []Place{Service, User, Container, Root}

// UserID is the user and the group of [User].
const UserID = 1000
