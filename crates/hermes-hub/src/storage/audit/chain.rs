//! The hash chain: appending an entry, and verifying a stored one.

use serde::{Serialize, Serializer};
use sha2::{Digest, Sha256};

use super::NewAuditEntry;
use crate::api_types::{AuditEntry, AuditPhase, Decision, Time, Via, ids::hex};

/// The previous hash of the first entry.
pub const ORIGIN_HASH: [u8; 32] = [0; 32];

/// The position in a chain after which the next entry comes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChainPosition {
    /// Number of the last entry, 0 before the first.
    pub seq: u64,
    pub hash: [u8; 32],
}

impl ChainPosition {
    /// Before the first entry.
    pub fn origin() -> Self {
        Self {
            seq: 0,
            hash: ORIGIN_HASH,
        }
    }

    /// Appends an entry and advances to it.
    pub(crate) fn append(
        &mut self,
        chain: &str,
        entry: &NewAuditEntry,
        phase: Option<AuditPhase>,
        intent: Option<u64>,
        clock: &mut EntryClock,
    ) -> Result<AppendedEntry, serde_json::Error> {
        clock.update();
        let seq = self.seq + 1;
        let milliseconds = entry.started.elapsed().as_millis();
        let text = CanonicalEntry {
            action: &entry.action,
            actor: &entry.actor,
            arg_names: &entry.arg_names,
            chain,
            content_sha256: entry.content_sha256.as_deref(),
            decision: entry.decision,
            duration_ms: u64::try_from(milliseconds).unwrap_or(u64::MAX),
            intent,
            phase,
            prev_hash: HexDigits(&self.hash),
            request_id: &entry.request_id,
            seq,
            size: entry.size,
            status: entry.status,
            target: entry.target.as_deref(),
            tenant: entry.tenant.as_deref(),
            time: &clock.text,
            via: entry.via,
        }
        .to_text()?;
        self.hash = chain_hash(&self.hash, &text);
        self.seq = seq;
        Ok(AppendedEntry {
            seq,
            time: clock.time,
            text,
        })
    }

    /// Verifies the next stored entry and advances to it. The error says what is wrong with it.
    pub(crate) fn verify_next(
        &mut self,
        chain: &str,
        text: &str,
        stored: &[u8],
    ) -> Result<AuditEntry, String> {
        let expected = chain_hash(&self.hash, text);
        if stored != expected {
            return Err("its hash does not match its content and the previous entry".into());
        }
        let entry =
            parse_entry(text, stored).map_err(|error| format!("it cannot be read: {error}"))?;
        if entry.seq != self.seq + 1 || entry.chain != chain {
            return Err(format!(
                "it is entry {} of `{}`, not entry {} of `{chain}`",
                entry.seq,
                entry.chain,
                self.seq + 1
            ));
        }
        if entry.prev_hash != hex(&self.hash) {
            return Err("it does not follow the previous entry".into());
        }
        self.seq = entry.seq;
        self.hash = expected;
        Ok(entry)
    }
}

/// An entry from its stored text and hash.
pub(crate) fn parse_entry(text: &str, hash: &[u8]) -> Result<AuditEntry, serde_json::Error> {
    let mut value: serde_json::Value = serde_json::from_str(text)?;
    value["hash"] = hex(hash).into();
    serde_json::from_value(value)
}

/// An entry at its position in the chain.
pub(crate) struct AppendedEntry {
    pub(crate) seq: u64,
    pub(crate) time: Time,
    /// What is hashed and stored.
    pub(crate) text: String,
}

/// The time of new entries. Its text is kept, because thousands of entries are written each second.
pub(crate) struct EntryClock {
    time: Time,
    text: String,
}

impl EntryClock {
    pub(crate) fn now() -> Self {
        let time = Time::now();
        Self {
            time,
            text: time.to_string(),
        }
    }

    fn update(&mut self) {
        if Time::now() != self.time {
            *self = Self::now();
        }
    }
}

const TYPICAL_ENTRY_BYTES: usize = 640;

/// The members of an entry in canonical order, without its hash. Declared in order, because every read over MCP makes
/// one and sorting took longer than all the rest.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct CanonicalEntry<'a> {
    action: &'a str,
    actor: &'a str,
    arg_names: &'a [String],
    chain: &'a str,
    content_sha256: Option<&'a str>,
    decision: Decision,
    duration_ms: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    intent: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    phase: Option<AuditPhase>,
    prev_hash: HexDigits<'a>,
    request_id: &'a str,
    seq: u64,
    size: Option<u64>,
    status: u16,
    target: Option<&'a str>,
    tenant: Option<&'a str>,
    time: &'a str,
    via: Via,
}

impl CanonicalEntry<'_> {
    fn to_text(&self) -> Result<String, serde_json::Error> {
        let mut text = Vec::with_capacity(TYPICAL_ENTRY_BYTES);
        serde_json::to_writer(&mut text, self)?;
        String::from_utf8(text).map_err(serde::ser::Error::custom)
    }
}

