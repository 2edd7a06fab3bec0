//! The replies whose first chunk is being made out of a preview by this process: nobody else sends that chunk meanwhile.

use std::{collections::HashSet, sync::Arc};

use hermes_config::sync::Mutex;

/// Replies by their keys.
#[derive(Debug, Clone, Default)]
pub(super) struct ClaimedReplies {
    keys: Arc<Mutex<HashSet<String>>>,
}

impl ClaimedReplies {
    /// Holds a reply until the claim is dropped.
    pub(super) fn hold(&self, dedupe_key: &str) -> ReplyClaim {
        self.keys.lock().insert(dedupe_key.to_owned());
        ReplyClaim {
            replies: self.clone(),
            key: dedupe_key.to_owned(),
        }
    }

    pub(super) fn keys(&self) -> Vec<String> {
        self.keys.lock().iter().cloned().collect()
    }
}

pub(super) struct ReplyClaim {
    replies: ClaimedReplies,
    key: String,
}

impl Drop for ReplyClaim {
    fn drop(&mut self) {
        self.replies.keys.lock().remove(&self.key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_is_held_as_long_as_its_claim() {
        let replies = ClaimedReplies::default();
        let claim = replies.hold("a");
        assert_eq!(replies.keys(), ["a"]);
        drop(claim);
        assert!(replies.keys().is_empty());
    }
}
