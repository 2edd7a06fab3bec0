//! Pairing: a stranger gets a code, the owner approves it, and from then on the stranger is let in.
//!
//! The files are those of Hermes 0.19: `<account>-pending.json`, `<account>-approved.json` and `_rate_limits.json`. A code
//! is stored as a salted hash and shown only to whoever asked for it. Every question is answered from the files, so that
//! what another process approves or revokes holds at once.

mod files;

use std::{fs, io, sync::Arc};

use hermes_config::{
    Home, Secret, from_hex,
    random::{RandomError, random_bytes, random_hex},
    to_hex,
};
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

use files::{HomeFiles, PairingFiles};

use crate::epoch_seconds;

/// Letters and digits that are not mistaken for others. There are 32, so that five random bits choose one.
const ALPHABET: &[u8; 32] = b"ABCDEFGHJKLMNPQRSTUVWXYZ23456789";
const CODE_LENGTH: usize = 8;
/// How long a code is valid, in seconds.
const CODE_TTL: f64 = 3600.0;
/// A user gets one code in this time.
const REQUEST_INTERVAL: f64 = 600.0;
const MAX_PENDING: usize = 3;
const MAX_WRONG_CODES: u64 = 5;
const LOCKOUT: f64 = 3600.0;
/// A time stamp further in the future comes from a clock that was wrong.
const CLOCK_TOLERANCE: f64 = 60.0;

/// Where pairing files are read and written. A Hub does that without following links of a tenant.
pub trait PairingDirectory: Send + Sync {
    /// The text of a file; `None` if there is none.
    fn read(&self, place: PairingLocation, name: &str) -> io::Result<Option<String>>;

    /// Replaces a file, private and whole.
    fn write(&self, place: PairingLocation, name: &str, content: &[u8]) -> io::Result<()>;

    /// The names of all files; none if there is no such directory.
    fn names(&self, place: PairingLocation) -> Vec<String>;

    /// Keeps other processes from writing until it is dropped. Creates the directory.
    fn lock(&self, place: PairingLocation) -> io::Result<fs::File>;
}

/// One of the two directories of a home that may have the files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PairingLocation {
    /// `pairing`.
    Usual,
    /// `platforms/pairing`, where newer homes of Hermes 0.19 have them.
    Other,
}

impl PairingLocation {
    pub const ALL: [Self; 2] = [Self::Usual, Self::Other];

    /// Its path in a home.
    pub fn path(self) -> &'static str {
        match self {
            Self::Usual => "pairing",
            Self::Other => "platforms/pairing",
        }
    }
}

/// Seconds since 1970.
pub type PairingClock = Arc<dyn Fn() -> f64 + Send + Sync>;

/// What a stranger who asks is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CodeOffer {
    Issued(Secret<String>),
    /// Nothing: the last code is only minutes old, or too many wrong codes were tried.
    Withheld,
    /// Others are waiting already. Said once in ten minutes.
    TooManyPending,
}

#[derive(Debug, thiserror::Error)]
pub enum PairingError {
    #[error("the code is not known, or it is older than an hour")]
    UnknownCode,
    #[error(
        "after {MAX_WRONG_CODES} wrong codes no code is accepted for another {minutes} minutes"
    )]
    LockedOut { minutes: u64 },
    #[error("the pairing files in `{directory}` cannot be used: {source}")]
    Storage {
        directory: String,
        source: io::Error,
    },
    #[error("the system has no random numbers: {0}")]
    Random(#[from] RandomError),
}

/// Somebody who asked for a code.
#[derive(Debug, Clone, PartialEq)]
pub struct PendingPairing {
    /// `telegram`, or `telegram@work`.
    pub account: String,
    pub user_id: String,
    pub user_name: String,
    /// Seconds since 1970.
    pub created_at: f64,
    /// Seconds until the code is not valid any more.
    pub expires_in: f64,
}

/// Somebody who was let in.
#[derive(Debug, Clone, PartialEq)]
pub struct PairedUser {
    pub account: String,
    pub user_id: String,
    pub user_name: String,
    /// Seconds since 1970.
    pub approved_at: Option<f64>,
}

/// The pairing files of a home. Accounts are named by their label: `telegram`, `telegram@work`.
#[derive(Clone)]
pub struct PairingStore {
    files: PairingFiles,
    clock: PairingClock,
}

