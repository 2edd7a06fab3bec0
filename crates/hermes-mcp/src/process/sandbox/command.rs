//! Commands that this process starts itself, and that confine themselves before they become their program.

use super::{SandboxError, SandboxPlan};

/// Lets a command enter a sandbox, with all that it starts. What is to be reachable is opened now.
#[cfg(target_os = "linux")]
#[expect(
    unsafe_code,
    reason = "a process can only confine itself, between `fork` and `exec`"
)]
pub fn confine_command(
    command: &mut tokio::process::Command,
    plan: &SandboxPlan,
) -> Result<(), SandboxError> {
    let mut prepared = Some(super::PreparedSandbox::new(plan)?);
    let enter = move || {
        drop_capabilities();
        match prepared.take() {
            Some(prepared) => prepared.enter().map_err(std::io::Error::other),
            None => Ok(()),
        }
    };
    // SAFETY: entering makes a few system calls and takes no lock of ours.
    unsafe { command.pre_exec(enter) };
    Ok(())
}

/// What root may still do in a sandbox: what concerns files, which the rules hold, and ports.
#[cfg(target_os = "linux")]
const KEPT_CAPABILITIES: [libc::c_ulong; 8] = [
    0,  // CHOWN
    1,  // DAC_OVERRIDE
    3,  // FOWNER
    4,  // FSETID
    5,  // KILL
    6,  // SETGID
    7,  // SETUID
    10, // NET_BIND_SERVICE
];

/// Takes from root what reaches around a sandbox: looking into other processes above all, which the kernel allows to
/// whoever may measure them, whatever Landlock says. Nobody else has anything to lose here.
#[cfg(target_os = "linux")]
#[expect(unsafe_code, reason = "a system call without a safe form")]
fn drop_capabilities() {
    /// More than there are.
    const MOST: libc::c_ulong = 64;
    for power in (0..MOST).filter(|power| !KEPT_CAPABILITIES.contains(power)) {
        // SAFETY: it changes this process alone, and no memory is involved.
        unsafe { libc::prctl(libc::PR_CAPBSET_DROP, power, 0, 0, 0) };
    }
}

/// There is nothing to confine a command with.
#[cfg(not(target_os = "linux"))]
pub fn confine_command(
    _: &mut tokio::process::Command,
    _: &SandboxPlan,
) -> Result<(), SandboxError> {
    Err(SandboxError("only Linux supports it".into()))
}
