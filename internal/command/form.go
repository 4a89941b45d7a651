package command

import "strings"

// of transforms a value as the form requires. The rules are those of GNU parallel,
// which only cuts text and does not consult the file system. The results for odd
// names such as "." or "a/" are also the same.
func (f form) of(value string) string {
	switch f {
	case stem:
		return stemOf(value)
	case base:
		return baseOf(value)
	case folder:
		return folderOf(value)
	case baseStem:
		return stemOf(baseOf(value))
	default:
		return value
	}
}

// stemOf removes the last dot of the last name, and what follows it.
func stemOf(value string) string {
	if i := strings.LastIndexAny(value, "./"); i >= 0 && value[i] == '.' {
		return value[:i]
	}
	return value
}

func baseOf(value string) string { return value[strings.LastIndexByte(value, '/')+1:] }

// folderOf is like dirname(1).
func folderOf(value string) string {
	for range 2 { // twice if the name ends with a slash
		i := strings.LastIndexByte(value, '/')
		if i < 0 {
			return "."
		}
		name := value[i+1:]
		value = strings.TrimRight(value[:i+1], "/")
		if value == "" {
			return "/"
		}
		if name != "" {
			break
		}
	}
	return value
}

// Quote quotes a command so that a POSIX shell reads it as these words.
func Quote(words []string) string {
	var b strings.Builder
	for i, w := range words {
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(quoteWord(w))
	}
	return b.String()
}

// quoteWord quotes a word if it has characters that are special to a shell.
func quoteWord(word string) string {
	const safe = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+./:@%,"
	if word != "" && strings.Trim(word, safe) == "" {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
