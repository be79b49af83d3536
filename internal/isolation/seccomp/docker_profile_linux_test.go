package seccomp

import (
	"slices"
	"strings"
	"testing"

	moby "github.com/moby/profiles/seccomp"
	"github.com/opencontainers/runtime-spec/specs-go"
)

// needless lists calls of moby's profile that no program in a sandbox needs.
var needless = []string{
	"epoll_ctl_old", "epoll_wait_old", "fanotify_mark", "get_thread_area", "modify_ldt", "name_to_handle_at",
	"process_mrelease", "remap_file_pages", "set_thread_area", "vmsplice",
}

// only32Bit lists calls that 64-bit programs don't have.
var only32Bit = strings.Fields(`
	_llseek _newselect arm_fadvise64_64 arm_sync_file_range breakpoint cacheflush chown32 clock_adjtime64
	clock_getres_time64 clock_gettime64 clock_nanosleep_time64 fadvise64_64 fchown32 fcntl64 fstat64 fstatat64
	fstatfs64 ftruncate64 futex_time64 getegid32 geteuid32 getgid32 getgroups32 getresgid32 getresuid32 getuid32
	io_pgetevents_time64 ipc lchown32 lstat64 mmap2 mq_timedreceive_time64 mq_timedsend_time64 ppoll_time64
	pselect6_time64 recv recvmmsg_time64 riscv_hwprobe rt_sigtimedwait_time64 sched_rr_get_interval_time64
	semtimedop_time64 send sendfile64 set_tls setfsgid32 setfsuid32 setgid32 setgroups32 setregid32 setresgid32
	setresuid32 setreuid32 setuid32 sigprocmask sigreturn socketcall stat64 statfs64 sync_file_range2
	timer_gettime64 timer_settime64 timerfd_gettime64 timerfd_settime64 truncate64 ugetrlimit utimensat_time64
	waitpid
`)

// TestAllowsNoMoreThanMoby fails if moby's profile gains or loses calls.
func TestAllowsNoMoreThanMoby(t *testing.T) {
	var theirs []string
	for _, s := range moby.DefaultProfile().Syscalls {
		if s.Action != specs.ActAllow || s.Includes != nil && len(s.Includes.Caps) > 0 {
			continue
		}
		if in := s.Includes; in != nil && len(in.Arches) > 0 && !slices.Contains(in.Arches, "amd64") && !slices.Contains(in.Arches, "arm64") {
			continue
		}
		theirs = append(theirs, s.Names...)
	}
	for _, c := range calls {
		r, ruled := policyRules(Options{})[c.name]
		if ruled && len(r.when) == 0 {
			continue
		}
		if !slices.Contains(theirs, c.name) {
			t.Errorf("%s is allowed here, not by moby", c.name)
		}
	}
	known := func(name string) bool {
		return slices.ContainsFunc(calls, func(c call) bool { return c.name == name })
	}
	for _, name := range theirs {
		if !known(name) && !slices.Contains(needless, name) && !slices.Contains(only32Bit, name) {
			t.Errorf("%s is allowed by moby, and not known here", name)
		}
	}
	for _, name := range needless {
		if known(name) {
			t.Errorf("%s is called needless, and allowed", name)
		}
	}
}
