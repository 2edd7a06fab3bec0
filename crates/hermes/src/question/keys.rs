//! From the bytes a terminal sends to the keys a person pressed.

use super::terminal::CTRL_C;

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
