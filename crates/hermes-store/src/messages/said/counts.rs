//! Cached counts of text messages per session. A session's messages lie strewn over the whole database, so that
//! counting them reads a page for each. Which rows are live stands together in an index, and a row's role and content
//! never change: so it is enough to look at rows that were not there the last time.

use std::{
    collections::HashMap,
    hash::{DefaultHasher, Hash, Hasher},
    sync::{Mutex, MutexGuard, PoisonError},
};

use crate::SessionId;

/// Maximum number of cached sessions; each takes a hundred bytes.
const MOST_SESSIONS: usize = 20_000;

/// What was counted, by session.
#[derive(Debug, Default)]
pub(crate) struct SaidCounts {
    sessions: Mutex<HashMap<SessionId, Counted>>,
}

/// What was counted of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Counted {
    /// So many live rows, the oldest ones.
    pub(super) rows: usize,
    /// So many of them say something.
    pub(super) said: usize,
    /// Of the ids of these rows.
    hash: u64,
}

impl Counted {
    fn of(ids: &[i64], said: usize) -> Self {
        Self {
            rows: ids.len(),
            said,
            hash: hash(ids),
        }
    }
}

impl SaidCounts {
    /// What is known of a session with these live rows; nothing, if some that were counted are gone.
    pub(super) fn known(&self, session: &SessionId, ids: &[i64]) -> Option<Counted> {
        let counted = self.lock().get(session).copied()?;
        let same = ids.get(..counted.rows)?;
        (hash(same) == counted.hash).then_some(counted)
    }

    /// Remembers how many of these rows, which are all live ones of the session, say something.
    pub(super) fn remember(&self, session: &SessionId, ids: &[i64], said: usize) {
        let mut sessions = self.lock();
        if sessions.len() >= MOST_SESSIONS && !sessions.contains_key(session) {
            sessions.clear();
        }
        sessions.insert(session.clone(), Counted::of(ids, said));
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<SessionId, Counted>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn hash(ids: &[i64]) -> u64 {
    let mut hasher = DefaultHasher::new();
    ids.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_that_were_counted_are_not_looked_at_again() {
        let counts = SaidCounts::default();
        let session = SessionId::stored("one".into());
        assert_eq!(counts.known(&session, &[3, 5, 9]), None);
        counts.remember(&session, &[3, 5, 9], 2);
        let known = |ids: &[i64]| {
            let counted = counts.known(&session, ids);
            counted.map(|counted| (counted.rows, counted.said))
        };
        assert_eq!(known(&[3, 5, 9]), Some((3, 2)));
        assert_eq!(known(&[3, 5, 9, 12]), Some((3, 2)));
        // Taken back, summed up, written anew.
        assert_eq!(known(&[3, 5]), None);
        assert_eq!(known(&[3, 9, 12, 13]), None);
        assert_eq!(known(&[]), None);
        assert_eq!(
            counts.known(&SessionId::stored("other".into()), &[3, 5, 9]),
            None
        );
    }
}
