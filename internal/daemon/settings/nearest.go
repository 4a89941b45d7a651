package settings

// longestName bounds the names that nearest compares.
const longestName = 64

// nearest returns the name that was probably meant; empty if none is similar.
func nearest(written string, names []string) string {
	if len(written) > longestName {
		return ""
	}
	best, least := "", max(1, len(written)/3)+1
	for _, name := range names {
		if d := distance(written, name); d < least {
			best, least = name, d
		}
	}
	return best
}

// distance returns the edit distance of a and b: bytes changed, added, removed or
// swapped with their neighbor.
func distance(a, b string) int {
	var before []int
	last, row := make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		before, last, row = last, row, make([]int, len(b)+1)
		row[0] = i + 1
		for j := range len(b) {
			change := 0
			if a[i] != b[j] {
				change = 1
			}
			row[j+1] = min(last[j]+change, last[j+1]+1, row[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
	}
	return row[len(b)]
}
