//! Whether other processes of the same user may look into this one.

/// Switches core files and inspection off, for this process: from now on neither its memory nor its variables nor its
/// open files can be read by another process of the same user, and none can trace it. Programs that it starts are
/// themselves again.
///
/// Call it before anything is started. What holds keys and starts programs needs it.
pub fn forbid_inspection() {
    // A kernel that refuses this leaves things as they were; nothing could be done about it here.
    #[cfg(target_os = "linux")]
    let _ = rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable);
}
