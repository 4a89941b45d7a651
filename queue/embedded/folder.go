package embedded

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"runtime"
)

// othersMayWrite are the bits of a mode by which others than the owner change what is
// in a folder.
const othersMayWrite = 0o022

// secure takes from others what they may do with the folder of a store. One that
// everybody may write and that is not ours is refused: who may write there can put
// jobs in, and take them away. One of a group that is not ours was made so for us, as
// volumes of containers are.
func secure(dir string, log *slog.Logger) error {
	if runtime.GOOS == "windows" { // modes say nothing there
		return nil
	}
	info, err := os.Stat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // it is made for us alone
	}
	if err != nil || !info.IsDir() {
		return err //nolint:wrapcheck // of a file the server says what is wrong
	}
	mode := info.Mode().Perm()
	if mode&othersMayWrite == 0 {
		return nil
	}
	private := mode &^ 0o077
	if err := os.Chmod(dir, private); err != nil {
		if mode&0o002 == 0 {
			return nil
		}
		return fmt.Errorf("every user can write to the folder %s (mode %04o), and it belongs to another user: have its "+
			"owner run chmod 700 %s, or name a new folder below it, which is created with private access", dir, mode, dir)
	}
	if log != nil {
		log.Warn("other users could write to the folder of the queue: its mode was changed", "folder", dir, "from", fmt.Sprintf("%04o", mode), "to", fmt.Sprintf("%04o", private))
	}
	return nil
}
