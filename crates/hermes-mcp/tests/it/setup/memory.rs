//! How much memory the test's own process takes. Each test is a process of its own under nextest.

/// The most memory used since the last look, in MiB, over what is used now.
pub(crate) struct Growth(u64);

impl Growth {
    /// Starts to watch.
    pub(crate) fn watch() -> Self {
        // 5 resets the peak.
        std::fs::write("/proc/self/clear_refs", "5").unwrap();
        Self(mebibytes("VmRSS"))
    }

    pub(crate) fn peak(&self) -> u64 {
        mebibytes("VmHWM").saturating_sub(self.0)
    }
}

fn mebibytes(field: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with(field)).unwrap();
    let number = line.split_whitespace().nth(1).unwrap();
    number.parse::<u64>().unwrap() / 1024
}
