package broker

// id is a ULID in 16 bytes.
type id [16]byte

const (
	idDigits = 26
	alphabet = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
)

// digitOf gives the value of a digit, or 0xff.
var digitOf = func() (table [256]byte) {
	for i := range table {
		table[i] = 0xff
	}
	for v, c := range []byte(alphabet) {
		table[c] = byte(v)
	}
	return table
}()

// parseID reads a ULID as the queue writes it: 26 digits of base 32, upper case.
func parseID(text string) (out id, ok bool) {
	if len(text) != idDigits || text[0] > '7' {
		return out, false
	}
	var high, low uint64 // 130 bits, of which the first two are zero
	for i := range len(text) {
		d := digitOf[text[i]]
		if d == 0xff {
			return id{}, false
		}
		high = high<<5 | low>>59
		low = low<<5 | uint64(d)
	}
	for i := range 8 {
		out[i] = byte(high >> (56 - 8*i))
		out[8+i] = byte(low >> (56 - 8*i))
	}
	return out, true
}

// String returns the 26 digits.
func (i id) String() string {
	var high, low uint64
	for n := range 8 {
		high = high<<8 | uint64(i[n])
		low = low<<8 | uint64(i[8+n])
	}
	var text [idDigits]byte
	for n := idDigits - 1; n >= 0; n-- {
		text[n] = alphabet[low&31]
		low = low>>5 | high<<59
		high >>= 5
	}
	return string(text[:])
}
