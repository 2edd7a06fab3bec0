//! What every confined process can read: programs and libraries, and what the machine tells about itself.

use std::path::Path;

/// Programs and libraries.
pub(super) const PROGRAM_PATHS: [&str; 9] = [
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/nix/store",
    "/run/current-system/sw",
];

/// The parts of `/etc` that programs need: libraries, names, certificates, time. Not what is about users or services of
/// this machine.
#[cfg(target_os = "linux")]
pub(super) const SETTINGS_PATHS: [&str; 27] = [
    "/etc/alternatives",
    "/etc/bash.bashrc",
    "/etc/ca-certificates",
    "/etc/ca-certificates.conf",
    "/etc/crypto-policies",
    "/etc/environment",
    "/etc/fonts",
    "/etc/gai.conf",
    "/etc/gitconfig",
    "/etc/group",
    "/etc/host.conf",
    "/etc/hosts",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/localtime",
    "/etc/mime.types",
    "/etc/nsswitch.conf",
    "/etc/os-release",
    "/etc/passwd",
    "/etc/pki",
    "/etc/profile",
    "/etc/protocols",
    "/etc/resolv.conf",
    "/etc/services",
    "/etc/ssl",
    "/etc/timezone",
];

/// What the kernel tells about the machine, and devices that give bytes.
#[cfg(target_os = "linux")]
pub(super) const MACHINE_PATHS: [&str; 8] = [
    "/proc",
    "/sys/devices/system/cpu",
    "/sys/fs/cgroup",
    "/sys/kernel/mm/transparent_hugepage",
    "/dev/full",
    "/dev/random",
    "/dev/urandom",
    "/dev/zero",
];

/// Whether a path is among the system's programs, which every confined process can read.
pub fn is_system_path(path: &Path) -> bool {
    PROGRAM_PATHS.iter().any(|system| path.starts_with(system))
}
