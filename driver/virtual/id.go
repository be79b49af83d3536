package virtual

import "crypto/rand"

// alphabet has no letters that are taken for others.
const alphabet = "0123456789abcdefghjkmnpqrstvwxyz"

const idLength = 12

// newID returns 60 random bits as text that begins with the driver's letter.
func newID() string {
	b := make([]byte, idLength)
	_, _ = rand.Read(b) // never fails
	for i := range b {
		b[i] = alphabet[b[i]&31]
	}
	return "v" + string(b)
}

func goodID(id string) bool {
	if len(id) != idLength+1 || id[0] != 'v' {
		return false
	}
	for i := range len(id) {
		if c := id[i]; (c < '0' || c > '9') && (c < 'a' || c > 'z') {
			return false
		}
	}
	return true
}
