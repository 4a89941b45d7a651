package process

import (
	"errors"
	"math/bits"
	"strconv"
	"strings"
)

// mostCPUs is more than any kernel supports.
const mostCPUs = 1 << 13

var errCPUs = errors.New("use processor numbers, such as 0-3,7, or a mask such as 0x8f")

// ParseCPUs parses a set of processors for [Config.CPUs]: a list as of taskset(1), such
// as "0-3,7", or a mask with one bit per processor, the lowest for processor 0, such as
// "0x8f". It returns the numbers sorted, without duplicates. It does not check that the
// processors exist; New does.
func ParseCPUs(text string) ([]int, error) {
	var set [mostCPUs]bool
	if mask, ok := strings.CutPrefix(strings.ToLower(text), "0x"); ok {
		if !readMask(mask, &set) {
			return nil, errCPUs
		}
	} else {
		for part := range strings.SplitSeq(text, ",") {
			if !readRange(part, &set) {
				return nil, errCPUs
			}
		}
	}
	var all []int
	for cpu, in := range set {
		if in {
			all = append(all, cpu)
		}
	}
	if len(all) == 0 {
		return nil, errCPUs
	}
	return all, nil
}

// readMask parses hexadecimal digits. It ignores commas, which the kernel writes
// between groups.
func readMask(digits string, set *[mostCPUs]bool) bool {
	digits = strings.ReplaceAll(digits, ",", "")
	if digits == "" || len(digits)*4 > mostCPUs {
		return false
	}
	for i := range digits {
		n, err := strconv.ParseUint(digits[len(digits)-1-i:len(digits)-i], 16, 8)
		if err != nil {
			return false
		}
		for ; n > 0; n &= n - 1 {
			set[4*i+bits.TrailingZeros64(n)] = true
		}
	}
	return true
}

func readRange(text string, set *[mostCPUs]bool) bool {
	from, to, isRange := strings.Cut(text, "-")
	a, err := strconv.ParseUint(from, 10, 16)
	b := a
	if err == nil && isRange {
		b, err = strconv.ParseUint(to, 10, 16)
	}
	if err != nil || b < a || b >= mostCPUs {
		return false
	}
	for ; a <= b; a++ {
		set[a] = true
	}
	return true
}
