package vminit

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"
)

// nestedGroup is the control group of nested VMs.
const nestedGroup = groupRoot + "/nested"

// kvmModules returns the modules for nested VMs. The processor needs one of them, or none.
func kvmModules() []string { return []string{"kvm_intel", "kvm_amd"} }

// guardKVM prevents processes in the group of commands from opening /dev/kvm, and makes the group
// in which that is allowed, with its limits. Without Nested it removes the device.
func (l *Limits) guardKVM(commands int) error {
	if l.Nested == nil {
		err := os.Remove("/dev/kvm")
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		return err
	}
	if err := denyKVM(commands); err != nil {
		return fmt.Errorf("VMs in this VM: %w", err)
	}
	if err := os.Mkdir(nestedGroup, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	const period = 100_000 // microseconds
	for file, value := range map[string]string{
		"memory.max": strconv.FormatInt(l.Nested.Memory, 10), "cpu.max": fmt.Sprintf("%d %d", int(l.Nested.CPUs*period), period),
	} {
		if err := os.WriteFile(nestedGroup+"/"+file, []byte(value), 0); err != nil {
			return fmt.Errorf("VMs in this VM: %w", err)
		}
	}
	return nil
}

// Constants of bpf(2) (linux/bpf.h).
const (
	bpfLoad       = 5
	bpfAttach     = 8
	bpfTypeDevice = 15 // BPF_PROG_TYPE_CGROUP_DEVICE
	bpfAtDevice   = 6  // BPF_CGROUP_DEVICE
)

// Device number of /dev/kvm.
const (
	kvmMajor = 10
	kvmMinor = 232
)

// denyKVM attaches a program to a group that denies access to /dev/kvm.
func denyKVM(group int) error {
	var code []byte
	for _, i := range []struct {
		op, registers byte
		offset        int16
		value         int32
	}{
		{0x61, 0x12, 4, 0},        // r2 = major
		{0x55, 0x02, 4, kvmMajor}, // another device: allow
		{0x61, 0x12, 8, 0},        // r2 = minor
		{0x55, 0x02, 2, kvmMinor},
		{0xb7, 0, 0, 0},
		{0x95, 0, 0, 0}, // deny
		{0xb7, 0, 0, 1},
		{0x95, 0, 0, 0}, // allow
	} {
		code = append(code, i.op, i.registers)
		code = binary.NativeEndian.AppendUint16(code, uint16(i.offset))
		code = binary.NativeEndian.AppendUint32(code, uint32(i.value))
	}
	license := []byte("GPL\x00")
	load := struct {
		kind, count   uint32
		code, license uint64
		rest          [24]byte
	}{kind: bpfTypeDevice, count: uint32(len(code) / 8), code: uint64(uintptr(unsafe.Pointer(&code[0]))), license: uint64(uintptr(unsafe.Pointer(&license[0])))}
	program, _, e := unix.Syscall(unix.SYS_BPF, bpfLoad, uintptr(unsafe.Pointer(&load)), unsafe.Sizeof(load))
	runtime.KeepAlive(code)
	runtime.KeepAlive(license)
	if e != 0 {
		return os.NewSyscallError("bpf", e)
	}
	defer unix.Close(int(program)) // the group keeps it
	attach := struct{ group, program, at, flags uint32 }{group: uint32(group), program: uint32(program), at: bpfAtDevice}
	if _, _, e := unix.Syscall(unix.SYS_BPF, bpfAttach, uintptr(unsafe.Pointer(&attach)), unsafe.Sizeof(attach)); e != 0 {
		return os.NewSyscallError("bpf", e)
	}
	return nil
}
