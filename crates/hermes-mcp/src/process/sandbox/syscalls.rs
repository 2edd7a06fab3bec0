//! seccomp's part: system calls that a confined process has no business with, and sockets where it is denied them.

#[cfg(any(
    target_arch = "x86_64",
    target_arch = "aarch64",
    target_arch = "riscv64"
))]
pub use self::filtered::SyscallFilter;
#[cfg(not(any(
    target_arch = "x86_64",
    target_arch = "aarch64",
    target_arch = "riscv64"
)))]
pub use self::unfiltered::SyscallFilter;

/// Whether the kernel can refuse system calls, and we know the calls of this processor.
pub(super) fn is_supported() -> bool {
    SyscallFilter::IS_SUPPORTED
        && std::fs::read_to_string("/proc/sys/kernel/seccomp/actions_avail")
            .is_ok_and(|actions| actions.split_whitespace().any(|action| action == "errno"))
}

#[cfg(any(
    target_arch = "x86_64",
    target_arch = "aarch64",
    target_arch = "riscv64"
))]
mod filtered {
    use std::collections::BTreeMap;

    use seccompiler::{
        BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp,
        SeccompCondition as Condition, SeccompFilter, SeccompRule as Rule,
    };

    use super::super::{NetworkAccess, SandboxError, UnixSocketAccess};

    /// What reaches into other processes, or into the kernel.
    const ALWAYS_REFUSED: [i64; 29] = [
        libc::SYS_ptrace,
        libc::SYS_process_vm_readv,
        libc::SYS_process_vm_writev,
        libc::SYS_pidfd_getfd,
        // Keys of the user's session.
        libc::SYS_add_key,
        libc::SYS_keyctl,
        libc::SYS_request_key,
        libc::SYS_bpf,
        libc::SYS_perf_event_open,
        libc::SYS_userfaultfd,
        // What is asked for through a ring is not seen by a filter.
        libc::SYS_io_uring_setup,
        libc::SYS_io_uring_enter,
        libc::SYS_io_uring_register,
        libc::SYS_open_by_handle_at,
        libc::SYS_mount,
        libc::SYS_umount2,
        libc::SYS_pivot_root,
        libc::SYS_move_mount,
        libc::SYS_open_tree,
        libc::SYS_fsopen,
        libc::SYS_fsmount,
        libc::SYS_setns,
        libc::SYS_kexec_load,
        libc::SYS_init_module,
        libc::SYS_finit_module,
        libc::SYS_delete_module,
        libc::SYS_reboot,
        libc::SYS_swapon,
        libc::SYS_swapoff,
    ];

    /// Set in the numbers of a second set of calls that some kernels for this processor have.
    #[cfg(target_arch = "x86_64")]
    const X32_SYSCALL_BIT: i64 = 0x4000_0000;

    /// Calls with the conditions under which they are refused; without one, always.
    type RefusedCalls = BTreeMap<i64, Vec<Rule>>;

    /// A filter for one process. A refused call fails with `EPERM`.
    pub struct SyscallFilter(Vec<BpfProgram>);

    impl SyscallFilter {
        pub(in crate::process::sandbox) const IS_SUPPORTED: bool = true;

        /// What reaches into other processes or the kernel is refused, user namespaces are, and sockets as asked for.
        pub fn new(
            network: NetworkAccess,
            unix_sockets: UnixSocketAccess,
        ) -> Result<Self, SandboxError> {
            let refused = refused(network, unix_sockets).map_err(SandboxError::new)?;
            let refusal = SeccompAction::Errno(libc::EPERM.unsigned_abs());
            // A filter sees numbers, and the flags of this call are in memory. As if it were an older kernel, which
            // libraries are prepared for: they use `clone`, whose flags are seen.
            let unseen = BTreeMap::from([(libc::SYS_clone3, Vec::new())]);
            let unknown = SeccompAction::Errno(libc::ENOSYS.unsigned_abs());
            let programs = [(refused, refusal), (unseen, unknown)]
                .into_iter()
                .map(|(calls, action)| compile(calls, action));
            let programs: Result<_, _> = programs.collect();
            Ok(Self(programs.map_err(SandboxError::new)?))
        }

        /// Puts the filter in force for this thread and all that it starts, for good.
        pub fn enter(self) -> Result<(), SandboxError> {
            let mut programs = self.0.iter();
            programs.try_for_each(|program| {
                seccompiler::apply_filter(program).map_err(SandboxError::new)
            })
        }
    }

    fn refused(
        network: NetworkAccess,
        unix_sockets: UnixSocketAccess,
    ) -> Result<RefusedCalls, BackendError> {
        let mut refused: RefusedCalls = ALWAYS_REFUSED.map(|call| (call, Vec::new())).into();
        let new_user = u64::from(libc::CLONE_NEWUSER.unsigned_abs());
        let has_new_user = SeccompCmpOp::MaskedEq(new_user);
        for call in [libc::SYS_clone, libc::SYS_unshare] {
            refused.insert(call, vec![first_argument(has_new_user.clone(), new_user)?]);
        }
        match (network, unix_sockets) {
            // Sockets of every kind: UDP, raw ones, and those in the file system behind which others work. Pairs of
            // sockets, which reach nobody else, are left.
            (NetworkAccess::Denied, _) => {
                refused.insert(libc::SYS_socket, Vec::new());
            }
            (NetworkAccess::Allowed, UnixSocketAccess::Denied) => {
                let family = u64::from(libc::AF_UNIX.unsigned_abs());
                refused.insert(
                    libc::SYS_socket,
                    vec![first_argument(SeccompCmpOp::Eq, family)?],
                );
            }
            (NetworkAccess::Allowed, UnixSocketAccess::Allowed) => {}
        }
        Ok(refused)
    }

    /// All the arguments in question are of 32 bits, whatever stands in the rest of the register.
    fn first_argument(comparison: SeccompCmpOp, value: u64) -> Result<Rule, BackendError> {
        let condition = Condition::new(0, SeccompCmpArgLen::Dword, comparison, value)?;
        Rule::new(vec![condition])
    }

    fn compile(calls: RefusedCalls, action: SeccompAction) -> Result<BpfProgram, BackendError> {
        #[cfg(target_arch = "x86_64")]
        let calls = calls
            .into_iter()
            .flat_map(|(call, rules)| [(call, rules.clone()), (call | X32_SYSCALL_BIT, rules)])
            .collect();
        let architecture = std::env::consts::ARCH.try_into()?;
        SeccompFilter::new(calls, SeccompAction::Allow, action, architecture)?.try_into()
    }
}

#[cfg(not(any(
    target_arch = "x86_64",
    target_arch = "aarch64",
    target_arch = "riscv64"
)))]
mod unfiltered {
    use super::super::{NetworkAccess, SandboxError, UnixSocketAccess};

    /// There is none for this processor.
    pub struct SyscallFilter;

    impl SyscallFilter {
        pub(in crate::process::sandbox) const IS_SUPPORTED: bool = false;

        /// Fails.
        pub fn new(_: NetworkAccess, _: UnixSocketAccess) -> Result<Self, SandboxError> {
            Err(SandboxError::new("no filter for this processor"))
        }

        /// Does nothing.
        pub fn enter(self) -> Result<(), SandboxError> {
            Ok(())
        }
    }
}
