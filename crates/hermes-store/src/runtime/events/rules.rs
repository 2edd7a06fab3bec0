//! Which rows of a session are something new that was said, and which are only written again.
//!
//! Compaction, retries and branches insert rows that were there before, and compaction a summary in front of them.
//! None of that happened in the chat.

use std::collections::{HashMap, HashSet};

/// A row that was not there at the last look, and what is known about it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct NewRow {
    pub(super) id: i64,
    /// The first row of this session or an ancestor that says the same at the same time; itself, if it is that one.
    pub(super) first: i64,
    /// What it says again.
    pub(super) repeats: RowRepeat,
    /// Whether it is live.
    pub(super) active: bool,
    /// Whether somebody says something in it, and it was not taken back.
    pub(super) is_candidate: bool,
}

/// What a row says again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RowRepeat {
    /// It is not a copy.
    Nothing,
    /// A row that is still live in the same session.
    Live,
    /// A row that was moved out of the way, or is in an ancestor.
    Replaced,
    /// A history that was deleted.
    Deleted,
}

impl NewRow {
    fn is_copy(&self) -> bool {
        self.repeats != RowRepeat::Nothing
    }

    /// Whether it was inserted as part of a list that took the place of earlier rows.
    fn is_retained(&self) -> bool {
        matches!(self.repeats, RowRepeat::Replaced | RowRepeat::Deleted)
    }
}

/// Something said: rows that are one message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LoggedMessage {
    /// The first of the rows. It gives the message its place and keeps it from being logged twice.
    pub(super) first: i64,
    /// The row that stands for it.
    pub(super) id: i64,
    /// The session of that row, as the caller numbers them.
    pub(super) session: usize,
}

/// What was said, in the order of the first rows. Each session comes with the last row known of it and its new rows,
/// in order; `same_chat` tells whether two sessions belong to one chat.
pub(super) fn select_messages(
    sessions: &[(i64, Vec<NewRow>)],
    same_chat: impl Fn(usize, usize) -> bool,
) -> Vec<LoggedMessage> {
    let mut rows: Vec<(usize, &NewRow)> = Vec::new();
    let mut summaries: HashSet<i64> = HashSet::new();
    for (session, (known, new)) in sessions.iter().enumerate() {
        let last_retained = new.iter().rposition(NewRow::is_retained);
        for (at, row) in new.iter().enumerate() {
            let is_before_retained = last_retained.is_some_and(|last| last > at);
            if !row.is_copy() && is_before_retained && (row.active || is_old_summary(new, at)) {
                summaries.insert(row.id);
            }
            let is_known = row.first <= *known || row.repeats == RowRepeat::Deleted;
            if row.is_candidate && !is_known {
                rows.push((session, row));
            }
        }
    }
    rows.retain(|(_, row)| !summaries.contains(&row.first));
    rows.sort_by_key(|(_, row)| row.id);
    let mut places: HashMap<i64, usize> = HashMap::new();
    let mut found: Vec<(LoggedMessage, bool)> = Vec::new();
    for (session, row) in rows {
        let place = *places.entry(row.first).or_insert(found.len());
        let said = LoggedMessage {
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
    let mut said: Vec<LoggedMessage> = found.into_iter().map(|(said, _)| said).collect();
    said.sort_by_key(|said| said.first);
    said
}

/// Whether a row that is no longer live and no copy was the summary of a compaction before the last one.
///
/// A compaction inserts a list: perhaps some messages of the beginning, the summary, and messages of the end. What is
/// retained keeps its order, so a step back in it is where another list begins.
fn is_old_summary(rows: &[NewRow], at: usize) -> bool {
    let goes_on = |one: Option<&NewRow>, other: Option<&NewRow>| match (one, other) {
        (Some(one), Some(other)) => {
            one.is_retained() && other.is_retained() && one.first < other.first
        }
        _ => false,
    };
    // The rest of its list went out of sight together with it.
    let is_in_old_list = |row: &NewRow| row.is_retained() && !row.active;
    if !rows.get(at + 1).is_some_and(is_in_old_list) {
        return false;
    }
    if let Some(before) = at.checked_sub(1)
        && rows[before].is_retained()
    {
        return goes_on(rows.get(before), rows.get(at + 1));
    }
    // It stands before a list. If that has a summary of its own, this is a message.
    let mut end = at + 1;
    while goes_on(rows.get(end), rows.get(end + 1)) {
        end += 1;
    }
    !goes_on(rows.get(end), rows.get(end + 2))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(id: i64) -> NewRow {
        NewRow {
            id,
            first: id,
            repeats: RowRepeat::Nothing,
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
            repeats: RowRepeat::Replaced,
            ..row(id)
        }
    }

    fn ids(sessions: &[(i64, Vec<NewRow>)]) -> Vec<i64> {
        select_messages(sessions, |_, _| true)
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

    fn retained(id: i64, first: i64) -> NewRow {
        NewRow {
            active: false,
            ..copy(id, first)
        }
    }

    #[test]
    fn the_summary_of_an_earlier_compaction_is_not_said_either() {
        let rows = vec![
            compacted(11), // said
            compacted(12), // the first summary
            retained(13, 9),
            retained(14, 10),
            compacted(15), // said
            row(16),       // the second summary
            copy(17, 10),
            copy(18, 15),
        ];
        assert_eq!(ids(&[(10, rows)]), [11, 18]);
        let rows = vec![
            compacted(12),
            retained(13, 9),
            row(14),
            copy(15, 9),
            copy(16, 12), // the first summary, retained
        ];
        assert_eq!(ids(&[(10, rows)]), [0; 0]);
    }

    #[test]
    fn messages_between_compactions_that_keep_the_beginning_are_said() {
        let rows = vec![
            compacted(11), // said
            retained(12, 1),
            compacted(13), // the first summary
            retained(14, 10),
            compacted(15), // said
            copy(16, 1),
            row(17), // the second summary
            copy(18, 10),
        ];
        assert_eq!(ids(&[(10, rows)]), [11, 15]);
    }

    #[test]
    fn a_rewritten_history_is_not_said() {
        let again = |id| NewRow {
            repeats: RowRepeat::Deleted,
            ..row(id)
        };
        assert_eq!(ids(&[(10, vec![again(11), again(12), row(13)])]), [13]);
    }

    #[test]
    fn the_same_said_twice_hides_nothing_between() {
        let twice = NewRow {
            first: 11,
            repeats: RowRepeat::Live,
            ..row(13)
        };
        assert_eq!(ids(&[(10, vec![row(11), row(12), twice])]), [13, 12]);
    }

    #[test]
    fn a_branch_into_another_chat_leaves_the_message_in_the_first() {
        let sessions = [(10, vec![row(11)]), (10, vec![copy(12, 11)])];
        assert_eq!(ids(&sessions), [12], "one chat: what it shows now");
        let said = select_messages(&sessions, |one, other| one == other);
        assert_eq!((said[0].id, said[0].session, said.len()), (11, 0, 1));
    }

    #[test]
    fn what_is_not_a_candidate_is_not_said_but_can_follow_a_summary() {
        let tool = NewRow {
            is_candidate: false,
            ..copy(12, 3)
        };
        assert_eq!(ids(&[(10, vec![row(11), tool])]), [0; 0]);
    }
}
