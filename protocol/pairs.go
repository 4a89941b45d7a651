package protocol

import (
	"encoding/binary"
	"math"
	"slices"
	"unicode/utf8"
)

// Pair is a key and its value.
type Pair struct {
	Key   string
	Value []byte
}

// BeginPairs appends the number of pairs. The caller then appends that many pairs with
// [AppendPair].
func BeginPairs(b []byte, count int) []byte {
	return binary.LittleEndian.AppendUint16(b, uint16(count))
}

// AppendPair appends one pair. Use [CheckPair] first to check the key.
func AppendPair[V []byte | string](b []byte, key string, value V) []byte {
	b = binary.LittleEndian.AppendUint16(b, uint16(len(key)))
	b = append(b, key...)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(value)))
	return append(b, value...)
}

// MaxPairs is the maximum number of pairs in a frame.
const MaxPairs = math.MaxUint16

// CheckPair returns an error if key cannot be the key of a pair.
func CheckPair(key string) error {
	switch {
	case key == "":
		return Invalidf("a pair has an empty key")
	case len(key) > math.MaxUint16:
		return Invalidf("a pair has a key of %d bytes; the bound is %d", len(key), math.MaxUint16)
	case !utf8.ValidString(key):
		return Invalidf("the key %q is not UTF-8", key)
	}
	return nil
}

// ParsePairs reads the pairs at the start of b and returns them and the rest of b. Values
// alias b.
func ParsePairs(b []byte) (pairs []Pair, rest []byte, err error) {
	if len(b) < 2 {
		return nil, nil, Invalidf("pairs are cut short: no count")
	}
	count := int(binary.LittleEndian.Uint16(b))
	b = b[2:]
	// A pair has at least 7 bytes, so a false count reserves no memory.
	pairs = make([]Pair, 0, min(count, len(b)/7))
	for i := range count {
		if len(b) < 2 {
			return nil, nil, Invalidf("pair %d of %d is cut short", i+1, count)
		}
		n := int(binary.LittleEndian.Uint16(b))
		if len(b)-2 < n+4 {
			return nil, nil, Invalidf("the key of pair %d of %d is cut short", i+1, count)
		}
		key := string(b[2 : 2+n])
		if err := CheckPair(key); err != nil {
			return nil, nil, err
		}
		b = b[2+n:]
		size := binary.LittleEndian.Uint32(b)
		if uint64(len(b)-4) < uint64(size) {
			return nil, nil, Invalidf("the value of %q is cut short", key)
		}
		pairs = append(pairs, Pair{key, b[4 : 4+size : 4+size]})
		b = b[4+size:]
	}
	return pairs, b, nil
}

// ParseAllPairs reads the pairs in b, which must contain nothing else.
func ParseAllPairs(b []byte) ([]Pair, error) {
	pairs, rest, err := ParsePairs(b)
	if err != nil {
		return nil, err
	}
	if len(rest) > 0 {
		return nil, Invalidf("%d bytes stand behind the pairs", len(rest))
	}
	return pairs, nil
}

// Lookup returns the value of key and whether it exists. If key occurs twice, the last one
// counts.
func Lookup(pairs []Pair, key string) (string, bool) {
	for _, p := range slices.Backward(pairs) {
		if p.Key == key {
			return string(p.Value), true
		}
	}
	return "", false
}
