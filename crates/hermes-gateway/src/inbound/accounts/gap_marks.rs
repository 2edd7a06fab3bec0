//! From where on chats are to be asked for what was missed: how far each was before anything could be missed.
//!
//! That is noted at the first sign of a gap. Later it may be too late: what comes over the next connection moves the
//! position of its chat, and would hide what was said before it.

use std::collections::HashMap;

use crate::platform::{AnnouncedEnds, ChatMark, ConnectionState, PlatformHealth};

/// What an account's health says about gaps.
#[derive(Debug, Clone, Copy)]
pub(super) struct GapSigns {
    is_connected: bool,
    /// How often something may have been missed so far.
    connections: u64,
    announced_ends: AnnouncedEnds,
}

impl GapSigns {
    pub(super) fn read(health: &PlatformHealth) -> Self {
        // First what is recorded last: an end is over once its gap is recorded.
        let announced_ends = health.announced_ends();
        let connections = health.connections();
        Self {
            is_connected: health.state() == ConnectionState::Connected,
            connections,
            announced_ends,
        }
    }
}

/// Marks by chat and thread.
#[derive(Debug, Default)]
struct MarkedChats(HashMap<(String, Option<String>), ChatMark>);

impl MarkedChats {
    /// What is not known yet: an earlier mark has seen less.
    fn add<'m>(&mut self, marks: impl IntoIterator<Item = &'m ChatMark>) {
        for mark in marks {
            let key = (mark.chat.id.clone(), mark.chat.thread_id.clone());
            self.0.entry(key).or_insert_with(|| mark.clone());
        }
    }
}

/// The marks of one account.
#[derive(Debug, Default)]
pub(super) struct GapMarks {
    /// From where on the next fetch asks.
    due: MarkedChats,
    /// How far chats were when the platform said that it will end a connection. Nobody knows yet whether that leaves a gap.
    announced: MarkedChats,
    /// What was seen before of the signs.
    connections: u64,
    announced_ends: u64,
}

impl GapMarks {
    /// Notes how far chats are, if there is a new sign.
    pub(super) fn note(&mut self, signs: GapSigns, recent_marks: impl FnOnce() -> Vec<ChatMark>) {
        let is_gap = !signs.is_connected || signs.connections > self.connections;
        let is_announced = signs.announced_ends.count > self.announced_ends;
        self.connections = signs.connections;
        self.announced_ends = signs.announced_ends.count;
        if is_gap || is_announced {
            let recent = recent_marks();
            if is_announced {
                self.announced.add(&recent);
            }
            if is_gap {
                self.due.add(self.announced.0.values());
                self.due.add(&recent);
            }
        }
        if signs.announced_ends.pending == 0 {
            // Kept for longer they would ask for what was taken long ago.
            self.announced.0.clear();
        }
    }

    /// Marks that were taken before, and so are older than all others.
    pub(super) fn put_back(&mut self, marks: Vec<ChatMark>) {
        for mark in marks {
            let key = (mark.chat.id.clone(), mark.chat.thread_id.clone());
            self.due.0.insert(key, mark);
        }
    }

    /// Takes what the next fetch asks for.
    pub(super) fn take(&mut self) -> Vec<ChatMark> {
        self.due.0.drain().map(|(_, mark)| mark).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::platform::{ChatAddress, ChatKind};

    fn mark(chat: &str, after: &str) -> ChatMark {
        ChatMark {
            chat: ChatAddress::new(chat, ChatKind::Dm),
            after: after.to_owned(),
        }
    }

    /// A connected account, of which nothing is to be fetched.
    fn connected_account() -> (PlatformHealth, GapMarks) {
        let health = PlatformHealth::new(Duration::from_mins(1));
        health.record_ok();
        let mut marks = GapMarks::default();
        note(&mut marks, &health, &[]);
        (health, marks)
    }

    /// Notes the signs that there are, while chats are so far.
    fn note(marks: &mut GapMarks, health: &PlatformHealth, recent: &[ChatMark]) {
        marks.note(GapSigns::read(health), || recent.to_vec());
    }

    fn take(marks: &mut GapMarks) -> Vec<ChatMark> {
        let mut taken = marks.take();
        taken.sort_by(|one, two| one.chat.id.cmp(&two.chat.id));
        taken
    }

    #[test]
    fn a_second_loss_does_not_hide_what_the_first_one_left_to_fetch() {
        let (health, mut marks) = connected_account();
        health.record_lost("closed", "");
        note(&mut marks, &health, &[mark("1", "10")]);
        let further = [mark("1", "20"), mark("2", "21")];
        note(&mut marks, &health, &further);
        assert_eq!(take(&mut marks), [mark("1", "10"), mark("2", "21")]);
        // Lost again while they were fetched, and one failed.
        note(&mut marks, &health, &[mark("1", "30"), mark("2", "31")]);
        marks.put_back(vec![mark("2", "21")]);
        assert_eq!(take(&mut marks), [mark("1", "30"), mark("2", "21")]);
    }

    #[test]
    fn after_a_gap_that_was_no_loss_all_chats_are_due_beside_one_that_failed() {
        let (health, mut marks) = connected_account();
        marks.put_back(vec![mark("1", "10")]);
        health.record_gap();
        note(&mut marks, &health, &[mark("1", "20"), mark("2", "21")]);
        assert_eq!(take(&mut marks), [mark("1", "10"), mark("2", "21")]);
    }

    #[test]
    fn what_comes_before_a_gap_is_recorded_does_not_hide_it_if_the_end_was_announced() {
        let (health, mut marks) = connected_account();
        let first = health.announce_end();
        note(&mut marks, &health, &[mark("1", "10")]);
        let second = health.announce_end();
        note(&mut marks, &health, &[mark("1", "20"), mark("2", "21")]);
        assert_eq!(take(&mut marks), []);
        health.record_gap();
        drop(first);
        let later = [mark("1", "30"), mark("2", "31")];
        note(&mut marks, &health, &later);
        assert_eq!(take(&mut marks), [mark("1", "10"), mark("2", "21")]);
        // The other one leaves a gap too, and then there was a loss instead.
        health.record_lost("disconnected", "");
        drop(second);
        note(&mut marks, &health, &later);
        assert_eq!(take(&mut marks), [mark("1", "10"), mark("2", "21")]);
    }

    #[test]
    fn an_announced_end_that_left_no_gap_leaves_nothing_to_fetch() {
        let (health, mut marks) = connected_account();
        let end = health.announce_end();
        note(&mut marks, &health, &[mark("1", "10")]);
        drop(end);
        note(&mut marks, &health, &[mark("1", "20")]);
        assert_eq!(take(&mut marks), []);
        // What was noted then is not asked for after the next gap: it was answered since.
        health.record_gap();
        note(&mut marks, &health, &[mark("1", "30")]);
        assert_eq!(take(&mut marks), [mark("1", "30")]);
    }
}
