//! How much of a list is taken from a server, however much it offers.

use std::io;

use serde::Serialize;

/// The most items of one list.
pub(crate) const MOST_ITEMS: usize = 10_000;
/// The most that the items of one list may take as JSON, in bytes.
pub(crate) const MOST_BYTES: usize = 32 * 1024 * 1024;
/// The most warnings about one list.
const MOST_WARNINGS: usize = 50;

/// What was taken of a list so far.
#[derive(Debug, Default)]
pub(super) struct Bounds {
    items: usize,
    bytes: usize,
}

/// Which bound the next item would break.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Broken {
    Items,
    Bytes,
}

impl Broken {
    /// What is told about a list that was cut.
    pub(super) fn describe(self, what: &str) -> String {
        match self {
            Self::Items => format!(
                "the server has more than {MOST_ITEMS} {what}, the most that are taken; the rest is left out"
            ),
            Self::Bytes => format!(
                "the {what} of the server take more than {} MiB, the most that is taken; the rest is left out",
                MOST_BYTES >> 20
            ),
        }
    }
}

impl Bounds {
    /// Counts an item, if it fits.
    pub(super) fn admit(&mut self, item: &impl Serialize) -> Result<(), Broken> {
        if self.items == MOST_ITEMS {
            return Err(Broken::Items);
        }
        let mut size = Size(0);
        // An item that cannot be serialised is not stored either, so it counts for nothing.
        let _ = serde_json::to_writer(&mut size, item);
        if self.bytes + size.0 > MOST_BYTES {
            return Err(Broken::Bytes);
        }
        self.items += 1;
        self.bytes += size.0;
        Ok(())
    }
}

/// Counts bytes and keeps none.
struct Size(usize);

impl io::Write for Size {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Leaves the first warnings of many, and says how many there were.
pub(super) fn trim_warnings(warnings: &mut Vec<String>) {
    if warnings.len() > MOST_WARNINGS {
        let more = warnings.len() - MOST_WARNINGS;
        warnings.truncate(MOST_WARNINGS);
        warnings.push(format!("{more} more warnings about this list are left out"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_are_taken_up_to_their_number_and_the_warning_names_it() {
        let mut bounds = Bounds::default();
        for number in 0..MOST_ITEMS {
            assert_eq!(bounds.admit(&number), Ok(()));
        }
        assert_eq!(bounds.admit(&0), Err(Broken::Items));
        let warning = Broken::Items.describe("tools");
        assert!(warning.contains("more than 10000 tools"), "{warning}");
    }

    #[test]
    fn items_are_taken_up_to_their_size_and_the_warning_names_it() {
        let mut bounds = Bounds::default();
        let large = "x".repeat(MOST_BYTES / 4);
        for _ in 0..3 {
            assert_eq!(bounds.admit(&large), Ok(()));
        }
        assert_eq!(bounds.admit(&large), Err(Broken::Bytes));
        assert_eq!(bounds.admit(&"small"), Ok(()));
        let warning = Broken::Bytes.describe("tools");
        assert!(warning.contains("more than 32 MiB"), "{warning}");
    }

    #[test]
    fn of_many_warnings_the_first_are_kept() {
        let mut warnings: Vec<String> = (0..60).map(|number| number.to_string()).collect();
        trim_warnings(&mut warnings);
        assert_eq!(warnings.len(), 51);
        assert_eq!(
            warnings[50],
            "10 more warnings about this list are left out"
        );
    }
}