impl PairingStore {
    pub fn new(home: &Home) -> Self {
        Self::with_clock(home, Arc::new(epoch_seconds))
    }

    pub fn with_clock(home: &Home, clock: PairingClock) -> Self {
        Self::over(Arc::new(HomeFiles::new(home)), clock)
    }

    /// One whose files are read and written by other means.
    pub fn over(directory: Arc<dyn PairingDirectory>, clock: PairingClock) -> Self {
        Self {
            files: PairingFiles::new(directory),
            clock,
        }
    }

    /// Whether a user was let in and not revoked.
    pub fn is_approved(&self, account: &str, user_id: &str) -> bool {
        self.files.read_approved(account).contains_key(user_id)
    }

    /// A code for a stranger, if the limits allow one.
    pub fn request_code(
        &self,
        account: &str,
        user_id: &str,
        user_name: &str,
    ) -> Result<CodeOffer, PairingError> {
        let _lock = self.files.lock()?;
        let now = (self.clock)();
        let mut limits = self.files.read_limits();
        let asked = format!("{account}:{user_id}");
        let is_recent = number(&limits, &asked)
            .is_some_and(|at| (-CLOCK_TOLERANCE..REQUEST_INTERVAL).contains(&(now - at)));
        if is_recent || lockout_left(&limits, account, now).is_some() {
            return Ok(CodeOffer::Withheld);
        }
        limits.insert(asked, json!(now));
        limits.retain(|key, at| {
            key.starts_with('_') || at.as_f64().is_some_and(|at| now - at < REQUEST_INTERVAL)
        });
        self.files.write_limits(&limits)?;
        let mut pending = self.valid_pending(account, now);
        // Whoever asks again has lost the earlier code.
        pending.retain(|_, entry| entry["user_id"] != user_id);
        if pending.len() >= MAX_PENDING {
            return Ok(CodeOffer::TooManyPending);
        }
        let code = new_code()?;
        let salt = random_bytes::<16>()?;
        pending.insert(
            random_hex::<8>()?,
            json!({
                "hash": hash_code(&code, &salt),
                "salt": to_hex(&salt),
                "user_id": user_id,
                "user_name": user_name,
                "created_at": now,
            }),
        );
        self.files.write_pending(account, &pending)?;
        Ok(CodeOffer::Issued(Secret::new(code)))
    }

    /// Lets in whoever got this code.
    pub fn approve(&self, account: &str, code: &str) -> Result<PairedUser, PairingError> {
        let _lock = self.files.lock()?;
        let now = (self.clock)();
        let mut limits = self.files.read_limits();
        if let Some(left) = lockout_left(&limits, account, now) {
            return Err(locked_out(left));
        }
        let code = code.trim().to_uppercase();
        let mut pending = self.valid_pending(account, now);
        // All are compared, so that the time tells nothing about which one it was.
        let mut found = None;
        for (id, entry) in &pending {
            let salt = entry["salt"].as_str().and_then(from_hex);
            let hash = salt.map(|salt| hash_code(&code, &salt)).unwrap_or_default();
            if is_same_secret(&hash, entry["hash"].as_str().unwrap_or_default()) {
                found = Some(id.clone());
            }
        }
        let wrong_codes = format!("_failures:{account}");
        let Some(entry) = found.and_then(|id| pending.remove(&id)) else {
            let wrong = limits
                .get(&wrong_codes)
                .and_then(Value::as_u64)
                .unwrap_or(0)
                + 1;
            let is_locked = wrong >= MAX_WRONG_CODES;
            limits.insert(wrong_codes, json!(if is_locked { 0 } else { wrong }));
            if is_locked {
                limits.insert(format!("_lockout:{account}"), json!(now + LOCKOUT));
            }
            self.files.write_limits(&limits)?;
            return Err(if is_locked {
                locked_out(LOCKOUT)
            } else {
                PairingError::UnknownCode
            });
        };
        let text = |key: &str| entry[key].as_str().unwrap_or_default().to_owned();
        let user = PairedUser {
            account: account.to_owned(),
            user_id: text("user_id"),
            user_name: text("user_name"),
            approved_at: Some(now),
        };
        let mut approved = self.files.read_approved(account);
        approved.insert(
            user.user_id.clone(),
            json!({"user_name": user.user_name, "approved_at": now}),
        );
        self.files.write_approved(account, &approved)?;
        self.files.write_pending(account, &pending)?;
        if limits.remove(&wrong_codes).is_some() {
            self.files.write_limits(&limits)?;
        }
        Ok(user)
    }

