package process

import (
	"fmt"
	"slices"
	"testing"
)

func TestParseCPUs(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]int{
		"0": {0}, "0-3,7": {0, 1, 2, 3, 7}, "7,1,1": {1, 7}, "8191": {8191},
		"0xe": {1, 2, 3}, "0X8F": {0, 1, 2, 3, 7}, "0x1,00000000": {32}, // the article's 14 is 0xe
	} {
		if got, err := ParseCPUs(text); err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: got %v, %v, want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "a", "-1", "3-1", "8192", "0-99999", "1,", "0x", "0x0", "0xg", "0x-1", " 1", "+1"} {
		if got, err := ParseCPUs(text); err == nil {
			t.Errorf("%q gives %v, want an error", text, got)
		}
	}
}

func ExampleParseCPUs() {
	list, _ := ParseCPUs("1-3")
	mask, _ := ParseCPUs("0xe") // the same as bits
	fmt.Println(list, mask)
	// Output: [1 2 3] [1 2 3]
}

func FuzzParseCPUs(f *testing.F) {
	for _, text := range []string{"0-3,7", "0xe", "0x1,0", "", "1-"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		all, err := ParseCPUs(text)
		if (err == nil) != (len(all) > 0) || !slices.IsSorted(all) || len(slices.Compact(slices.Clone(all))) != len(all) {
			t.Errorf("%q: %v, %v", text, all, err)
		}
	})
}