/// A hash, written as digits without a text of its own.
struct HexDigits<'a>(&'a [u8; 32]);

impl Serialize for HexDigits<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut digits = [0; 64];
        for (pair, byte) in digits.chunks_exact_mut(2).zip(self.0) {
            pair[0] = DIGITS[usize::from(byte >> 4)];
            pair[1] = DIGITS[usize::from(byte & 0xF)];
        }
        serializer.serialize_str(str::from_utf8(&digits).map_err(serde::ser::Error::custom)?)
    }
}

fn chain_hash(before: &[u8; 32], text: &str) -> [u8; 32] {
    let mut hash = Sha256::new();
    hash.update(before);
    hash.update(text.as_bytes());
    hash.finalize().into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::audit::canonical::canonical_json;

    fn chain(length: usize) -> Vec<(AuditEntry, String)> {
        let mut link = ChainPosition::origin();
        (0..length)
            .map(|number| {
                let entry = NewAuditEntry::new("tok_7", Via::Mcp, "write_share_file")
                    .with_target(format!("division1:notes/{number}.md"));
                append(&mut link, &entry, None, None)
            })
            .collect()
    }

    fn append(
        link: &mut ChainPosition,
        entry: &NewAuditEntry,
        phase: Option<AuditPhase>,
        intent: Option<u64>,
    ) -> (AuditEntry, String) {
        let clock = &mut EntryClock::now();
        let added = link.append("n1", entry, phase, intent, clock).unwrap();
        let read = parse_entry(&added.text, &link.hash).unwrap();
        assert_eq!((read.seq, read.time), (added.seq, added.time));
        (read, added.text)
    }

    fn bytes(hash: &str) -> Vec<u8> {
        (0..hash.len())
            .step_by(2)
            .map(|at| u8::from_str_radix(&hash[at..at + 2], 16).unwrap())
            .collect()
    }

    #[test]
    fn a_chain_can_be_followed_from_its_origin() {
        let mut link = ChainPosition::origin();
        for (entry, text) in chain(3) {
            let read = link.verify_next("n1", &text, &bytes(&entry.hash)).unwrap();
            assert_eq!(read, entry);
        }
        assert_eq!(link.seq, 3);
    }

    #[test]
    fn a_changed_a_missing_and_a_foreign_entry_are_noticed() {
        let entries = chain(3);
        let (first, text) = &entries[0];
        let changed = text.replace("notes/0", "notes/9");
        let hash = bytes(&first.hash);
        assert!(
            ChainPosition::origin()
                .verify_next("n1", &changed, &hash)
                .is_err()
        );
        assert!(
            ChainPosition::origin()
                .verify_next("n2", text, &hash)
                .is_err()
        );
        let (second, text) = &entries[1];
        assert!(
            ChainPosition::origin()
                .verify_next("n1", text, &bytes(&second.hash))
                .is_err()
        );
    }

    #[test]
    fn the_text_of_every_kind_of_entry_is_canonical() {
        let plain = NewAuditEntry::by_hub("kept");
        let full = NewAuditEntry {
            tenant: Some("a\u{1f600}\n\"".into()),
            target: Some("division1:notes".into()),
            arg_names: vec!["path".into(), "\u{e9}".into()],
            content_sha256: Some("ab".into()),
            size: Some(7),
            ..NewAuditEntry::new("tok_7", Via::Mcp, "write_share_file").denied(403)
        };
        let mut link = ChainPosition::origin();
        for (entry, phase, intent) in [(plain, None, None), (full, Some(AuditPhase::Done), Some(3))]
        {
            let (read, text) = append(&mut link, &entry, phase, intent);
            assert_eq!((read.phase, read.intent), (phase, intent));
            assert_eq!(
                (read.tenant.as_ref(), read.size),
                (entry.tenant.as_ref(), entry.size)
            );
            let mut value = serde_json::to_value(&read).unwrap();
            value.as_object_mut().unwrap().shift_remove("hash");
            assert_eq!(text, canonical_json(&value));
        }
    }

    #[test]
    fn entries_have_the_time_at_which_they_are_appended() {
        let mut clock = EntryClock::now();
        let begun = clock.time;
        while Time::now() == begun {
            std::hint::spin_loop();
        }
        let entry = NewAuditEntry::by_hub("kept");
        let added = ChainPosition::origin().append("n1", &entry, None, None, &mut clock);
        let added = added.unwrap();
        assert!(added.time > begun);
        assert!(added.text.contains(&format!("\"time\":\"{}\"", added.time)));
    }

    #[test]
    fn the_hashed_text_is_canonical_and_lacks_only_the_hash() {
        let (entry, text) = chain(1).remove(0);
        assert!(text.starts_with("{\"action\":\"write_share_file\",\"actor\":\"tok_7\","));
        assert!(!text.contains("\"hash\""));
        assert!(text.contains(&format!("\"prevHash\":\"{}\"", "0".repeat(64))));
        let mut hash = Sha256::new();
        hash.update([0; 32]);
        hash.update(&text);
        assert_eq!(entry.hash, hex(&hash.finalize()));
    }
}
