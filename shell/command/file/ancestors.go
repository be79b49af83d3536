package file

// ancestors is a chain of directories that are being listed or visited, from the innermost outwards.
type ancestors struct {
	ino uint64
	up  *ancestors
}

func (a *ancestors) contains(ino uint64) bool {
	for ; a != nil; a = a.up {
		if a.ino == ino {
			return true
		}
	}
	return false
}
