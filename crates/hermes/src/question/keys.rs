//! From the bytes a terminal sends to the keys a person pressed.

use super::terminal::CTRL_C;

/// A key that means something in a checklist.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Key {
    Up,
    Down,
    Toggle,
    All,
    None,
    Accept,
    Leave,
}

/// Takes the keys out of `bytes`; an unfinished sequence stays for the next read.
pub(super) fn take(bytes: &mut Vec<u8>) -> Vec<Key> {
    let mut keys = Vec::new();
    let mut position = 0;
    while position < bytes.len() {
        let rest = &bytes[position..];
        let (key, length) = match rest {
            [] | [0x1b, b'[' | b'O'] => break,
            [0x1b, b'[' | b'O', letter, ..] => (arrow(*letter), 3),
            [first, ..] => (plain(*first), 1),
        };
        keys.extend(key);
        position += length;
    }
    bytes.drain(..position);
    keys
}

fn arrow(letter: u8) -> Option<Key> {
    match letter {
        b'A' => Some(Key::Up),
        b'B' => Some(Key::Down),
        _ => None,
    }
}

fn plain(byte: u8) -> Option<Key> {
    match byte {
        b'k' => Some(Key::Up),
        b'j' => Some(Key::Down),
        b' ' | b'x' => Some(Key::Toggle),
        b'a' => Some(Key::All),
        b'n' => Some(Key::None),
        b'\r' | b'\n' => Some(Key::Accept),
        b'q' | 0x1b | CTRL_C => Some(Key::Leave),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_and_arrows_are_told_apart() {
        let mut bytes = b"j\x1b[A\x1bOB \r".to_vec();
        let keys = take(&mut bytes);
        assert_eq!(
            keys,
            [Key::Down, Key::Up, Key::Down, Key::Toggle, Key::Accept]
        );
        assert!(bytes.is_empty());
    }

    #[test]
    fn an_arrow_that_comes_in_two_pieces_is_one_key() {
        let mut bytes = b"\x1b[".to_vec();
        assert_eq!(take(&mut bytes), []);
        bytes.push(b'B');
        assert_eq!(take(&mut bytes), [Key::Down]);
    }

    #[test]
    fn escape_alone_leaves() {
        assert_eq!(take(&mut b"\x1b".to_vec()), [Key::Leave]);
    }
}
