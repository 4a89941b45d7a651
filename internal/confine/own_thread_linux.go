package confine

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// onOwnThread runs f in a goroutine with an operating-system thread of its own. The
// thread ends with f, and with it what f changed on it. It is never the first thread of
// the process, whose attributes count as those of the whole process and which does not
// end. onOwnThread does not wait for f; f must notify its caller itself. While such a
// thread lives, the runtime starts new threads from a clean template, so that they
// inherit nothing from it.
func onOwnThread(f func()) {
	// Ends after f or, on the first thread, once f has another thread.
	go func() {
		runtime.LockOSThread()
		if unix.Gettid() != unix.Getpid() {
			f()
			return // still locked: the thread ends
		}
		elsewhere := make(chan struct{})
		// Not on the first thread, which is held until this goroutine has begun.
		go func() {
			runtime.LockOSThread()
			close(elsewhere)
			f()
		}()
		<-elsewhere
		runtime.UnlockOSThread()
	}()
}
