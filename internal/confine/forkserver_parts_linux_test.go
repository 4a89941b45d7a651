package confine

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/bullpen-run/bullpen/internal/leak"
)

// What a child under Strict says of itself.
const confinedCode = `
import ctypes, os, socket, sys
def attempt(f, *a):
    try:
        f(*a)
        return 'yes'
    except OSError as e:
        return type(e).__name__
status = dict(line.split(':\t', 1) for line in open('/proc/self/status').read().split('\n') if ':\t' in line)
print(*(status[k] for k in ('CapEff', 'CapPrm', 'CapInh', 'CapBnd', 'CapAmb', 'NoNewPrivs', 'Seccomp')))
temp, secret = sys.argv[1:]
print('secret', attempt(os.stat, secret))
print('temp', attempt(lambda: open(temp + '/x', 'w').close()))
print('home', attempt(os.listdir, '/home'))
print('network', len(socket.if_nameindex()), attempt(socket.create_connection, ('192.0.2.1', 9), 5) != 'yes')
libc = ctypes.CDLL(None, use_errno=True)
print('unshare', libc.unshare(0x10000000), ctypes.get_errno())
print('folder', os.getcwd() == temp)
`

func TestServerStrict(t *testing.T) {
	needStrict(t)
	leak.Check(t)
	if interpreter() == "" {
		t.Skip("there is no Python")
	}
	secret, folder := put(t, filepath.Join(temporary(t), "secret")), temporary(t)
	for _, guard := range []bool{true, false} {
		s := newSpawner(t, Profile{Guard: guard, Strict: &Strict{Read: ProgramPaths(interpreter()), BestEffort: !guard}})
		v := newServer(t, s, zygoteSpec(t, "-c"))
		for range 3 {
			spec := code(confinedCode)
			spec.Args, spec.Temp = append(spec.Args, folder, secret), folder
			e, text := forkedOutput(t, v, spec)
			none := strings.Repeat(strings.Repeat("0", 16)+" ", 5)
			want := none + "1 2\nsecret FileNotFoundError\ntemp yes\nhome FileNotFoundError\nnetwork 1 True\nunshare -1 1\nfolder True\n"
			if e.Code != 0 || text != want {
				t.Errorf("%v, it says\n%s\nwant\n%s", e, text, want)
			}
		}
		if left, err := os.ReadDir(folder); err != nil || len(left) != 0 {
			t.Errorf("the folder has %v, %v", left, err)
		}
		// Without a guard the thread that started the server is parent of its
		// children, and must not end with the server.
		out, host := readPipe(t)
		c := fork(t, v, code("import os; os.write(1, b'ready\\n')\nwhile True: pass", nil, out))
		out.Close()
		readLine(t, host)
		_ = v.Child().Kill()
		<-v.Gone()
		if c.hasEnded() {
			t.Error("the child ended with its server")
		}
		_ = c.Kill()
		if e, err := c.Wait(); err != nil || e.Signal != syscall.SIGKILL {
			t.Errorf("%v, %v", e, err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestServerGroup(t *testing.T) {
	leak.Check(t)
	groups := openGroups(t, Bounds{Memory: 1, PIDs: 1})
	v := newServer(t, newSpawner(t, Profile{Guard: true}), zygoteSpec(t, "-c"))
	g := getGroup(t, groups, Bounds{Memory: 48 << 20, PIDs: 4})
	defer g.Put()
	spec := code("import os; os.fork() or os._exit(0)\nb = bytearray(256 << 20)")
	spec.Group = g
	e, err := fork(t, v, spec).Wait()
	if u := usageOf(t, g); err != nil || e.Signal != syscall.SIGKILL || u.OOMKills == 0 {
		t.Errorf("%v, %v, %+v", e, err, u)
	}
	spec = code("import os\nfor i in range(20):\n    if not os.fork(): os.read(0, 1)")
	in, hostIn, err := HostWritePipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	defer hostIn.Close()
	spec.Group, spec.Files = g, []*os.File{in}
	e, err = fork(t, v, spec).Wait()
	if u := usageOf(t, g); err != nil || e.Code != 1 || u.PIDsHits == 0 {
		t.Errorf("%v, %v, %+v", e, err, u)
	}
	if e, err := fork(t, v, code("import os; [os.waitpid(os.fork() or os._exit(0), 0) for _ in range(20)]")).Wait(); err != nil || e.Code != 0 {
		t.Errorf("a child outside of the group: %v, %v", e, err)
	}
}
