package about

import (
	"strings"
	"testing"
)

func TestPlanSetup(t *testing.T) {
	for _, c := range []struct {
		name, driver string
		m            machine
		works        bool
		want         []string // one of each step: its command, or its reason
	}{
		{"NamespaceAsRoot", "namespace", machine{root: true, restricted: []string{"a=1"}}, true, nil},
		{"NamespaceReady", "namespace", machine{programs: []string{"newuidmap"}, ranges: true}, true, nil},
		{
			"NamespaceOfUser", "namespace",
			machine{manager: "apt-get", user: "me", sudo: true, restricted: []string{"kernel.x=1"}},
			false,
			[]string{"sudo sysctl -w kernel.x=1", "sudo apt-get install -y --no-install-recommends uidmap", "sudo usermod --add-subuids 524288-589823 --add-subgids 524288-589823 me"},
		},
		{"MicrovmReady", "microvm", machine{busybox: true, programs: []string{"qemu-system-x86_64"}, kernel: true, kvm: "open"}, true, nil},
		{"MicrovmOnDebian", "microvm", machine{busybox: true, manager: "apt-get", debian: true, root: true, home: "/it's", kvm: "open"}, false, []string{"apt-get install -y --no-install-recommends qemu-system-x86", `cd '/it'\''s/kernel' && apt-get`}},
		{"MicrovmWithoutBusybox", "microvm", machine{manager: "apt-get", root: true, programs: []string{"qemu-system-x86_64"}, kernel: true, kvm: "open"}, true, []string{"apt-get install -y --no-install-recommends busybox-static"}},
		{"MicrovmOnUbuntu", "microvm", machine{busybox: true, manager: "apt-get", programs: []string{"qemu-system-x86_64"}, kvm: "open"}, false, []string{"microvm.kernel"}},
		{"MicrovmOnFedora", "microvm", machine{busybox: true, manager: "dnf", sudo: true, programs: []string{"qemu-system-x86_64"}, kvm: "denied", user: "me"}, false, []string{"sudo dnf install -y kernel-core", "sudo usermod -aG kvm me"}},
		{"MicrovmWithoutKVM", "microvm", machine{busybox: true, programs: []string{"qemu-system-x86_64"}, kernel: true}, false, []string{"emulated"}},
		{"DockerWorks", "docker", machine{}, true, nil},
		{"DockerMissing", "docker", machine{manager: "apt-get", systemd: true, root: true}, false, []string{"docker.io"}},
		{"DockerDenied", "docker", machine{engine: "denied", user: "me", sudo: true}, false, []string{"sudo usermod -aG docker me"}},
		{"DockerStopped", "docker", machine{systemd: true, root: true, programs: []string{"dockerd"}}, false, []string{"systemctl enable --now docker"}},
		{"UnknownManager", "docker", machine{}, false, []string{"no container engine"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			steps := planSetup(c.driver, c.m, c.works)
			if len(steps) != len(c.want) {
				t.Fatalf("%d steps, want %d: %+v", len(steps), len(c.want), steps)
			}
			for i, want := range c.want {
				if all := steps[i].Why + "\n" + strings.Join(steps[i].Commands, "\n"); !strings.Contains(all, want) {
					t.Errorf("step %d is %q, want %q", i, all, want)
				}
			}
		})
	}
}
