package main

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/atoll-sandbox/atoll/internal/musthave"
)

// system is what deploy/nixos makes of the configuration of a machine.
type system struct {
	Programs string         // the configuration of everybody
	Server   string         // that of the server; empty: none
	Unit     map[string]any // its unit; nil: none
	Path     []string
	Ports    []int
	Modprobe string
	Wrong    []string // assertions that fail
	Warnings []string
}

// nix evaluates an expression in which e is testdata/eval.nix. nixpkgs is its
// lib where $ATOLL_NIXPKGS names a directory with that, else a small one.
func nix(t *testing.T, expression string, to any) error {
	t.Helper()
	if _, err := exec.LookPath("nix-instantiate"); err != nil {
		musthave.Skip(t, "nix", "no nix (apt-get install nix-bin): %v", err)
	}
	args := "{ }"
	if dir := os.Getenv("ATOLL_NIXPKGS"); dir != "" {
		args = `{ nixpkgs = "` + dir + `"; }`
	}
	file, err := filepath.Abs("../../deploy/nixos/testdata/eval.nix")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "nix-instantiate", "--eval", "--strict", "--json", "--store", "dummy://",
		"--expr", "let e = import "+file+" "+args+"; in "+expression)
	cmd.Env = append(os.Environ(), "HOME="+t.TempDir(), "NIX_STATE_DIR="+t.TempDir())
	out, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return errors.New(string(exit.Stderr))
	}
	if err != nil {
		return err
	}
	if err := json.Unmarshal(out, to); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return nil
}

// machineOf evaluates a machine's configuration.
func machineOf(t *testing.T, text string) (s system, err error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "machine.nix")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	err = nix(t, "e.machine "+file, &s)
	return s, err
}

// settingsOf reads a configuration as atoll does.
func settingsOf(t *testing.T, text string) map[string]setting {
	t.Helper()
	file := filepath.Join(t.TempDir(), "atoll.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := readConfig(file, false)
	if err != nil {
		t.Errorf("%s: %v", text, err)
	}
	return s.settings
}

// Every option of the module, given its own example, writes a key that there is,
// and atoll takes the value.
func TestNixOSOptions(t *testing.T) {
	var options []struct {
		Name     string
		Value    any
		Programs string
		Server   string
	}
	if err := nix(t, "e.options", &options); err != nil {
		t.Fatal(err)
	}
	if len(options) < 30 {
		t.Errorf("%d options: want those of the seeds and more", len(options))
	}
	for _, o := range options {
		if o.Value == nil {
			t.Errorf("%s has no example", o.Name)
			continue
		}
		text := o.Server
		if strings.HasPrefix(o.Name, "programs.") {
			text = o.Programs
		}
		said := settingsOf(t, text)
		delete(said, "serve.listen")
		if o.Name == "services.atoll.listen" {
			said = settingsOf(t, text)
		}
		if len(said) == 0 || o.Name == "programs.atoll.backend" && said["driver"].key == nil {
			t.Errorf("%s = %v writes no key: %s", o.Name, o.Value, text)
		}
	}
}

func TestNixOSMachine(t *testing.T) {
	s, err := machineOf(t, `{
		programs.atoll = {
			enable = true;
			backend = "microvm";
			defaults = { memory = 8192; vcpus = 4; nestedVirt = true; network = "nat"; persist = true; };
			microvm.shareProto = "virtiofs";
			kubernetes = { context = "team"; namespace = "agent-sandboxes"; };
			proxy.domains = [ "sandbox.example.com" ];
			settings = { retention.keep = "30d"; defaults.memory = "4g"; };
		};
		services.atoll = {
			enable = true;
			listen = [ "0.0.0.0:8484" "[::]:8485" ];
			openFirewall = true;
			tls = { cert = "/var/lib/acme/a/cert.pem"; key = "/var/lib/acme/a/key.pem"; };
			settings.quota.sandboxes = 20;
		};
	}`)
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Wrong)+len(s.Warnings) > 0 {
		t.Errorf("wrong %q, warnings %q", s.Wrong, s.Warnings)
	}
	mine, server := settingsOf(t, s.Programs), settingsOf(t, s.Server)
	for name, want := range map[string]string{
		"driver": "microvm", "defaults.memory": "4g", "defaults.cpus": "4", "defaults.network": "nat",
		"defaults.machine.nested_virt": "true", "defaults.machine.persist": "true", "defaults.machine.share_proto": "virtiofs",
		"kubernetes.context": "team", "kubernetes.namespace": "agent-sandboxes", "retention.keep": "30d",
		"proxy.domains": "sandbox.example.com",
		"microvm.qemu":  "/nix/store/qemu/bin/qemu-system-x86_64", "microvm.kernel": "/nix/store/linux/bzImage",
		"microvm.modules": "/nix/store/kernel-modules/lib/modules/6.12.1",
	} {
		for where, settings := range map[string]map[string]setting{"everybody's": mine, "the server's": server} {
			if got := settings[name].texts; len(got) != 1 || got[0] != want {
				t.Errorf("%s %s is %q, want %q", where, name, got, want)
			}
		}
	}
	if got := server["serve.listen"].texts; !slices.Equal(got, []string{"0.0.0.0:8484", "[::]:8485"}) {
		t.Errorf("serve.listen is %q", got)
	}
	if server["quota.sandboxes"].key == nil || mine["quota.sandboxes"].key != nil || mine["serve.listen"].key != nil {
		t.Error("what is the server's is not, or it is everybody's")
	}
	if !slices.Equal(s.Ports, []int{8484, 8485}) {
		t.Errorf("the firewall lets through %v", s.Ports)
	}
	if !strings.Contains(s.Modprobe, "kvm_amd nested=1") {
		t.Errorf("machines in machines: %q", s.Modprobe)
	}
	if !slices.Contains(s.Path, "qemu") {
		t.Errorf("the server finds %q", s.Path)
	}
	if s.Unit["KillMode"] != "process" || s.Unit["Delegate"] != true || s.Unit["DynamicUser"] != nil {
		t.Errorf("a unit that ends its sandboxes, or can't build any: %v", s.Unit)
	}
}

