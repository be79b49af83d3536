package hypervisor

import (
	"os"
	"strconv"
)

// maxSocketPath is the kernel's limit of the path of a Unix socket in bytes.
const maxSocketPath = 107

// socketPath returns a path of a socket that is short enough. It is valid until done is called.
func socketPath(dir, name string) (path string, done func(), err error) {
	if len(dir)+1+len(name) <= maxSocketPath {
		return dir + "/" + name, func() {}, nil
	}
	f, err := os.Open(dir)
	if err != nil {
		return "", nil, err
	}
	return "/proc/self/fd/" + strconv.Itoa(int(f.Fd())) + "/" + name, func() { _ = f.Close() }, nil
}
