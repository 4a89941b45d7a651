package confine

import (
	"fmt"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// TestStrictNeighbours: a child of the same pool cannot be reached, and calls
// for the caller itself go through.
func TestStrictNeighbours(t *testing.T) {
	needStrict(t)
	s := strict(t, Profile{Guard: true, GuardAlone: true}, Strict{})
	child, host := readPipe(t)
	other := begin(t, s, shell("echo $$; exec sleep 1000", nil, child))
	number := readLine(t, host)
	const no = "not permitted"
	const process, group, user = unix.PRIO_PROCESS, unix.PRIO_PGRP, unix.PRIO_USER
	const ioProcess, ioGroup, ioUser = 1, 2, 3
	var wants []want
	for _, ask := range []string{
		"prlimit", "affinity", "scheduler", "parameter", "attributes",
		fmt.Sprint("nice ", process), fmt.Sprint("nice ", group), fmt.Sprint("ioprio ", ioProcess), fmt.Sprint("ioprio ", ioGroup),
	} {
		wants = append(wants, want{ask + " " + number, no}, want{ask + " 0", ""})
	}
	wants = append(wants,
		want{fmt.Sprint("nice ", user, " 0"), no}, want{fmt.Sprint("nice ", user, " ", os.Getuid()), no},
		want{fmt.Sprint("ioprio ", ioUser, " 0"), no}, want{fmt.Sprint("ioprio ", ioUser, " ", os.Getuid()), no},
		want{"move_pages " + number, no}, want{"core " + number, no}, want{"read_memory " + number, no},
		want{"kcmp " + number, no}, want{"getfd " + number, no},
		want{"read /proc/" + number + "/cmdline", "no such file"}, want{"read /proc/" + number + "/environ", "no such file"},
		want{"prlimit 1", no}, want{"affinity 1", no}, want{"nice 0 1", no},
	)
	check(t, s, temporary(t), wants...)
	for what, get := range map[string]func() (int, error){
		"nice value":        func() (int, error) { return unix.Getpriority(unix.PRIO_PROCESS, other.Pid()) },
		"scheduling policy": func() (int, error) { a, err := unix.SchedGetAttr(other.Pid(), 0); return int(a.Policy), err },
		"I/O priority": func() (int, error) {
			v, _, errno := unix.Syscall(unix.SYS_IOPRIO_GET, ioProcess, uintptr(other.Pid()), 0)
			return int(v), errnoOf(errno)
		},
	} {
		unchanged := map[string]int{"nice value": 20, "scheduling policy": unix.SCHED_NORMAL, "I/O priority": 0}[what]
		if got, err := get(); err != nil || got != unchanged {
			t.Errorf("the %s of the neighbour is %d (%v), want %d", what, got, err, unchanged)
		}
	}
	if other.Ended() {
		t.Error("the neighbour has ended")
	}
}

// TestStrictQueues: what two children agree on by a key or a name, they do not share.
func TestStrictQueues(t *testing.T) {
	needStrict(t)
	s := strict(t, Profile{Guard: true}, Strict{})
	asks := []want{{"shm 4711", ""}, {"msg 4711", ""}, {"sem 4711", ""}, {"mqueue confine-test", "denied"}}
	check(t, s, "", asks...)
	for what, path := range map[string]string{"shared memory": "/proc/sysvipc/shm", "queues": "/proc/sysvipc/msg", "semaphores": "/proc/sysvipc/sem"} {
		text := output(t, s, "cat "+path+" | wc -l")
		if text != "1\n" { // a headline
			t.Errorf("a child sees the %s of another: %q lines", what, text)
		}
	}
}