// A server whose sandboxes are elsewhere needs no rights at all.
func TestNixOSServerWithoutRights(t *testing.T) {
	s, err := machineOf(t, `{
		programs.atoll.backend = "kubernetes";
		services.atoll = { enable = true; environmentFile = "/run/secrets/atoll"; };
	}`)
	if err != nil {
		t.Fatal(err)
	}
	if s.Unit["DynamicUser"] != true || s.Unit["CapabilityBoundingSet"] != "" || s.Unit["EnvironmentFile"] == nil {
		t.Errorf("%v", s.Unit)
	}
}

func TestNixOSSaysWhatIsWrong(t *testing.T) {
	for name, c := range map[string]struct{ machine, want string }{
		"NoSuchBackend":       {`{ programs.atoll = { enable = true; backend = "qemu"; }; }`, "programs.atoll.backend' is not of type"},
		"NoSuchOption":        {`{ programs.atoll = { enable = true; memory = 1; }; }`, "programs.atoll.memory' does not exist"},
		"NoNumber":            {`{ programs.atoll = { enable = true; defaults.memory = "8g"; }; }`, "programs.atoll.defaults.memory' is not of type"},
		"NoMemory":            {`{ programs.atoll = { enable = true; backend = "microvm"; defaults.memory = 512; }; }`, "at least 1024 MiB"},
		"NoBridge":            {`{ programs.atoll = { enable = true; backend = "microvm"; defaults.network = "bridge"; }; }`, "programs.atoll.microvm.bridge"},
		"NoAddress":           {`{ services.atoll = { enable = true; listen = [ "8484" ]; }; }`, "services.atoll.listen"},
		"HalfOfTLS":           {`{ services.atoll = { enable = true; listen = [ "0.0.0.0:1" ]; tls.cert = "/c"; }; }`, "cert and key belong together"},
		"KeyInTheStore":       {`{ services.atoll = { enable = true; listen = [ "0.0.0.0:1" ]; tls = { cert = "/c"; key = "/nix/store/key"; }; }; }`, "key is in the store"},
		"NothingToOpen":       {`{ services.atoll = { enable = true; openFirewall = true; }; }`, "listen is empty"},
		"SecretForEverybody":  {`{ programs.atoll = { enable = true; settings.registry = "postgres://a:b@c/d"; }; }`, "environmentFile"},
		"SecretOfAContext":    {`{ programs.atoll = { enable = true; settings.contexts.a.token = "x"; }; }`, "token_file"},
		"TokensInTheOpen":     {`{ services.atoll = { enable = true; listen = [ "0.0.0.0:8484" ]; }; }`, "can be read on the way"},
		"ServerWithoutAtoll":  {`{ programs.atoll.enable = false; services.atoll.enable = true; }`, "needs programs.atoll.enable"},
		"TLSOfNothing":        {`{ services.atoll = { enable = true; tls = { cert = "/c"; key = "/k"; }; }; }`, "which is empty"},
		"LoopbackNeedsNoTLS":  {`{ services.atoll = { enable = true; listen = [ "127.0.0.1:8484" "[::1]:8484" ]; }; }`, ""},
		"NothingSaidIsEnough": {`{ programs.atoll.enable = true; }`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := machineOf(t, c.machine)
			all := append(s.Wrong, s.Warnings...)
			if err != nil {
				all = append(all, err.Error())
			}
			if c.want == "" && len(all) > 0 || !strings.Contains(strings.Join(all, "\n"), c.want) {
				t.Errorf("it says %q, want %q", all, c.want)
			}
		})
	}
}
