package main

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/atoll-sandbox/atoll/internal/guest"
	"github.com/atoll-sandbox/atoll/internal/seccomp"
)

// podMain is process 1 of a pod's container, or another process of it. It is
// told by $ATOLL_GUEST, as the one of a container, by $ATOLL_ID whose guest it
// is, by $ATOLL_KEY its host's public key in base64, by $ATOLL_OWN, a list as
// JSON, which of the other variables are the sandbox's rather than the image's,
// and, where they are set, by $ATOLL_PIDS how many processes programs may have,
// whose user must be nobody else's, and by $ATOLL_DIRECT at which address it is
// reached from outside the pod.
func podMain([]string) int {
	p, err := readPod()
	if err == nil {
		err = p.serve()
	}
	return fail("pod", err)
}

// tunnelAddresses are where port-forwarding ends, which tries both.
var tunnelAddresses = []string{"127.0.0.1:41998", "[::1]:41998"}

// pod is what a guest in a pod is told.
type pod struct {
	config guest.Config
	id     string
	key    ed25519.PublicKey
	direct string
}

// guestTasks is how many threads the guest has for itself; see guest.Server.
const guestTasks = 32

// readPod reads the environment, and empties it: what follows starts programs.
func readPod() (*pod, error) {
	p := &pod{id: os.Getenv("ATOLL_ID"), direct: os.Getenv("ATOLL_DIRECT")}
	if text := os.Getenv("ATOLL_GUEST"); text != "" {
		if err := json.Unmarshal([]byte(text), &p.config); err != nil {
			return nil, fmt.Errorf("ATOLL_GUEST: %w", err)
		}
	}
	key, err := base64.StdEncoding.DecodeString(os.Getenv("ATOLL_KEY"))
	if err != nil || len(key) != ed25519.PublicKeySize || p.id == "" {
		return nil, errors.New("ATOLL_ID and ATOLL_KEY: they must be a sandbox and the public key of its host")
	}
	p.key = key
	var own []string
	if text := os.Getenv("ATOLL_OWN"); text != "" {
		if err := json.Unmarshal([]byte(text), &own); err != nil {
			return nil, fmt.Errorf("ATOLL_OWN: %w", err)
		}
	}
	if text := os.Getenv("ATOLL_PIDS"); text != "" {
		n, err := strconv.ParseUint(text, 10, 31)
		if err == nil {
			err = unix.Setrlimit(unix.RLIMIT_NPROC, &unix.Rlimit{Cur: n + guestTasks, Max: n + guestTasks})
		}
		if err != nil {
			return nil, fmt.Errorf("ATOLL_PIDS: %w", err)
		}
	}
	ofImage, ofSandbox := sortOut(os.Environ(), own)
	p.config.Env = slices.Concat(ofImage, p.config.Env, ofSandbox)
	os.Clearenv()
	if os.Geteuid() != 0 {
		p.config.Switch = false
	}
	p.config.UID, p.config.GID = os.Geteuid(), os.Getegid()
	p.config.Filter, err = seccomp.Filter(seccomp.Options{})
	return p, err
}

// sortOut returns what of a container's environment is its image's, and what is
// its sandbox's own: the rest is the cluster's and ours.
func sortOut(env, own []string) (ofImage, ofSandbox []string) {
	for _, e := range env {
		name, _, _ := strings.Cut(e, "=")
		switch {
		case slices.Contains(own, name):
			ofSandbox = append(ofSandbox, e)
		case name == "HOME", name == "HOSTNAME", name == "PWD", name == "SHLVL", name == "_", name == "OLDPWD":
		case strings.HasPrefix(name, "KUBERNETES_"), strings.HasPrefix(name, "ATOLL_"):
		default:
			ofImage = append(ofImage, e)
		}
	}
	return ofImage, ofSandbox
}

// serve listens before anything else can, and serves hosts.
func (p *pod) serve() error {
	var fingerprint []byte
	var doors []net.Listener
	if p.direct != "" {
		l, err := net.Listen("tcp", p.direct) //nolint:noctx // it lasts as long as the process
		if err != nil {
			return err
		}
		if l, fingerprint, err = guest.GuardDirect(l, p.key); err != nil {
			return err
		}
		doors = append(doors, l)
	}
	for i, address := range tunnelAddresses {
		l, err := net.Listen("tcp", address) //nolint:noctx // likewise
		if err != nil && i == 0 {
			return err
		}
		if err == nil { // there may be no IPv6
			doors = append(doors, guest.Guard(l, p.key, p.id, fingerprint))
		}
	}
	if err := lower(); err != nil {
		return err
	}
	s, err := guest.Prepare(p.config)
	if err != nil {
		return err
	}
	defer s.Close()
	s.Quit = func() { os.Exit(0) }
	over := make(chan error, len(doors))
	for _, l := range doors {
		go func() { over <- s.Serve(l) }()
	}
	return <-over
}

// copyMain puts this program where a container finds it: `copy DIRECTORY`.
func copyMain(args []string) int {
	if len(args) != 1 {
		return fail("copy", errors.New("give a directory"))
	}
	if err := copySelf(filepath.Join(args[0], "atoll-guest")); err != nil {
		return fail("copy", err)
	}
	return 0
}

func copySelf(path string) (err error) {
	in, err := os.Open("/proc/self/exe")
	if err != nil {
		return err
	}
	defer in.Close()
	early := path + ".new"
	out, err := os.OpenFile(early, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|unix.O_NOFOLLOW, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	if err = errors.Join(err, out.Chmod(0o755), out.Sync(), out.Close()); err != nil {
		return err
	}
	return os.Rename(early, path)
}
