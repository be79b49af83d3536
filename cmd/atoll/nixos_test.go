package main

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/atoll-sandbox/atoll/internal/cli/config"
	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
)

// system is what deploy/nixos makes of the configuration of a machine.
type system struct {
	Programs  string         // the configuration of everybody
	Server    string         // that of the server; empty: none
	Unit      map[string]any // its unit; nil: none
	Path      []string
	After     []string
	Ports     []int
	Multicast []string // interfaces whose port of multicast DNS is open
	Publish   bool     // Avahi takes names of others
	Modprobe  string
	Wrong     []string // assertions that fail
	Warnings  []string
}

// nix evaluates an expression in which e is testdata/eval.nix. nixpkgs is its
// lib where $ATOLL_NIXPKGS names a directory with that, else a small one.
func nix(t *testing.T, expression string, to any) error {
	t.Helper()
	testenv.Real(t, "nix")
	if _, err := exec.LookPath("nix-instantiate"); err != nil {
		testenv.Skip(t, "nix", "no nix (apt-get install nix-bin): %v", err)
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
func settingsOf(t *testing.T, text string) map[string]config.Setting {
	t.Helper()
	file := filepath.Join(t.TempDir(), "atoll.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := config.ReadFile(file, false)
	if err != nil {
		t.Errorf("%s: %v", text, err)
	}
	return s.Settings
}

// written is what each option of the module writes for its example: the key, and
// the value as atoll reads it.
var written = map[string][2]string{
	"programs.atoll.backend": {"driver", "microvm"}, "programs.atoll.autostart": {"server.autostart", "false"},
	"programs.atoll.defaults.image": {"defaults.image", "debian:trixie"}, "programs.atoll.defaults.memory": {"defaults.memory", "8192m"},
	"programs.atoll.defaults.vcpus": {"defaults.cpus", "4"}, "programs.atoll.defaults.disk": {"defaults.disk", "20480m"},
	"programs.atoll.defaults.nestedVirt": {"defaults.machine.nested_virt", "true"}, "programs.atoll.defaults.persist": {"defaults.machine.persist", "true"},
	"programs.atoll.defaults.network": {"defaults.network", "none"}, "programs.atoll.defaults.allow": {"defaults.allow", "github.com *.npmjs.org:443"},
	"programs.atoll.defaults.envFiles": {"env_files", ".env*"}, "programs.atoll.defaults.syncMode": {"sync.mode", "manual"},
	"programs.atoll.sync.mode": {"sync.mode", "auto-idle"}, "programs.atoll.sync.idleSeconds": {"sync.idle", "30s"},
	"programs.atoll.terminal.shell": {"terminal.shell", "bash"}, "programs.atoll.terminal.provider": {"terminal.provider", "builtin"},
	"programs.atoll.microvm.memory": {"defaults.memory", "8192m"}, "programs.atoll.microvm.vcpus": {"defaults.cpus", "4"},
	"programs.atoll.microvm.shareProto": {"defaults.machine.share_proto", "virtiofs"}, "programs.atoll.microvm.qemuExtraArgs": {"defaults.machine.qemu_extra_args", "-smp 4,sockets=1"},
	"programs.atoll.microvm.qemu": {"microvm.qemu", "/run/current-system/sw/bin/qemu-system-x86_64"}, "programs.atoll.microvm.kernel": {"microvm.kernel", "/path/of/a/bzImage"},
	"programs.atoll.microvm.modules": {"microvm.modules", "/path/of/lib/modules/6.12.0"}, "programs.atoll.microvm.accel": {"microvm.accel", "kvm"},
	"programs.atoll.microvm.type": {"microvm.type", "microvm"}, "programs.atoll.microvm.bridge": {"microvm.bridge", "br0"}, "programs.atoll.microvm.templates": {"microvm.templates", "true"},
	"programs.atoll.docker.host": {"docker.host", "unix:///run/docker.sock"}, "programs.atoll.kubernetes.context": {"kubernetes.context", "team"},
	"programs.atoll.kubernetes.namespace": {"kubernetes.namespace", "agent-sandboxes"}, "programs.atoll.kubernetes.storageClass": {"kubernetes.storage_class", "standard"},
	"programs.atoll.kubernetes.kubeconfig": {"kubernetes.kubeconfig", "/etc/rancher/k3s/k3s.yaml"},
	"programs.atoll.proxy.enable":          {"proxy.listen", "off"}, "programs.atoll.proxy.address": {"proxy.listen", "127.0.0.1:7080"},
	"programs.atoll.proxy.domain": {"proxy.domains", "sandbox.local"}, "programs.atoll.proxy.domains": {"proxy.domains", "sandbox.example.com"},
	"programs.atoll.proxy.mdns": {"proxy.mdns", "eth0"}, "programs.atoll.proxy.caddy": {"proxy.caddy", "http://localhost:2019"},
	"programs.atoll.proxy.access": {"proxy.access", "links"}, "programs.atoll.proxy.behind": {"proxy.behind", "true"}, "programs.atoll.proxy.public": {"proxy.public", "https:8443"},
	"programs.atoll.proxy.tls.cert":   {"proxy.tls.cert", "/var/lib/acme/sandbox.example.com/cert.pem"},
	"programs.atoll.proxy.tls.key":    {"proxy.tls.key", "/var/lib/acme/sandbox.example.com/key.pem"},
	"programs.atoll.agents.connector": {"agents.connector", "anthropic"}, "programs.atoll.agents.timeout": {"agents.timeout", "1h"}, "programs.atoll.agents.turns": {"agents.turns", "16"},
	"services.atoll.listen": {"serve.listen", "127.0.0.1:8484"}, "services.atoll.hostNames": {"serve.host_names", "atoll.example.com"},
	"services.atoll.origins": {"serve.origins", "https://console.example.com"}, "services.atoll.rate": {"serve.rate", "1000"}, "services.atoll.graceSeconds": {"serve.grace", "10s"},
	"services.atoll.tls.cert": {"serve.tls.cert", "/var/lib/acme/atoll.example.com/cert.pem"}, "services.atoll.tls.key": {"serve.tls.key", "/var/lib/acme/atoll.example.com/key.pem"},
}

// Every option of the module, given its own example, writes its key, and atoll takes
// the value. The server has all that everybody has.
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
	if len(options) != len(written) {
		t.Errorf("%d options, and what %d of them write is known", len(options), len(written))
	}
	for _, o := range options {
		want, ok := written[o.Name]
		if o.Value == nil || !ok {
			t.Errorf("%s has no example, or what it writes is not known here: %s", o.Name, o.Server)
			continue
		}
		texts := []string{o.Server}
		if strings.HasPrefix(o.Name, "programs.") {
			texts = append(texts, o.Programs)
		}
		for _, text := range texts {
			if got := strings.Join(settingsOf(t, text)[want[0]].Texts, " "); got != want[1] {
				t.Errorf("%s = %v: %s is %q, want %q: %s", o.Name, o.Value, want[0], got, want[1], text)
			}
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
		for where, settings := range map[string]map[string]config.Setting{"everybody's": mine, "the server's": server} {
			if got := settings[name].Texts; len(got) != 1 || got[0] != want {
				t.Errorf("%s %s is %q, want %q", where, name, got, want)
			}
		}
	}
	if got := server["serve.listen"].Texts; !slices.Equal(got, []string{"0.0.0.0:8484", "[::]:8485"}) {
		t.Errorf("serve.listen is %q", got)
	}
	if server["quota.sandboxes"].Key == nil || mine["quota.sandboxes"].Key != nil || mine["serve.listen"].Key != nil {
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

// What the project's first design called its options, in its own words.
func TestNixOSAsDesigned(t *testing.T) {
	s, err := machineOf(t, `{
		programs.atoll = {
			enable = true;
			defaults = {
				memory = 8192; vcpus = 4; nestedVirt = true; network = "nat"; syncMode = "manual"; persist = true; envFiles = [ ".env*" ];
			};
			backend = "microvm";
			microvm = { shareProto = "virtiofs"; memory = 4096; vcpus = 2; };
			kubernetes = { context = ""; namespace = "agent-sandboxes"; storageClass = "standard"; };
			sync = { mode = "auto-idle"; idleSeconds = 45; };
			proxy = { enable = true; domain = "sandbox.local"; };
		};
	}`)
	if err != nil {
		t.Fatal(err)
	}
	said := settingsOf(t, s.Programs)
	for name, want := range map[string]string{
		"defaults.memory": "8192m", "defaults.cpus": "4", "sync.mode": "auto-idle", "sync.idle": "45s", "env_files": ".env*",
		"proxy.domains": "sandbox.local", "kubernetes.storage_class": "standard",
	} {
		if got := said[name].Texts; len(got) != 1 || got[0] != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if len(s.Wrong)+len(s.Warnings) > 0 || said["kubernetes.context"].Key != nil {
		t.Errorf("%+v", s)
	}
}

// Names of a local network: Avahi must take them where it runs, else atoll's own
// answers must get through.
func TestNixOSNames(t *testing.T) {
	const machine = `{
		programs.atoll.backend = "namespace";
		programs.atoll.proxy = { address = "0.0.0.0:7080"; domain = "sandbox.local"; mdns = [ "eth0" ]; caddy = "http://localhost:2019"; };
		services.atoll = { enable = true; openFirewall = true; };
		services.avahi.enable = AVAHI;
	}`
	for _, avahi := range []bool{true, false} {
		s, err := machineOf(t, strings.ReplaceAll(machine, "AVAHI", strconv.FormatBool(avahi)))
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(s.Ports, []int{7080}) || s.Publish != avahi || slices.Contains(s.After, "avahi-daemon.service") != avahi || !slices.Contains(s.After, "caddy.service") {
			t.Errorf("Avahi %v: %+v", avahi, s)
		}
		if want := map[bool]int{true: 0, false: 1}[avahi]; len(s.Multicast) != want {
			t.Errorf("Avahi %v: multicast DNS is open on %q", avahi, s.Multicast)
		}
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
		"TooSoonIdle":         {`{ programs.atoll = { enable = true; sync.idleSeconds = 5; }; }`, "programs.atoll.sync.idleSeconds' is not of type"},
		"HalfOfProxyTLS":      {`{ programs.atoll = { enable = true; proxy.tls.key = "/k"; }; }`, "proxy.tls: cert and key"},
		"ProxyKeyInTheStore":  {`{ programs.atoll = { enable = true; proxy.tls = { cert = "/c"; key = "/nix/store/key"; }; }; }`, "proxy.tls.key is in the store"},
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

// The package builds what there is, of the modules that there are.
func TestNixOSPackage(t *testing.T) {
	var p struct {
		VendorHash, PostInstall, Program string
		SubPackages, Without             []string
	}
	if err := nix(t, "e.package", &p); err != nil {
		t.Fatal(err)
	}
	for _, dir := range append(p.SubPackages, "internal/helper/pack") {
		if list, err := filepath.Glob(filepath.Join("../..", dir, "main.go")); err != nil || len(list) == 0 {
			t.Errorf("there is no program in %s: %v", dir, err)
		}
	}
	if !slices.Contains(p.Without, ".git") || p.Program != "atoll" || !strings.Contains(p.PostInstall, "internal/helper/pack") {
		t.Errorf("%+v", p)
	}
	if testing.Short() {
		t.Skip("the hash of all modules: left out by -short")
	}
	dir := filepath.Join(t.TempDir(), "vendor")
	if out, err := exec.CommandContext(t.Context(), "go", "mod", "vendor", "-o", dir).CombinedOutput(); err != nil {
		t.Fatalf("go mod vendor: %v: %s", err, out)
	}
	out, err := exec.CommandContext(t.Context(), "nix-hash", "--type", "sha256", dir).Output()
	if err != nil {
		t.Fatal(err)
	}
	sum, err := hex.DecodeString(strings.TrimSpace(string(out)))
	if err != nil {
		t.Fatalf("%v: %q", err, out)
	}
	if want := "sha256-" + base64.StdEncoding.EncodeToString(sum); p.VendorHash != want {
		t.Errorf("deploy/nixos/package.nix: the modules have changed: vendorHash = %q;", want)
	}
}
