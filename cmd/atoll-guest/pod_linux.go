package main

import (
	"cmp"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/atoll-sandbox/atoll/internal/guest"
	"github.com/atoll-sandbox/atoll/internal/isolation/seccomp"
	"golang.org/x/sys/unix"
)

// podMain is process 1 of a pod's container, or another process of it. It reads from the
// environment: $ATOLL_GUEST as in a container; $ATOLL_ID, the id of its sandbox; $ATOLL_KEY,
// the host's public key in base64; $ATOLL_OWN, a JSON list of the variables that belong to the
// sandbox and not to the image; and optionally $ATOLL_PIDS, the limit of processes of
// programs, whose user must have no other processes, $ATOLL_GUEST_PORT, the port on the loopback at
// which port forwarding reaches it, and $ATOLL_DIRECT, the address at which it is reached from
// outside the pod.
func podMain([]string) int {
	p, err := readPod()
	if err == nil {
		err = p.serve()
	}
	return printFailure("pod", err)
}

// oldTunnelPort is the port of port forwarding for hosts that set no ATOLL_GUEST_PORT.
const oldTunnelPort = "41998"

// loopback are the hosts of port forwarding, which tries both.
var loopback = []string{"127.0.0.1", "::1"}

// pod is the configuration of a guest in a pod.
type pod struct {
	config guest.Config
	id     string
	key    ed25519.PublicKey
	port   string // on the loopback
	direct string
}

// guestTasks is the number of threads reserved for the guest; see guest.Server.
const guestTasks = 32

// readPod reads the environment and clears it, since programs are started later.
func readPod() (*pod, error) {
	p := &pod{id: os.Getenv("ATOLL_ID"), port: cmp.Or(os.Getenv("ATOLL_GUEST_PORT"), oldTunnelPort), direct: os.Getenv("ATOLL_DIRECT")}
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
	ofImage, ofSandbox := splitEnvironment(os.Environ(), own)
	p.config.Env = slices.Concat(ofImage, p.config.Env, ofSandbox)
	os.Clearenv()
	if os.Geteuid() != 0 {
		p.config.CanSwitchUser = false
	}
	p.config.UID, p.config.GID = os.Geteuid(), os.Getegid()
	p.config.Filter, err = seccomp.Filter(seccomp.Options{})
	return p, err
}

// splitEnvironment splits a container's environment into the variables of its image and those of its
// sandbox; it drops those of the cluster and of atoll.
func splitEnvironment(env, own []string) (ofImage, ofSandbox []string) {
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

// serve listens before any other program can, and serves hosts.
func (p *pod) serve() error {
	var fingerprint []byte
	var doors []net.Listener
	if p.direct != "" {
		l, err := listenPort(p.direct)
		if err != nil {
			return err
		}
		if l, fingerprint, err = guest.NewTLSListener(l, p.key); err != nil {
			return err
		}
		doors = append(doors, l)
	}
	for i, host := range loopback {
		l, err := listenPort(net.JoinHostPort(host, p.port))
		if err != nil && i == 0 {
			return err
		}
		if err == nil { // there may be no IPv6
			doors = append(doors, guest.NewAuthListener(l, p.key, p.id, fingerprint))
		}
	}
	if err := applyPodLimits(); err != nil {
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

// listenTimeout is how long a port that is taken is tried again. It is longer than a host waits
// for a tunnel.
const listenTimeout = time.Minute

// listenPort listens on a port of the guest, and tries again while the port is taken. Where a
// node takes the ports of outgoing connections from a wider range than usual, port forwarding that
// dials before the guest listens may get the same port for its own end. It is then connected to
// itself until the host gives up.
func listenPort(address string) (net.Listener, error) {
	deadline := time.Now().Add(listenTimeout)
	for {
		l, err := net.Listen("tcp", address) //nolint:noctx // it lasts as long as the process
		if !errors.Is(err, unix.EADDRINUSE) || time.Now().After(deadline) {
			return l, err
		}
		time.Sleep(20 * time.Millisecond) //nolint:forbidigo // a port has no notification
	}
}
