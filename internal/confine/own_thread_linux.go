package confine

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// onOwnThread runs f in a goroutine with an operating-system thread of its
// own, which ends with f and takes with it what f changed on it. It is never
// the first thread of the process: that one's attributes are seen as those of
// the whole process, and it does not end. Nobody waits here: f tells its
// caller by its own means. While such a thread lives, the runtime starts new
// threads from a clean template, so that they inherit nothing of it.
func onOwnThread(f func()) {
	// Ends after f, or, on the first thread, once f has another.
	go func() {
		runtime.LockOSThread()
		if unix.Gettid() != unix.Getpid() {
			f()
			return // still locked: the thread ends
		}
		elsewhere := make(chan struct{})
		// Cannot be on the first thread, which is held until it has begun.
		go func() {
			runtime.LockOSThread()
			close(elsewhere)
			f()
		}()
		<-elsewhere
		runtime.UnlockOSThread()
	}()
}
