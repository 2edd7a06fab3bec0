//! The newest part of the log, in memory.

use std::collections::VecDeque;

use super::{ConversationEvent, Cursor, EventPage, count_dropped};

/// Enough for clients that keep up.
const TAIL_LENGTH: usize = 1000;

/// All events after a certain cursor.
#[derive(Debug, Default)]
pub(super) struct EventTail {
    events: VecDeque<ConversationEvent>,
    /// Everything after this cursor is here.
    after: Cursor,
    oldest: Option<Cursor>,
    last: Cursor,
}

impl EventTail {
    pub(super) const LENGTH: usize = TAIL_LENGTH;

    /// The highest cursor ever assigned.
    pub(super) fn last(&self) -> Cursor {
        self.last
    }

    /// Drops all events up to that cursor.
    pub(super) fn begin_after(&mut self, cursor: Cursor) {
        self.events.clear();
        self.after = cursor;
        self.last = cursor;
    }

    /// Adds the events that follow, up to `last`.
    pub(super) fn extend(
        &mut self,
        events: Vec<ConversationEvent>,
        oldest: Option<Cursor>,
        last: Cursor,
    ) {
        self.events.extend(events);
        while self.events.len() > TAIL_LENGTH {
            if let Some(event) = self.events.pop_front() {
                self.after = event.cursor;
            }
        }
        self.oldest = oldest;
        self.last = last;
    }

    /// The page after a cursor, if it is completely in memory.
    pub(super) fn page(
        &self,
        after: Cursor,
        is_wanted: impl Fn(&ConversationEvent) -> bool,
        limit: usize,
    ) -> Option<EventPage> {
        if after < self.after {
            return None;
        }
        let start = self.events.partition_point(|event| event.cursor <= after);
        let events = self
            .events
            .range(start..)
            // Events trimmed from the log are dropped here, too.
            .filter(|event| self.oldest.is_some_and(|oldest| oldest <= event.cursor))
            .filter(|event| is_wanted(event))
            .take(limit)
            .cloned()
            .collect();
        Some(EventPage {
            events,
            oldest: self.oldest,
            last: self.last,
            dropped: count_dropped(after, self.oldest, self.last),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bridge::events::EventKind;

    fn event(cursor: u64) -> ConversationEvent {
        ConversationEvent {
            cursor: Cursor(cursor),
            kind: EventKind::ApprovalResolved {
                approval_id: "a".into(),
                decision: "deny".into(),
            },
            session_key: format!("chat {}", cursor % 2),
        }
    }

    fn every(_: &ConversationEvent) -> bool {
        true
    }

    fn cursors(page: &EventPage) -> Vec<u64> {
        page.events.iter().map(|event| event.cursor.0).collect()
    }

    #[test]
    fn it_answers_only_for_what_it_has() {
        let mut tail = EventTail::default();
        tail.begin_after(Cursor(5));
        tail.extend((6..=9).map(event).collect(), Some(Cursor(2)), Cursor(9));
        assert_eq!(tail.page(Cursor(4), every, 9), None);
        let page = tail.page(Cursor(5), every, 3).unwrap();
        assert_eq!((cursors(&page), page.last), (vec![6, 7, 8], Cursor(9)));
        let page = tail
            .page(
                Cursor(5),
                |event: &ConversationEvent| event.session_key == "chat 1",
                9,
            )
            .unwrap();
        assert_eq!(cursors(&page), [7, 9]);
        assert_eq!(cursors(&tail.page(Cursor(12), every, 9).unwrap()), [0; 0]);
    }

    #[test]
    fn the_oldest_events_leave_it_first() {
        let mut tail = EventTail::default();
        let length = TAIL_LENGTH as u64;
        tail.extend(
            (1..=length + 2).map(event).collect(),
            Some(Cursor(1)),
            Cursor(length + 2),
        );
        assert_eq!(tail.page(Cursor(1), every, 1), None);
        assert_eq!(cursors(&tail.page(Cursor(2), every, 1).unwrap()), [3]);
    }

    #[test]
    fn what_is_trimmed_counts_as_dropped() {
        let mut tail = EventTail::default();
        tail.extend((1..=5).map(event).collect(), Some(Cursor(4)), Cursor(5));
        let page = tail.page(Cursor(1), every, 9).unwrap();
        assert_eq!((cursors(&page), page.dropped), (vec![4, 5], 2));
        tail.extend(Vec::new(), None, Cursor(5));
        let page = tail.page(Cursor(1), every, 9).unwrap();
        assert_eq!((cursors(&page), page.dropped), (vec![], 4));
    }
}
