//! A list with a mark before each item: arrows move, space toggles, enter accepts. From the bytes a terminal sends to
//! the keys a person pressed.

use std::{collections::BTreeSet, io};

use super::{
    terminal::{self, CTRL_C, Keyboard},
    write_picture,
};

/// One line of a checklist.
#[derive(Debug, Clone)]
pub(crate) struct ChecklistItem {
    pub(crate) name: String,
    pub(crate) description: String,
}

const HELP: &str = "↑↓ move · space toggles · a all · n none · enter accepts · esc leaves";
/// The title, the help and the line below them.
const LINES_AROUND: usize = 3;

/// Lets the person mark items. `None`: they left.
pub(super) fn ask_checklist(
    title: &str,
    items: &[ChecklistItem],
    chosen: &[usize],
) -> io::Result<Option<Vec<usize>>> {
    let keyboard = Keyboard::open()?;
    let mut list = Checklist::new(items, chosen);
    let mut bytes = Vec::new();
    let mut drawn = 0;
    loop {
        let (columns, rows) = terminal::terminal_size();
        let mut lines = vec![truncate(title, columns)];
        lines.extend(list.lines(columns, rows.saturating_sub(LINES_AROUND).max(1)));
        lines.push(truncate(HELP, columns));
        write_picture(&format!("{}{}\r\n", erase(drawn), lines.join("\r\n")))?;
        drawn = lines.len();

        let new = keyboard.read()?;
        let is_gone = new.is_empty();
        bytes.extend(new);
        for key in parse_keys(&mut bytes) {
            match key {
                ChecklistKey::Accept => {
                    let (marked, all) = (list.marked.len(), items.len());
                    let title = truncate(title, columns);
                    write_picture(&format!("{}{title} {marked} of {all}\r\n", erase(drawn)))?;
                    return Ok(Some(list.marked.into_iter().collect()));
                }
                ChecklistKey::Leave => return Ok(None),
                other => list.apply_key(other),
            }
        }
        if is_gone {
            return Ok(None);
        }
    }
}

/// Takes away the lines drawn before.
fn erase(lines: usize) -> String {
    if lines == 0 {
        return String::new();
    }
    format!("\x1b[{lines}A\r\x1b[J")
}

struct Checklist<'a> {
    items: &'a [ChecklistItem],
    marked: BTreeSet<usize>,
    cursor: usize,
    /// The first item that is shown.
    top: usize,
}

impl<'a> Checklist<'a> {
    fn new(items: &'a [ChecklistItem], chosen: &[usize]) -> Self {
        Self {
            items,
            marked: chosen.iter().copied().collect(),
            cursor: 0,
            top: 0,
        }
    }

    fn apply_key(&mut self, key: ChecklistKey) {
        match key {
            ChecklistKey::Up => self.cursor = self.cursor.saturating_sub(1),
            ChecklistKey::Down => {
                self.cursor = (self.cursor + 1).min(self.items.len().saturating_sub(1));
            }
            ChecklistKey::Toggle => {
                if !self.marked.remove(&self.cursor) {
                    self.marked.insert(self.cursor);
                }
            }
            ChecklistKey::All => self.marked = (0..self.items.len()).collect(),
            ChecklistKey::None => self.marked.clear(),
            ChecklistKey::Accept | ChecklistKey::Leave => {}
        }
    }

    /// What fits into that many lines, with the cursor in sight.
    fn lines(&mut self, columns: usize, height: usize) -> Vec<String> {
        self.top = self.top.min(self.cursor);
        self.top = self.top.max((self.cursor + 1).saturating_sub(height));
        let width = self.items.iter().map(|item| item.name.chars().count());
        let width = width.max().unwrap_or(0).min(40);
        let shown = self.items.iter().enumerate().skip(self.top).take(height);
        let lines = shown.map(|(index, item)| {
            let pointer = if index == self.cursor { '>' } else { ' ' };
            let mark = if self.marked.contains(&index) {
                'x'
            } else {
                ' '
            };
            let line = format!(
                "{pointer} [{mark}] {:width$}  {}",
                item.name, item.description
            );
            truncate(&line, columns)
        });
        lines.collect()
    }
}

/// One line without control characters, short enough not to wrap: a wrapped line could not be erased.
fn truncate(text: &str, columns: usize) -> String {
    let line = text.lines().next().unwrap_or_default().trim_end();
    let printable = line.chars().filter(|character| !character.is_control());
    printable.take(columns.saturating_sub(1)).collect()
}

