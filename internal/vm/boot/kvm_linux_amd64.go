package boot

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"runtime"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Requests of /dev/kvm (linux/kvm.h).
const (
	kvmGetVersion = 0xae00
	kvmCreateVM   = 0xae01
	kvmRunSize    = 0xae04
	kvmCreateVCPU = 0xae41
	kvmSetMemory  = 0x4020ae46
	kvmSetTSS     = 0xae47
	kvmRun        = 0xae80
	kvmSetRegs    = 0x4090ae82
	kvmGetSregs   = 0x8138ae83
	kvmSetSregs   = 0x4138ae84

	kvmVersion = 12 // the only version since 2007
	exitHalt   = 5
)

// kvmMemory is struct kvm_userspace_memory_region.
type kvmMemory struct {
	slot, flags     uint32
	at, size, where uint64
}

// kvmSegment is struct kvm_segment.
type kvmSegment struct {
	base                                            uint64
	limit                                           uint32
	selector                                        uint16
	kind, present, dpl, db, s, l, g, avl, unused, _ uint8
}

// kvmSregs is struct kvm_sregs.
type kvmSregs struct {
	cs, ds, es, fs, gs, ss, tr, ldt       kvmSegment
	gdt, idt                              [2]uint64
	cr0, cr2, cr3, cr4, cr8, efer, apicAt uint64
	interrupts                            [4]uint64
}

// kvmRegs is struct kvm_regs: rip and rflags are the last.
type kvmRegs [18]uint64

// guestRounds is the number of loop iterations of the probe's guest in kernel mode: a processor
// needs less than a millisecond for them, an emulated one more than a second. guestTime is the time
// limit.
const (
	guestRounds = 1_000_000
	guestTime   = 300 * time.Millisecond
)

// Layout of the guest's memory: page tables for one page of 2 MiB, and the code.
const (
	guestMemory = 64 << 10
	tableAt     = 0x1000
	codeAt      = 0x4000
)

// probeKVM runs a guest. It returns nil if that runs at the speed of the processor, errSlow, or the
// reason why it can't run.
func probeKVM(ctx context.Context) error {
	dev, err := os.OpenFile("/dev/kvm", os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer dev.Close()
	if v, err := kvmIoctl(int(dev.Fd()), kvmGetVersion, 0); err != nil || v != kvmVersion {
		return errors.Join(fmt.Errorf("%w: it has version %d of KVM, not %d", errNoRunner, v, kvmVersion), err)
	}
	size, err := kvmIoctl(int(dev.Fd()), kvmRunSize, 0)
	if err != nil {
		return err
	}
	vm, err := kvmIoctl(int(dev.Fd()), kvmCreateVM, 0)
	if err != nil {
		return fmt.Errorf("%w: making a VM: %w", errNoRunner, err)
	}
	defer unix.Close(vm)
	memory, err := unix.Mmap(-1, 0, guestMemory, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_ANONYMOUS)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Munmap(memory) }() // the mapping is our own
	writeGuest(memory)
	_, _ = kvmIoctl(vm, kvmSetTSS, 0xfffbd000) // older Intel processors need it, others refuse it
	region := kvmMemory{size: guestMemory, where: uint64(uintptr(unsafe.Pointer(&memory[0])))}
	if _, err := kvmIoctl(vm, kvmSetMemory, uintptr(unsafe.Pointer(&region))); err != nil {
		return fmt.Errorf("%w: its memory: %w", errNoRunner, err)
	}
	cpu, err := kvmIoctl(vm, kvmCreateVCPU, 0)
	if err != nil {
		return fmt.Errorf("%w: its processor: %w", errNoRunner, err)
	}
	defer unix.Close(cpu)
	if err := setRegisters(cpu); err != nil {
		return fmt.Errorf("%w: its registers: %w", errNoRunner, err)
	}
	run, err := unix.Mmap(cpu, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Munmap(run) }() // likewise
	return runUntilHalt(ctx, cpu, run)
}

// writeGuest writes page tables and code: mov ecx, guestRounds; again: dec ecx; jnz again; hlt.
func writeGuest(memory []byte) {
	binary.LittleEndian.PutUint64(memory[tableAt:], tableAt+0x1000|3)
	binary.LittleEndian.PutUint64(memory[tableAt+0x1000:], tableAt+0x2000|3)
	binary.LittleEndian.PutUint64(memory[tableAt+0x2000:], 0x83) // 2 MiB from 0
	code := binary.LittleEndian.AppendUint32([]byte{0xb9}, guestRounds)
	copy(memory[codeAt:], append(code, 0xff, 0xc9, 0x75, 0xfc, 0xf4))
}

// setRegisters switches the processor to 64-bit kernel mode.
func setRegisters(cpu int) error {
	var s kvmSregs
	if _, err := kvmIoctl(cpu, kvmGetSregs, uintptr(unsafe.Pointer(&s))); err != nil {
		return err
	}
	data := kvmSegment{limit: 0xffffffff, selector: 16, kind: 3, present: 1, s: 1, db: 1, g: 1}
	s.cs = kvmSegment{limit: 0xffffffff, selector: 8, kind: 11, present: 1, s: 1, l: 1, g: 1}
	s.ds, s.es, s.fs, s.gs, s.ss = data, data, data, data, data
	s.cr0, s.cr3, s.cr4, s.efer = 0x80050033, tableAt, 0x20, 0x500
	if _, err := kvmIoctl(cpu, kvmSetSregs, uintptr(unsafe.Pointer(&s))); err != nil {
		return err
	}
	r := kvmRegs{16: codeAt, 17: 2}
	_, err := kvmIoctl(cpu, kvmSetRegs, uintptr(unsafe.Pointer(&r)))
	return err
}

// runUntilHalt runs the guest until it halts or its time is over.
func runUntilHalt(ctx context.Context, cpu int, run []byte) error {
	runtime.LockOSThread() // KVM binds the processor to a thread
	defer runtime.UnlockOSThread()
	ctx, cancel := context.WithTimeoutCause(ctx, guestTime, errSlow)
	defer cancel()
	halted, over := make(chan struct{}), make(chan struct{})
	go interruptThread(ctx, unix.Gettid(), &run[1], halted, over)
	err := unix.EINTR
	for err == unix.EINTR && ctx.Err() == nil { //nolint:errorlint // a plain errno
		_, _, err = unix.Syscall(unix.SYS_IOCTL, uintptr(cpu), kvmRun, 0)
	}
	cause := context.Cause(ctx)
	close(halted)
	<-over
	reason := binary.LittleEndian.Uint32(run[8:])
	switch {
	case cause != nil:
		return cause
	case err != 0:
		return fmt.Errorf("%w: running a guest: %w", errNoRunner, err)
	case reason != exitHalt:
		return fmt.Errorf("%w: a guest ended for reason %d", errNoRunner, reason)
	}
	return nil
}

// interruptThread makes a thread leave its guest when the time is over.
func interruptThread(ctx context.Context, tid int, exit *byte, halted <-chan struct{}, over chan<- struct{}) {
	defer close(over)
	select {
	case <-halted:
		return
	case <-ctx.Done():
	}
	for { // the thread may not be in the guest yet
		*exit = 1                                      // kvm_run.immediate_exit
		_ = unix.Tgkill(os.Getpid(), tid, unix.SIGURG) // the runtime's own signal, which has no further effect
		select {
		case <-halted:
			return
		case <-time.After(time.Millisecond):
		}
	}
}

func kvmIoctl(fd int, request, arg uintptr) (int, error) {
	n, _, e := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), request, arg)
	if e != 0 {
		return -1, e
	}
	return int(n), nil
}
