package boot

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestAccel(t *testing.T) {
	for _, c := range []struct {
		name         string
		probe        error
		files        map[string]string
		kvm, nested  bool
		why, because string
		lasting      bool
	}{
		{"Intel", nil, map[string]string{"kvm_intel/parameters/nested": "Y\n"}, true, true, "", "", true},
		{"AMD", nil, map[string]string{"kvm_amd/parameters/nested": "1\n"}, true, true, "", "", true},
		{"IntelOff", nil, map[string]string{"kvm_intel/parameters/nested": "N\n"}, true, false, "", "options kvm_intel nested=1", true},
		{"AMDOff", nil, map[string]string{"kvm_amd/parameters/nested": "0\n"}, true, false, "", "options kvm_amd nested=1", true},
		{"BuiltIn", nil, nil, true, false, "", "neither kvm_intel nor kvm_amd", true},
		{"PVM", errSlow, map[string]string{"kvm_pvm/version": ""}, false, false, "PVM guest", "PVM guest", true},
		{"Slow", errSlow, map[string]string{"kvm_intel/parameters/nested": "Y"}, false, false, "emulates their kernels", "need KVM", true},
		{"NoDevice", fs.ErrNotExist, nil, false, false, "there is no /dev/kvm", "need KVM", false},
		{"NoRight", fs.ErrPermission, nil, false, false, "usermod -aG kvm", "need KVM", false},
		{"Broken", errNoRunner, nil, false, false, "does not work", "need KVM", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			root := t.TempDir()
			for name, text := range c.files {
				path := filepath.Join(root, "sys/module", name)
				if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
					t.Fatal(err)
				}
			}
			a, lasting := explainProbe(c.probe, root)
			if a.KVM != c.kvm || a.Nested != c.nested || lasting != c.lasting || !matches(a.KVMProblem, c.why) || !matches(a.NestedProblem, c.because) {
				t.Errorf("%+v, %v", a, lasting)
			}
		})
	}
}

// matches reports whether a text contains a part, and both are empty or not empty.
func matches(text, part string) bool {
	return (text == "") == (part == "") && strings.Contains(text, part)
}

// TestProbe probes this host: the result comes in time, and is the same again.
func TestProbe(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	dir := t.TempDir()
	a := ProbeAcceleration(ctx, dir)
	if ctx.Err() != nil {
		t.Fatal("the probe does not end")
	}
	if a.KVM == (a.KVMProblem != "") || a.Nested == (a.NestedProblem != "") {
		t.Errorf("%+v: an answer that contradicts itself", a)
	}
	if b := ProbeAcceleration(ctx, dir); a != b {
		t.Errorf("first %+v, then %+v", a, b)
	}
	t.Logf("%+v", a)
}

func TestProbeEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := probeKVM(ctx); err == nil {
		t.Error("a probe without time says that guests run at speed")
	}
}
