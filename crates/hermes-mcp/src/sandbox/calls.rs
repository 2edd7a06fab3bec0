//! seccomp's part: system calls that a server has no business with, and sockets where it is denied the network.

#[cfg(any(
    target_arch = "x86_64",
    target_arch = "aarch64",
    target_arch = "riscv64"
))]
pub(super) use self::filtered::Filter;
#[cfg(not(any(
    target_arch = "x86_64",
    target_arch = "aarch64",
    target_arch = "riscv64"
)))]
pub(super) use self::unfiltered::Filter;

/// Whether the kernel can refuse system calls, and we know the calls of this processor.
pub(super) fn can_be_refused() -> bool {
    Filter::IS_KNOWN
        && std::fs::read_to_string("/proc/sys/kernel/seccomp/actions_avail")
            .is_ok_and(|actions| actions.split_whitespace().any(|action| action == "errno"))
}

#[cfg(any(
    target_arch = "x86_64",
    target_arch = "aarch64",
    target_arch = "riscv64"
))]
mod filtered {
    use seccompiler::{BpfProgram, SeccompAction, SeccompFilter};

    use super::super::{Network, SandboxError};

    /// What reaches into other processes, or into the kernel.
    const ALWAYS: [i64; 29] = [
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

    /// Sockets of every kind: UDP, raw ones, and those in the file system behind which others work. Pairs of sockets,
    /// which reach nobody else, are left.
    const WITHOUT_NETWORK: [i64; 1] = [libc::SYS_socket];

    /// Set in the numbers of a second set of calls that some kernels for this processor have.
    #[cfg(target_arch = "x86_64")]
    const OTHER_NUMBERS: i64 = 0x4000_0000;

    /// A filter for one process. A refused call fails with `EPERM`.
    pub(in crate::sandbox) struct Filter(BpfProgram);

    impl Filter {
        pub(in crate::sandbox) const IS_KNOWN: bool = true;

        pub(in crate::sandbox) fn new(network: Network) -> Result<Self, SandboxError> {
            let sockets: &[i64] = match network {
                Network::Allowed => &[],
                Network::Denied => &WITHOUT_NETWORK,
            };
            let refused = ALWAYS.iter().chain(sockets);
            #[cfg(target_arch = "x86_64")]
            let refused = refused.flat_map(|call| [*call, call | OTHER_NUMBERS]);
            #[cfg(not(target_arch = "x86_64"))]
            let refused = refused.copied();
            let architecture = std::env::consts::ARCH
                .try_into()
                .map_err(SandboxError::new)?;
            let filter = SeccompFilter::new(
                // A call without conditions is refused whatever its arguments.
                refused.map(|call| (call, Vec::new())).collect(),
                SeccompAction::Allow,
                SeccompAction::Errno(libc::EPERM.unsigned_abs()),
                architecture,
            );
            let program = filter.and_then(BpfProgram::try_from);
            Ok(Self(program.map_err(SandboxError::new)?))
        }

        pub(in crate::sandbox) fn enter(self) -> Result<(), SandboxError> {
            seccompiler::apply_filter(&self.0).map_err(SandboxError::new)
        }
    }
}

#[cfg(not(any(
    target_arch = "x86_64",
    target_arch = "aarch64",
    target_arch = "riscv64"
)))]
mod unfiltered {
    use super::super::{Network, SandboxError};

    /// There is none for this processor.
    pub(in crate::sandbox) struct Filter;

    impl Filter {
        pub(in crate::sandbox) const IS_KNOWN: bool = false;

        pub(in crate::sandbox) fn new(_: Network) -> Result<Self, SandboxError> {
            Err(SandboxError::new("no filter for this processor"))
        }

        pub(in crate::sandbox) fn enter(self) -> Result<(), SandboxError> {
            Ok(())
        }
    }
}
