//! Random numbers for ids and pauses. Unguessable enough to be unique; no secrets are made from them.

use std::hash::{BuildHasher, RandomState};

/// A number no other call or process is likely to get.
pub(crate) fn random_number() -> u64 {
    RandomState::new().hash_one(std::process::id())
}

/// So many hexadecimal digits, at most 16.
pub(crate) fn random_hex(digits: usize) -> String {
    let mut text = format!("{:016x}", random_number());
    text.truncate(digits);
    text
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn numbers_do_not_repeat() {
        let numbers: HashSet<_> = (0..10_000).map(|_| random_number()).collect();
        assert_eq!(numbers.len(), 10_000);
        assert_eq!(random_hex(6).len(), 6);
    }
}
