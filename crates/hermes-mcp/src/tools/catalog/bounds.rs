//! How much of a list is taken from a server, however much it offers.

use std::io;

use serde::Serialize;

/// The most items of one list.
pub(crate) const MAX_ITEMS: usize = 10_000;
/// The most that the items of one list may take as JSON, in bytes.
pub(crate) const MAX_LIST_BYTES: usize = 32 * 1024 * 1024;
/// The most warnings about one list.
const MAX_WARNINGS: usize = 50;

/// What was taken of a list so far.
#[derive(Debug, Default)]
pub(super) struct ListBudget {
    items: usize,
    bytes: usize,
}

/// Which bound the next item would break.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ExceededLimit {
    Items,
    Bytes,
}

impl ExceededLimit {
    /// What is told about a list that was cut.
    pub(super) fn describe(self, what: &str) -> String {
        match self {
            Self::Items => format!(
                "the server has more than {MAX_ITEMS} {what}, which is the maximum; the rest is left out"
            ),
            Self::Bytes => format!(
                "the {what} of the server take more than {} MiB, which is the maximum; the rest is left out",
                MAX_LIST_BYTES >> 20
            ),
        }
    }
}

impl ListBudget {
    /// Counts an item, if it fits.
    pub(super) fn count_item(&mut self, item: &impl Serialize) -> Result<(), ExceededLimit> {
        if self.items == MAX_ITEMS {
            return Err(ExceededLimit::Items);
        }
        let mut size = ByteCounter(0);
        // An item that cannot be serialised is not stored either, so it counts for nothing.
        let _ = serde_json::to_writer(&mut size, item);
        if self.bytes + size.0 > MAX_LIST_BYTES {
            return Err(ExceededLimit::Bytes);
        }
        self.items += 1;
        self.bytes += size.0;
        Ok(())
    }
}

/// Counts bytes and keeps none.
struct ByteCounter(usize);

impl io::Write for ByteCounter {
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
    if warnings.len() > MAX_WARNINGS {
        let more = warnings.len() - MAX_WARNINGS;
        warnings.truncate(MAX_WARNINGS);
        warnings.push(format!("{more} more warnings about this list are left out"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_are_taken_up_to_their_number_and_the_warning_names_it() {
        let mut bounds = ListBudget::default();
        for number in 0..MAX_ITEMS {
            assert_eq!(bounds.count_item(&number), Ok(()));
        }
        assert_eq!(bounds.count_item(&0), Err(ExceededLimit::Items));
        let warning = ExceededLimit::Items.describe("tools");
        assert!(warning.contains("more than 10000 tools"), "{warning}");
    }

    #[test]
    fn items_are_taken_up_to_their_size_and_the_warning_names_it() {
        let mut bounds = ListBudget::default();
        let large = "x".repeat(MAX_LIST_BYTES / 4);
        for _ in 0..3 {
            assert_eq!(bounds.count_item(&large), Ok(()));
        }
        assert_eq!(bounds.count_item(&large), Err(ExceededLimit::Bytes));
        assert_eq!(bounds.count_item(&"small"), Ok(()));
        let warning = ExceededLimit::Bytes.describe("tools");
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
