//go:build !linux

package probe

import "runtime"

func tryKernel() (bool, string) { return true, runtime.GOOS + "/" + runtime.GOARCH }

func missing() (bool, string) { return false, "not supported on this system (" + runtime.GOOS + ")" }

func tryPidfd() (bool, string)            { return missing() }
func tryPIDNamespace() (bool, string)     { return missing() }
func tryMemfd() (bool, string)            { return missing() }
func tryCgroupV2() (bool, string)         { return missing() }
func tryCgroupV1() (bool, string)         { return missing() }
func tryCgroupKill() (bool, string)       { return missing() }
func tryLandlock() (bool, string)         { return missing() }
func trySeccomp() (bool, string)          { return missing() }
func tryNoNewPrivs() (bool, string)       { return missing() }
func tryUserNamespace() (bool, string)    { return missing() }
func tryMountNamespace() (bool, string)   { return missing() }
func tryIPCNamespace() (bool, string)     { return missing() }
func tryNetworkNamespace() (bool, string) { return missing() }
func tryAffinity() (bool, string)         { return missing() }

// tryNice describes how confine sets priorities on systems without a spawner thread: by
// setpriority after the start, or by a priority class.
func tryNice() (bool, string) { return true, "set on each worker just after its start" }