/// A key that means something in a checklist.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ChecklistKey {
    Up,
    Down,
    Toggle,
    All,
    None,
    Accept,
    Leave,
}

/// Takes the keys out of `bytes`; an unfinished sequence stays for the next read.
pub(super) fn parse_keys(bytes: &mut Vec<u8>) -> Vec<ChecklistKey> {
    let mut keys = Vec::new();
    let mut position = 0;
    while position < bytes.len() {
        let rest = &bytes[position..];
        let (key, length) = match rest {
            [] | [0x1b, b'[' | b'O'] => break,
            [0x1b, b'[' | b'O', letter, ..] => (arrow_key(*letter), 3),
            [first, ..] => (plain_key(*first), 1),
        };
        keys.extend(key);
        position += length;
    }
    bytes.drain(..position);
    keys
}

fn arrow_key(letter: u8) -> Option<ChecklistKey> {
    match letter {
        b'A' => Some(ChecklistKey::Up),
        b'B' => Some(ChecklistKey::Down),
        _ => None,
    }
}

fn plain_key(byte: u8) -> Option<ChecklistKey> {
    match byte {
        b'k' => Some(ChecklistKey::Up),
        b'j' => Some(ChecklistKey::Down),
        b' ' | b'x' => Some(ChecklistKey::Toggle),
        b'a' => Some(ChecklistKey::All),
        b'n' => Some(ChecklistKey::None),
        b'\r' | b'\n' => Some(ChecklistKey::Accept),
        b'q' | 0x1b | CTRL_C => Some(ChecklistKey::Leave),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn items(count: usize) -> Vec<ChecklistItem> {
        let item = |number| ChecklistItem {
            name: format!("tool_{number}"),
            description: String::new(),
        };
        (0..count).map(item).collect()
    }

    #[test]
    fn marks_follow_the_keys() {
        let items = items(3);
        let mut list = Checklist::new(&items, &[0, 1]);
        for key in [
            ChecklistKey::Down,
            ChecklistKey::Toggle,
            ChecklistKey::Down,
            ChecklistKey::Toggle,
            ChecklistKey::Down,
        ] {
            list.apply_key(key);
        }
        assert_eq!(list.marked, BTreeSet::from([0, 2]));
        list.apply_key(ChecklistKey::All);
        assert_eq!(list.marked.len(), 3);
        list.apply_key(ChecklistKey::None);
        assert!(list.marked.is_empty());
    }

    #[test]
    fn a_long_list_scrolls_with_the_cursor() {
        let items = items(5);
        let mut list = Checklist::new(&items, &[3]);
        assert_eq!(list.lines(80, 2), ["> [ ] tool_0", "  [ ] tool_1"]);
        for _ in 0..3 {
            list.apply_key(ChecklistKey::Down);
        }
        assert_eq!(list.lines(80, 2), ["  [ ] tool_2", "> [x] tool_3"]);
        list.apply_key(ChecklistKey::Up);
        assert_eq!(list.lines(80, 2), ["> [ ] tool_2", "  [x] tool_3"]);
    }

    #[test]
    fn a_line_is_cut_and_cannot_steer_the_terminal() {
        assert_eq!(truncate("ab\x1b[2Jcd\nmore", 80), "ab[2Jcd");
        assert_eq!(truncate("abcdef", 4), "abc");
    }

    #[test]
    fn letters_and_arrows_are_told_apart() {
        let mut bytes = b"j\x1b[A\x1bOB \r".to_vec();
        let keys = parse_keys(&mut bytes);
        assert_eq!(
            keys,
            [
                ChecklistKey::Down,
                ChecklistKey::Up,
                ChecklistKey::Down,
                ChecklistKey::Toggle,
                ChecklistKey::Accept
            ]
        );
        assert!(bytes.is_empty());
    }

    #[test]
    fn an_arrow_that_comes_in_two_pieces_is_one_key() {
        let mut bytes = b"\x1b[".to_vec();
        assert_eq!(parse_keys(&mut bytes), []);
        bytes.push(b'B');
        assert_eq!(parse_keys(&mut bytes), [ChecklistKey::Down]);
    }

    #[test]
    fn escape_alone_leaves() {
        assert_eq!(parse_keys(&mut b"\x1b".to_vec()), [ChecklistKey::Leave]);
    }
}
