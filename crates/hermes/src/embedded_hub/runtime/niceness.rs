//! The niceness of sessions. Where Linux groups processes by session to share out the processors, as it does
//! unless control groups do, the niceness of a process counts only among those of its own session, and that of the
//! session among all others.

use std::fs;

/// Sets the niceness of a process's session, if it differs. Best effort: the kernel rate-limits this for users other
/// than root, and not every kernel has such groups.
pub(super) fn set_session_niceness(pid: u32, niceness: i32) {
    let path = format!("/proc/{pid}/autogroup");
    let present = fs::read_to_string(&path)
        .ok()
        .and_then(|text| parse_autogroup(&text));
    if present.is_some_and(|present| present < niceness) {
        let _ = fs::write(&path, niceness.to_string());
    }
}

/// Reads `/autogroup-42 nice 5`.
fn parse_autogroup(text: &str) -> Option<i32> {
    let (_, niceness) = text.trim_end().rsplit_once(" nice ")?;
    niceness.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_niceness_of_a_group_is_read_as_the_kernel_writes_it() {
        assert_eq!(parse_autogroup("/autogroup-1 nice 0\n"), Some(0));
        assert_eq!(parse_autogroup("/autogroup-4711 nice -5\n"), Some(-5));
        assert_eq!(parse_autogroup("/autogroup-4711 nice 19\n"), Some(19));
        assert_eq!(parse_autogroup(""), None);
    }
}
