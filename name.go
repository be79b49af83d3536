package atoll

import (
	"crypto/rand"
	"fmt"
)

// NewID returns a new random identifier: a letter and 60 random bits.
func NewID() string {
	const alphabet = "0123456789abcdefghjkmnpqrstvwxyz" // without letters that look like others
	b := make([]byte, idLength)
	_, _ = rand.Read(b) // never fails
	for i := range b {
		b[i] = alphabet[b[i]&31]
	}
	return "s" + string(b)
}

const idLength = 12

// CheckID reports why a text can't be the identifier of a sandbox. The error matches ErrInvalid.
func CheckID(id string) error { return wrapInvalid(validateID(id)) }

func validateID(id string) error {
	ok := len(id) == idLength+1 && id[0] >= 'a' && id[0] <= 'z'
	for i := 1; ok && i < len(id); i++ {
		ok = id[i] >= '0' && id[i] <= '9' || id[i] >= 'a' && id[i] <= 'z'
	}
	if !ok {
		return fmt.Errorf("%q: an id is a letter and %d of a-z and 0-9", id, idLength)
	}
	return nil
}

// CheckName reports why a name can't be the name of a sandbox, a snapshot or another object.
// A name has 1 to 63 characters of a-z, 0-9, '-', '_' and '.', and begins and ends with a letter
// or digit. So it is safe in paths, host names and commands. The error matches ErrInvalid.
func CheckName(name string) error { return wrapInvalid(validateName(name)) }

func validateName(name string) error {
	if name == "" || len(name) > 63 {
		return fmt.Errorf("%q: a name has 1 to 63 characters", name)
	}
	alnum := func(c byte) bool { return c >= 'a' && c <= 'z' || c >= '0' && c <= '9' }
	for i := range len(name) {
		if c := name[i]; !alnum(c) && c != '-' && c != '_' && c != '.' {
			return fmt.Errorf("%q: a name is made of a-z, 0-9, '-', '_' and '.'", name)
		}
	}
	if !alnum(name[0]) || !alnum(name[len(name)-1]) {
		return fmt.Errorf("%q: a name begins and ends with a letter or digit", name)
	}
	return nil
}
