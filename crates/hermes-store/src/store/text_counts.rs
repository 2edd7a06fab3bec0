//! Cached counts of text messages per session. A session's messages lie strewn over the whole database, so that
//! counting them reads a page for each. Which rows are live stands together in an index, and a row's role and content
//! never change: so it is enough to look at rows that were not there the last time.

use std::{
    collections::HashMap,
    hash::{DefaultHasher, Hash, Hasher},
};

use hermes_config::sync::{Mutex, MutexGuard};

use crate::SessionId;

/// Maximum number of cached sessions; each takes a hundred bytes.
const MAX_SESSIONS: usize = 20_000;

/// What was counted, by session.
#[derive(Debug, Default)]
pub(crate) struct TextCounts {
    sessions: Mutex<HashMap<SessionId, TextCount>>,
}

/// What was counted of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TextCount {
    /// So many live rows, the oldest ones.
    pub(crate) rows: usize,
    /// So many of them say something.
    pub(crate) texts: usize,
    /// Of the ids of these rows.
    hash: u64,
}

impl TextCount {
    fn from_ids(ids: &[i64], said: usize) -> Self {
        Self {
            rows: ids.len(),
            texts: said,
            hash: hash_ids(ids),
        }
    }
}

impl TextCounts {
    /// What is known of a session with these live rows; nothing, if some that were counted are gone.
    pub(crate) fn get(&self, session: &SessionId, ids: &[i64]) -> Option<TextCount> {
        let counted = self.lock().get(session).copied()?;
        let same = ids.get(..counted.rows)?;
        (hash_ids(same) == counted.hash).then_some(counted)
    }

    /// Remembers how many of these rows, which are all live ones of the session, say something.
    pub(crate) fn insert(&self, session: &SessionId, ids: &[i64], said: usize) {
        let mut sessions = self.lock();
        if sessions.len() >= MAX_SESSIONS && !sessions.contains_key(session) {
            sessions.clear();
        }
        sessions.insert(session.clone(), TextCount::from_ids(ids, said));
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<SessionId, TextCount>> {
        self.sessions.lock()
    }
}

fn hash_ids(ids: &[i64]) -> u64 {
    let mut hasher = DefaultHasher::new();
    ids.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_that_were_counted_are_not_looked_at_again() {
        let counts = TextCounts::default();
        let session = SessionId::from_stored("one".into());
        assert_eq!(counts.get(&session, &[3, 5, 9]), None);
        counts.insert(&session, &[3, 5, 9], 2);
        let known = |ids: &[i64]| {
            let counted = counts.get(&session, ids);
            counted.map(|counted| (counted.rows, counted.texts))
        };
        assert_eq!(known(&[3, 5, 9]), Some((3, 2)));
        assert_eq!(known(&[3, 5, 9, 12]), Some((3, 2)));
        // Taken back, summed up, written anew.
        assert_eq!(known(&[3, 5]), None);
        assert_eq!(known(&[3, 9, 12, 13]), None);
        assert_eq!(known(&[]), None);
        assert_eq!(
            counts.get(&SessionId::from_stored("other".into()), &[3, 5, 9]),
            None
        );
    }
}
