//! Which rows of a session are something new that was said, and which are only written again.
//!
//! Compaction, retries and branches insert rows that were there before, and compaction a summary in front of them.
//! None of that happened in the chat.

use std::collections::HashMap;

/// A row that was not there at the last look, and what is known about it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct NewRow {
    /// Its id.
    pub(super) id: i64,
    /// The first row of this session or an ancestor that says the same at the same time; itself, if it is that one.
    pub(super) first: i64,
    /// Whether an equal row before it was moved out of the way, or is in an ancestor.
    pub(super) replaces: bool,
    /// Written again after its session's history was deleted.
    pub(super) rewritten: bool,
    /// Whether it is live.
    pub(super) active: bool,
    /// Whether somebody says something in it, and it was not taken back.
    pub(super) is_candidate: bool,
}

impl NewRow {
    fn is_copy(&self) -> bool {
        self.first != self.id || self.rewritten
    }
}

/// Something said: rows that are one message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Said {
    /// The first of the rows. It gives the message its place and keeps it from being logged twice.
    pub(super) first: i64,
    /// The row that stands for it.
    pub(super) id: i64,
    /// The session of that row, as the caller numbers them.
    pub(super) session: usize,
}

/// What was said, in the order of the first rows. Each session comes with the last row known of it and its new rows,
/// in order; `same_chat` tells whether two sessions belong to one chat.
pub(super) fn said(
    sessions: &[(i64, Vec<NewRow>)],
    same_chat: impl Fn(usize, usize) -> bool,
) -> Vec<Said> {
    let mut rows: Vec<(usize, &NewRow)> = Vec::new();
    for (session, (known, new)) in sessions.iter().enumerate() {
        let last_copy = new.iter().rposition(|row| row.is_copy() && row.replaces);
        for (at, row) in new.iter().enumerate() {
            let is_summary =
                row.active && !row.is_copy() && last_copy.is_some_and(|copy| copy > at);
            let is_known = row.first <= *known || row.rewritten;
            if row.is_candidate && !is_known && !is_summary {
                rows.push((session, row));
            }
        }
    }
    rows.sort_by_key(|(_, row)| row.id);
    let mut places: HashMap<i64, usize> = HashMap::new();
    let mut found: Vec<(Said, bool)> = Vec::new();
    for (session, row) in rows {
        let place = *places.entry(row.first).or_insert(found.len());
        let said = Said {
            first: row.first,
            id: row.id,
            session,
        };
        match found.get_mut(place) {
            None => found.push((said, row.active)),
            // The newest live row is the one that readers of the chat are shown.
            Some((earlier, is_active)) if same_chat(earlier.session, session) => {
                if row.active || !*is_active {
                    (*earlier, *is_active) = (said, row.active);
                }
            }
            Some(_) => {}
        }
    }
    let mut said: Vec<Said> = found.into_iter().map(|(said, _)| said).collect();
    said.sort_by_key(|said| said.first);
    said
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(id: i64) -> NewRow {
        NewRow {
            id,
            first: id,
            replaces: false,
            rewritten: false,
            active: true,
            is_candidate: true,
        }
    }

    fn compacted(id: i64) -> NewRow {
        NewRow {
            active: false,
            ..row(id)
        }
    }

    fn copy(id: i64, first: i64) -> NewRow {
        NewRow {
            first,
            replaces: true,
            ..row(id)
        }
    }

    fn ids(sessions: &[(i64, Vec<NewRow>)]) -> Vec<i64> {
        said(sessions, |_, _| true)
            .iter()
            .map(|said| said.id)
            .collect()
    }

    #[test]
    fn every_new_row_is_said_in_order() {
        let sessions = [(10, vec![row(11), row(14)]), (10, vec![row(12), row(13)])];
        assert_eq!(ids(&sessions), [11, 12, 13, 14]);
    }

    #[test]
    fn copies_of_known_rows_and_the_summary_before_them_are_not_said() {
        let rows = vec![row(11), copy(12, 9), copy(13, 10), row(14)];
        assert_eq!(ids(&[(10, rows)]), [14]);
    }

    #[test]
    fn a_new_row_and_its_copy_are_said_once_by_the_live_one() {
        let rows = vec![compacted(11), row(12), copy(13, 11)];
        assert_eq!(ids(&[(10, rows)]), [13]);
        let rows = vec![compacted(11), compacted(12), copy(13, 11)];
        assert_eq!(ids(&[(10, rows)]), [13, 12], "in the order of speaking");
    }

    #[test]
    fn what_was_dropped_by_a_compaction_before_it_was_seen_is_said() {
        let rows = vec![compacted(11), compacted(12), row(13), copy(14, 12)];
        assert_eq!(ids(&[(10, rows)]), [11, 14]);
    }

    #[test]
    fn a_rewritten_history_is_not_said() {
        let again = |id| NewRow {
            rewritten: true,
            replaces: true,
            ..row(id)
        };
        assert_eq!(ids(&[(10, vec![again(11), again(12), row(13)])]), [13]);
    }

    #[test]
    fn the_same_said_twice_hides_nothing_between() {
        let twice = NewRow {
            first: 11,
            ..row(13)
        };
        assert_eq!(ids(&[(10, vec![row(11), row(12), twice])]), [13, 12]);
    }

    #[test]
    fn a_branch_into_another_chat_leaves_the_message_in_the_first() {
        let sessions = [(10, vec![row(11)]), (10, vec![copy(12, 11)])];
        assert_eq!(ids(&sessions), [12], "one chat: what it shows now");
        let said = said(&sessions, |one, other| one == other);
        assert_eq!((said[0].id, said[0].session, said.len()), (11, 0, 1));
    }

    #[test]
    fn what_is_no_candidate_is_not_said_but_can_follow_a_summary() {
        let tool = NewRow {
            is_candidate: false,
            ..copy(12, 3)
        };
        assert_eq!(ids(&[(10, vec![row(11), tool])]), [0; 0]);
    }
}
