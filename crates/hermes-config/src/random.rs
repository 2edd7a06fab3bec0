//! Random bytes of the system: for keys, nonces and ids.

use std::{
    hash::{BuildHasher, RandomState},
    time::Duration,
};

pub use getrandom::Error as RandomError;

use crate::to_hex;

/// So many random bytes. Secrets are made of these.
pub fn random_bytes<const COUNT: usize>() -> Result<[u8; COUNT], RandomError> {
    let mut bytes = [0; COUNT];
    getrandom::fill(&mut bytes)?;
    Ok(bytes)
}

/// So many random bytes as hexadecimal digits, two each.
pub fn random_hex<const BYTES: usize>() -> Result<String, RandomError> {
    Ok(to_hex(&random_bytes::<BYTES>()?))
}

/// A random number, for delays and for ids that must differ but need not be secret.
pub fn random_number() -> u64 {
    // Where the system refuses, the keys of a new hasher, which the standard library took from it before, still differ.
    getrandom::u64().unwrap_or_else(|_| RandomState::new().hash_one(std::process::id()))
}

/// So many hexadecimal digits of [`random_number`], at most 16.
pub fn random_digits(count: usize) -> String {
    let mut digits = format!("{:016x}", random_number());
    digits.truncate(count);
    digits
}

/// Spreads a pause by ±20 %, so that what failed together is not retried at the same moment.
pub fn add_jitter(pause: Duration) -> Duration {
    let permille = u32::try_from(random_number() % 401).unwrap_or(200) + 800;
    pause * permille / 1000
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn pauses_differ_by_a_fifth_at_most() {
        let pauses: HashSet<_> = (0..50)
            .map(|_| add_jitter(Duration::from_secs(10)))
            .collect();
        assert!(pauses.len() > 10);
        let range = Duration::from_secs(8)..=Duration::from_secs(12);
        assert!(pauses.iter().all(|pause| range.contains(pause)));
    }

    #[test]
    fn numbers_do_not_repeat() {
        let numbers: HashSet<_> = (0..10_000).map(|_| random_number()).collect();
        assert_eq!(numbers.len(), 10_000);
        assert_eq!(random_digits(6).len(), 6);
        assert_eq!(random_hex::<4>().unwrap().len(), 8);
    }
}
