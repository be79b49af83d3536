package microvm

import (
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
)

// TestTapOnBridge creates a tap device on a bridge in a network namespace of the test.
func TestTapOnBridge(t *testing.T) {
	testenv.Real(t, "root")
	if os.Geteuid() != 0 {
		testenv.Skip(t, "root", "only root makes bridges")
	}
	if _, err := exec.LookPath("ip"); err != nil {
		testenv.Skip(t, "qemu", "no iproute2: %v", err)
	}
	runtime.LockOSThread() // and never unlocked: the thread ends with the test
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		t.Fatal(err)
	}
	ip := func(args ...string) string {
		t.Helper()
		out, err := exec.CommandContext(t.Context(), "ip", args...).CombinedOutput()
		if err != nil {
			t.Fatalf("ip %v: %v: %s", args, err, out)
		}
		return string(out)
	}
	ip("link", "add", "br0", "type", "bridge")
	tap, err := openTap("atl123456789012", "br0")
	if err != nil {
		t.Fatal(err)
	}
	if got := ip("-o", "link", "show", "master", "br0", "up"); !strings.Contains(got, "atl123456789012") {
		t.Errorf("at the bridge are %q", got)
	}
	if _, err := openTap("atl123456789012", "br0"); err == nil {
		t.Error("a second tap of the same name")
	}
	if err := tap.Close(); err != nil {
		t.Fatal(err)
	}
	if got := ip("-o", "link", "show", "master", "br0"); got != "" {
		t.Errorf("afterwards there are %q", got)
	}
	if _, err := openTap("atl123456789012", "nobridge"); err == nil {
		t.Error("a bridge that is none")
	}
	if mac, err := net.ParseMAC(newMAC()); err != nil || mac[0]&1 != 0 || mac[0]&2 == 0 {
		t.Errorf("the address %v, %v", mac, err)
	}
}
