package hypervisor

import (
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
)

// TestNoNestedRemovesExtensions checks the processor of a VM that must not run others, for both
// accelerators, and with a model that the user chooses.
func TestNoNestedRemovesExtensions(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		testenv.Skip(t, "amd64", "the extensions are those of x86-64")
	}
	o := monitorOrder{Config: Config{NoNested: true, Args: []string{"-cpu", "host,+vmx", "-uuid", "x", "--cpu", "max"}}}
	if want := []string{"-cpu", "host,+vmx,-vmx,-svm", "-uuid", "x", "--cpu", "max,-vmx,-svm"}; !slices.Equal(o.extraArgs(), want) {
		t.Errorf("added arguments %q", o.extraArgs())
	}
	for _, accel := range []string{KVM, TCG} {
		for _, none := range []bool{true, false} {
			o := monitorOrder{Config: Config{Accel: accel, NoNested: none}}
			args := cpuArgs(&o, &inheritedFiles{})
			if model := args[slices.Index(args, "-cpu")+1]; strings.HasSuffix(model, ",-vmx,-svm") != none {
				t.Errorf("%s, without nested VMs %v: %s", accel, none, model)
			}
		}
	}
	qemu, err := FindQEMU()
	if err != nil {
		testenv.Skip(t, "qemu", "no QEMU: %v", err)
	}
	o.Accel = TCG
	args := append(cpuArgs(&o, &inheritedFiles{}), "-machine", "microvm", "-S", "-m", "16", "-nodefaults", "-display", "none", "-qmp", "stdio")
	cmd := exec.CommandContext(t.Context(), qemu, args...)
	cmd.Stdin, cmd.Env = strings.NewReader("{\"execute\":\"qmp_capabilities\"}\n{\"execute\":\"quit\"}\n"), os.Environ()
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("QEMU refuses %q: %v: %s", args, err, out)
	}
}
