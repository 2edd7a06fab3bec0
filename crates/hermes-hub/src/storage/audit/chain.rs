//! The hash chain: appending an entry, and verifying a stored one.

use serde::Serialize;
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

    /// Appends an entry and advances to it. Also returns the hashed text, which is what is stored.
    pub(crate) fn append(
        &mut self,
        chain: &str,
        entry: NewAuditEntry,
        phase: Option<AuditPhase>,
        intent: Option<u64>,
    ) -> Result<(AuditEntry, String), serde_json::Error> {
        let milliseconds = entry.started.elapsed().as_millis();
        let mut entry = AuditEntry {
            seq: self.seq + 1,
            chain: chain.to_owned(),
            time: Time::now(),
            actor: entry.actor,
            via: entry.via,
            action: entry.action,
            tenant: entry.tenant,
            target: entry.target,
            arg_names: entry.arg_names,
            content_sha256: entry.content_sha256,
            size: entry.size,
            decision: entry.decision,
            status: entry.status,
            duration_ms: u64::try_from(milliseconds).unwrap_or(u64::MAX),
            request_id: entry.request_id,
            phase,
            intent,
            prev_hash: hex(&self.hash),
            hash: String::new(),
        };
        let text = canonical_text(&entry)?;
        self.hash = chain_hash(&self.hash, &text);
        self.seq = entry.seq;
        entry.hash = hex(&self.hash);
        Ok((entry, text))
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
    prev_hash: &'a str,
    request_id: &'a str,
    seq: u64,
    size: Option<u64>,
    status: u16,
    target: Option<&'a str>,
    tenant: Option<&'a str>,
    time: Time,
    via: Via,
}

fn canonical_text(entry: &AuditEntry) -> Result<String, serde_json::Error> {
    let mut text = Vec::with_capacity(TYPICAL_ENTRY_BYTES);
    let sorted = CanonicalEntry {
        action: &entry.action,
        actor: &entry.actor,
        arg_names: &entry.arg_names,
        chain: &entry.chain,
        content_sha256: entry.content_sha256.as_deref(),
        decision: entry.decision,
        duration_ms: entry.duration_ms,
        intent: entry.intent,
        phase: entry.phase,
        prev_hash: &entry.prev_hash,
        request_id: &entry.request_id,
        seq: entry.seq,
        size: entry.size,
        status: entry.status,
        target: entry.target.as_deref(),
        tenant: entry.tenant.as_deref(),
        time: entry.time,
        via: entry.via,
    };
    serde_json::to_writer(&mut text, &sorted)?;
    String::from_utf8(text).map_err(serde::ser::Error::custom)
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
                link.append("n1", entry, None, None).unwrap()
            })
            .collect()
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
        let (plain, _) = chain(1).remove(0);
        let full = AuditEntry {
            tenant: Some("a\u{1f600}\n\"".into()),
            arg_names: vec!["path".into(), "\u{e9}".into()],
            content_sha256: Some("ab".into()),
            size: Some(7),
            phase: Some(AuditPhase::Done),
            intent: Some(3),
            ..plain.clone()
        };
        for entry in [plain, full] {
            let mut value = serde_json::to_value(&entry).unwrap();
            value.as_object_mut().unwrap().shift_remove("hash");
            assert_eq!(canonical_text(&entry).unwrap(), canonical_json(&value));
        }
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
