//! Links the program so that little of it is read when it starts.

use std::{env, path::Path, process::Command};

/// The first version of glibc that starts programs with packed relocations.
const FIRST_WITH_PACKED_RELOCATIONS: (u32, u32) = (2, 36);

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let target = |name: &str| env::var(name).unwrap_or_default();
    if target("CARGO_CFG_TARGET_OS") != "linux" || target("CARGO_CFG_TARGET_ENV") != "gnu" {
        return;
    }
    if glibc_version().is_some_and(|version| version >= FIRST_WITH_PACKED_RELOCATIONS) {
        // Addresses to be mended at start take a twentieth of the room, and no page of theirs stays in memory.
        println!("cargo:rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
    if target("CARGO_CFG_TARGET_ARCH") != "x86_64" || !is_linked_by_default() {
        return;
    }
    if is_published() {
        order_functions();
    } else {
        // Code that handles failures is not between the code that runs.
        println!("cargo:rustc-link-arg-bins=-Wl,-z,keep-text-section-prefix");
    }
}

/// The version on this machine, if the program is built for it.
fn glibc_version() -> Option<(u32, u32)> {
    if env::var("HOST").ok()? != env::var("TARGET").ok()? {
        return None;
    }
    let output = Command::new("getconf").arg("GNU_LIBC_VERSION").output();
    let text = String::from_utf8(output.ok()?.stdout).ok()?;
    let (major, minor) = text.trim().strip_prefix("glibc ")?.split_once('.')?;
    let minor = minor.split('.').next()?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// Lays the functions of a start side by side, as `bench/order` has recorded them. Names that the program has no longer
/// do nothing.
fn order_functions() {
    println!("cargo:rerun-if-changed=start-order.txt");
    println!("cargo:rerun-if-env-changed=HERMES_LINK_MAP");
    let directory = env::var("CARGO_MANIFEST_DIR").unwrap_or_default();
    println!("cargo:rustc-link-arg-bins=-Wl,--symbol-ordering-file={directory}/start-order.txt");
    println!("cargo:rustc-link-arg-bins=-Wl,--no-warn-symbol-ordering");
    if let Ok(map) = env::var("HERMES_LINK_MAP") {
        println!("cargo:rustc-link-arg-bins=-Wl,--no-demangle,-Map={map}");
    }
}

/// Whether this is the profile `dist`: other profiles have other names of functions.
fn is_published() -> bool {
    let out = env::var("OUT_DIR").unwrap_or_default();
    Path::new(&out).iter().any(|part| part == "dist")
}

/// Whether the compiler's own linker is used, lld on this platform; others do not know these options.
fn is_linked_by_default() -> bool {
    let flags = env::var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default();
    env::var_os("RUSTC_LINKER").is_none() && !flags.contains("link")
}