    /// Whether somebody was let in and is not any more.
    pub fn revoke(&self, account: &str, user_id: &str) -> Result<bool, PairingError> {
        let _lock = self.files.lock()?;
        self.files.remove_approved(account, user_id)
    }

    /// Those who were let in, by account.
    pub fn list_approved(&self) -> Vec<PairedUser> {
        let mut users = Vec::new();
        for account in self.files.accounts("approved") {
            for (user_id, entry) in self.files.read_approved(&account) {
                users.push(PairedUser {
                    account: account.clone(),
                    user_id,
                    user_name: entry["user_name"].as_str().unwrap_or_default().to_owned(),
                    approved_at: entry["approved_at"].as_f64(),
                });
            }
        }
        users
    }

    /// Those who wait, by account.
    pub fn list_pending(&self) -> Vec<PendingPairing> {
        let now = (self.clock)();
        let mut waiting = Vec::new();
        for account in self.files.accounts("pending") {
            for entry in self.valid_pending(&account, now).values() {
                let text = |key: &str| entry[key].as_str().unwrap_or_default().to_owned();
                let created_at = entry["created_at"].as_f64().unwrap_or(now);
                waiting.push(PendingPairing {
                    account: account.clone(),
                    user_id: text("user_id"),
                    user_name: text("user_name"),
                    created_at,
                    expires_in: (created_at + CODE_TTL - now).clamp(0.0, CODE_TTL),
                });
            }
        }
        waiting
    }

    /// Forgets all codes. Returns how many there were.
    pub fn clear_pending(&self) -> Result<usize, PairingError> {
        let _lock = self.files.lock()?;
        let now = (self.clock)();
        let mut count = 0;
        for account in self.files.accounts("pending") {
            count += self.valid_pending(&account, now).len();
            self.files.write_pending(&account, &Map::new())?;
        }
        Ok(count)
    }

    /// Requests whose code is still valid. Entries of older versions have the code itself and do not count.
    fn valid_pending(&self, account: &str, now: f64) -> Map<String, Value> {
        let mut pending = self.files.read_pending(account);
        pending.retain(|_, entry| {
            let age = entry["created_at"].as_f64().map(|created| now - created);
            entry["hash"].is_string()
                && age.is_some_and(|age| (-CLOCK_TOLERANCE..=CODE_TTL).contains(&age))
        });
        pending
    }
}

fn number(limits: &Map<String, Value>, key: &str) -> Option<f64> {
    limits.get(key)?.as_f64()
}

/// Seconds for which no code is accepted.
fn lockout_left(limits: &Map<String, Value>, account: &str, now: f64) -> Option<f64> {
    let left = number(limits, &format!("_lockout:{account}"))? - now;
    // More than the longest lock-out was written by a clock that was wrong.
    (left > 0.0 && left <= LOCKOUT + CLOCK_TOLERANCE).then_some(left)
}

fn locked_out(seconds: f64) -> PairingError {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "between 0 and 61 minutes"
    )]
    let minutes = (seconds / 60.0).ceil() as u64;
    PairingError::LockedOut { minutes }
}

fn new_code() -> Result<String, RandomError> {
    let bytes = random_bytes::<CODE_LENGTH>()?;
    let letters = bytes.iter().map(|byte| ALPHABET[usize::from(byte & 31)]);
    Ok(letters.map(char::from).collect())
}

fn hash_code(code: &str, salt: &[u8]) -> String {
    let mut hash = Sha256::new();
    hash.update(salt);
    hash.update(code.as_bytes());
    to_hex(&hash.finalize())
}

/// Compares in a time that does not depend on where they differ.
fn is_same_secret(one: &str, other: &str) -> bool {
    one.len() == other.len()
        && !one.is_empty()
        && one
            .bytes()
            .zip(other.bytes())
            .fold(0, |differences, (one, other)| differences | (one ^ other))
            == 0
}

#[cfg(test)]
mod tests;
