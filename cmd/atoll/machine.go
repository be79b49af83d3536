package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/driver/microvm"
)

// machineDriver is the driver whose sandboxes are machines: what is configured of
// machines counts for its sandboxes only, what flags say for any, which may refuse
// it.
const machineDriver = "microvm"

// machines is the driver of machines as it is configured. It starts and looks for
// nothing before it is used.
func (c *config) machines(home string) *microvm.Driver {
	return &microvm.Driver{
		Dir: filepath.Join(home, machineDriver), ImageDir: filepath.Join(home, "images"),
		QEMU: get[string](c, "microvm.qemu"), Kernel: get[string](c, "microvm.kernel"), Modules: get[string](c, "microvm.modules"),
		Accel: get[string](c, "microvm.accel"), Type: get[string](c, "microvm.type"),
		Bridge: get[string](c, "microvm.bridge"), Roots: getList[string](c, "microvm.roots"),
		NoTemplates: c.settings["microvm.templates"].key != nil && !get[bool](c, "microvm.templates"),
	}
}

// addMachine adds what only a machine of its own has.
func (f *specFlags) addMachine(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.Bool("nested", true, "let machines run inside the machine, where this host can (--no-nested: never)")
	fl.Bool("persist", true, "keep what is on the machine's disks over a stop (--no-persist: discard it)")
	for _, name := range []string{"nested", "persist"} {
		no := fl.VarPF(&negation{of: fl.Lookup(name)}, "no-"+name, "", "the opposite of --"+name)
		no.NoOptDefVal, no.Hidden = "true", true
	}
	fl.String("share", "", "how --mount and --workspace get into a machine: `PROTOCOL` virtiofs or 9p (default: the best that there is)")
	fl.StringArray("qemu-arg", nil, "one more `ARGUMENT` of QEMU, of those that the driver allows (repeatable)")
	fl.StringVar(&f.disk, "use-disk", "", "work on the kept disk `NAME`; see 'atoll disk'")
	fl.Var(&processors{of: fl.Lookup("cpus")}, "vcpus", "`NUMBER` of a machine's virtual processors: --cpus as a whole number")
}

// ofMachine is what flags and the configuration say of a machine; nil: nothing.
func (f *specFlags) ofMachine(c *config) *atoll.Machine {
	counts := func(name string) bool {
		s := c.settings[name]
		return s.key != nil && s.origin != "default" && (get[string](c, "driver") == machineDriver || strings.HasPrefix(s.origin, "--"))
	}
	truth := func(name string) *bool {
		if !counts(name) {
			return nil
		}
		b := get[bool](c, name)
		return &b
	}
	m := atoll.Machine{Nested: truth("defaults.machine.nested_virt"), Persist: truth("defaults.machine.persist"), Disk: f.disk}
	if counts("defaults.machine.share_proto") {
		m.Share = get[string](c, "defaults.machine.share_proto")
	}
	if counts("defaults.machine.qemu_extra_args") {
		m.Args = getList[string](c, "defaults.machine.qemu_extra_args")
	}
	if m.Nested == nil && m.Persist == nil && m.Share == "" && m.Disk == "" && len(m.Args) == 0 {
		return nil
	}
	return &m
}

// negation is a flag that sets another to the opposite.
type negation struct{ of *pflag.Flag }

// String is empty: the other flag has the value.
func (n *negation) String() string { return "" }

// Type is that of the other flag.
func (n *negation) Type() string { return "bool" }

// Set sets the other flag.
func (n *negation) Set(text string) error {
	yes, err := strconv.ParseBool(text)
	if err != nil {
		return errors.New("must be true or false")
	}
	if n.of.Changed && n.of.Value.String() == strconv.FormatBool(yes) {
		return fmt.Errorf("--%s says the opposite", n.of.Name)
	}
	n.of.Changed = true
	return n.of.Value.Set(strconv.FormatBool(!yes))
}

// processors is a flag that sets another to a whole number.
type processors struct{ of *pflag.Flag }

// String is empty: the other flag has the value.
func (p *processors) String() string { return "" }

// Type is what the flag takes.
func (p *processors) Type() string { return "int" }

// Set sets the other flag.
func (p *processors) Set(text string) error {
	n, err := parseCount(text)
	if err != nil {
		return err
	}
	if p.of.Changed && p.of.Value.String() != strconv.Itoa(n) {
		return fmt.Errorf("--%s says %s", p.of.Name, p.of.Value)
	}
	p.of.Changed = true
	return p.of.Value.Set(strconv.Itoa(n))
}
