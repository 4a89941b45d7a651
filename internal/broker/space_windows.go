package broker

import "golang.org/x/sys/windows"

func spaceOf(dir string) (space, bool, error) {
	name, err := windows.UTF16PtrFromString(dir)
	if err != nil {
		return space{}, false, err
	}
	var free, total uint64
	if err := windows.GetDiskFreeSpaceEx(name, &free, &total, nil); err != nil {
		return space{}, false, err
	}
	return space{free: clamp(free, 1), total: clamp(total, 1)}, true, nil
}
