package boot

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
)

// checkStatic returns an error unless the program runs without any other file.
func checkStatic(program []byte) error {
	f, err := elf.NewFile(bytes.NewReader(program))
	if err != nil {
		return fmt.Errorf("it is not a Linux program: %w", err)
	}
	if f.Machine != elf.EM_X86_64 {
		return fmt.Errorf("it is for %s: want one for x86_64", f.Machine)
	}
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			return errors.New("it needs a dynamic linker: want a static program (CGO_ENABLED=0)")
		}
	}
	return nil
}
