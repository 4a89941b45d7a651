// Command vm runs one test binary in a virtual machine of its own, for
//
//	go test -exec "vm -kernel FILE -init FILE -root FOLDER"
//
// The machine has a pure cgroup v2 system and landlock. What the test prints and
// its exit status are those of this command. See tools/vm.sh, which calls it.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/bullpen-run/bullpen/tools/vm/errand"
)

func main() {
	code, err := run(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "vm:", err)
		code = max(code, 1)
	}
	os.Exit(code)
}

func run(args []string) (code int, err error) {
	var m machine
	var init, root, place string
	flags := flag.NewFlagSet("vm", flag.ContinueOnError)
	flags.StringVar(&m.kernel, "kernel", "", "image of the kernel")
	flags.StringVar(&init, "init", "", "static binary of tools/vm/init")
	flags.StringVar(&root, "root", "", "folder with the programs of the machine, among them busybox")
	flags.StringVar(&place, "place", string(errand.Service), fmt.Sprintf("where among the control groups the test runs: one of %v", errand.Places))
	flags.StringVar(&m.accel, "accel", "tcg", "kvm, with the help of the processor, or tcg, without")
	flags.IntVar(&m.cpus, "cpus", 2, "number of processors")
	flags.IntVar(&m.memory, "memory", 2048, "MiB of memory")
	flags.DurationVar(&m.limit, "limit", 15*time.Minute, "bound for the whole run")
	if err := flags.Parse(args); err != nil {
		return 2, err
	}
	if flags.NArg() == 0 || m.kernel == "" || init == "" || root == "" {
		return 2, errors.New("usage: vm -kernel FILE -init FILE -root FOLDER [flags] TEST [arguments]")
	}
	if !slices.Contains(errand.Places, errand.Place(place)) {
		return 2, fmt.Errorf("-place %q is none of %v", place, errand.Places)
	}
	// go test sends SIGQUIT when its own time limit is over, and SIGPIPE comes when
	// it is dead: then, too, the emulator and its files must go.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGQUIT, syscall.SIGHUP, syscall.SIGPIPE)
	defer stop()
	own, err := os.MkdirTemp("", "bullpen-vm-")
	if err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(own)) }()
	m.files = filepath.Join(own, "files.cpio")
	module, dir, err := moduleHere()
	if err != nil {
		return 1, err
	}
	e := newErrand(flags.Args(), dir, errand.Place(place))
	if err := pack(m.files, init, root, module, flags.Arg(0), e); err != nil {
		return 1, fmt.Errorf("packing the files of the machine: %w", err)
	}
	return m.run(ctx, os.Stdout, os.Stderr)
}

// newErrand makes an errand of a command line as go test gives it.
func newErrand(command []string, dir string, place errand.Place) errand.Errand {
	e := errand.Errand{
		Path: path.Join(errand.Folder, filepath.Base(command[0])), Args: command[1:],
		Env: []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/tmp", "LANG=C"},
		Dir: path.Join(errand.Module, dir), Place: place,
	}
	for _, variable := range os.Environ() {
		name, _, _ := strings.Cut(variable, "=")
		if strings.HasPrefix(name, "BULLPEN_") || name == "GODEBUG" || name == "GOTRACEBACK" || name == "GOMAXPROCS" {
			e.Env = append(e.Env, variable)
		}
	}
	return e
}

// pack writes the file system of the machine: the programs of root, the test, the
// module that it belongs to, and the few files that programs expect.
func pack(name, init, root, module, test string, e errand.Errand) (err error) {
	text, err := json.Marshal(e)
	if err != nil {
		return err
	}
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	a := newArchive(f)
	a.copyFile("/init", init)
	in := func(p string) string { return path.Join(errand.System, filepath.ToSlash(p)) }
	a.copyTree(in("/"), root)
	for _, folder := range []string{"/proc", "/sys", "/dev", "/tmp", "/run", "/etc"} {
		a.folder(in(folder))
	}
	a.file(in("/etc/passwd"), 0o644, fmt.Appendf(nil, "root:x:0:0:root:/root:/bin/sh\nuser:x:%[1]d:%[1]d:user:/tmp:/bin/sh\nnobody:x:65534:65534:nobody:/tmp:/bin/sh\n", errand.UserID))
	a.file(in("/etc/shadow"), 0o600, []byte("root:*:::::::\nuser:*:::::::\nnobody:*:::::::\n"))
	a.file(in("/etc/group"), 0o644, fmt.Appendf(nil, "root:x:0:\nuser:x:%d:\nnogroup:x:65534:\n", errand.UserID))
	a.file(in("/etc/hosts"), 0o644, []byte("127.0.0.1 localhost\n::1 localhost\n"))
	a.file(in(errand.File), 0o644, text)
	a.copyFile(in(errand.Init), init)
	a.copyFile(in(e.Path), test)
	a.copyTree(in(errand.Module), module)
	return a.close()
}

// moduleHere finds the folder of the Go module that the current folder belongs to,
// and the way from there to the current one.
func moduleHere() (module, dir string, err error) {
	here, err := os.Getwd()
	if err != nil {
		return "", "", err
	}
	for module = here; ; module = filepath.Dir(module) {
		if _, err := os.Stat(filepath.Join(module, "go.mod")); err == nil {
			dir, err := filepath.Rel(module, here)
			return module, filepath.ToSlash(dir), err
		}
		if module == filepath.Dir(module) {
			return "", "", fmt.Errorf("%s belongs to no Go module", here)
		}
	}
}
