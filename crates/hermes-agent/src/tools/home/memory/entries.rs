//! The entries of a memory file.

const SEPARATOR: &str = "\n§\n";

/// Entries in order; none is empty, none occurs twice.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct MemoryEntries(Vec<String>);

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum EntryChange {
    Add(String),
    Replace { old_text: String, content: String },
    Remove { old_text: String },
}

impl MemoryEntries {
    pub(super) fn parse(text: &str) -> Self {
        let mut entries = Self::default();
        let text = text.trim_start_matches('\u{feff}').replace("\r\n", "\n");
        for entry in text.split(SEPARATOR) {
            let entry = entry.trim();
            if !entry.is_empty() && !entries.0.iter().any(|known| known == entry) {
                entries.0.push(entry.to_owned());
            }
        }
        entries
    }

    pub(super) fn to_text(&self) -> String {
        self.0.join(SEPARATOR)
    }

    pub(super) fn into_list(self) -> Vec<String> {
        self.0
    }

    /// In characters, separators included.
    pub(super) fn size(&self) -> usize {
        self.to_text().chars().count()
    }

    pub(super) fn apply(&mut self, change: &EntryChange) -> Result<(), String> {
        match change {
            EntryChange::Add(content) => {
                let content = validate_entry(content)?;
                if !self.0.contains(&content) {
                    self.0.push(content);
                }
            }
            EntryChange::Replace { old_text, content } => {
                let content = validate_entry(content)?;
                let index = self.find(old_text)?;
                self.0[index] = content;
            }
            EntryChange::Remove { old_text } => {
                let index = self.find(old_text)?;
                self.0.remove(index);
            }
        }
        Ok(())
    }

    /// The one entry that contains a text.
    fn find(&self, text: &str) -> Result<usize, String> {
        let text = text.trim();
        if let Some(exact) = self.0.iter().position(|entry| entry == text) {
            return Ok(exact);
        }
        let matches: Vec<usize> = (0..self.0.len())
            .filter(|&index| self.0[index].contains(text))
            .collect();
        match matches.as_slice() {
            [index] => Ok(*index),
            [] => Err(format!(
                "no entry contains `{text}`. Entries: {}",
                serde_json::json!(self.0)
            )),
            _ => {
                let entries: Vec<&String> = matches.iter().map(|&index| &self.0[index]).collect();
                Err(format!(
                    "several entries contain `{text}`; give more of it: {}",
                    serde_json::json!(entries)
                ))
            }
        }
    }
}

/// Validates an entry: not empty, no separator, no invisible characters, since it becomes part of the instructions.
fn validate_entry(content: &str) -> Result<String, String> {
    let content = content.trim();
    if content.is_empty() {
        return Err("an entry cannot be empty".into());
    }
    if content.lines().any(|line| line.trim() == "§") {
        return Err("an entry cannot contain a line with only `§`".into());
    }
    let is_hidden = |c: char| {
        (c.is_control() && c != '\n' && c != '\t')
            || matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
    };
    if content.chars().any(is_hidden) {
        return Err("an entry cannot contain invisible characters".into());
    }
    Ok(content.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(list: &[&str]) -> MemoryEntries {
        MemoryEntries(list.iter().map(|&entry| entry.to_owned()).collect())
    }

    #[test]
    fn a_file_is_read_and_written_the_same() {
        let text = "one\n§\ntwo\nlines\n§\nthree";
        assert_eq!(
            MemoryEntries::parse(text),
            entries(&["one", "two\nlines", "three"])
        );
        assert_eq!(MemoryEntries::parse(text).to_text(), text);
        assert_eq!(
            MemoryEntries::parse("\u{feff}a\r\n§\r\na\n§\n\n"),
            entries(&["a"])
        );
        assert_eq!(entries(&["ä", "b"]).size(), 5);
    }

    #[test]
    fn entries_are_found_by_a_part_that_only_they_have() {
        let mut list = entries(&["likes tea", "likes coffee", "tea"]);
        list.apply(&EntryChange::Remove {
            old_text: "coffee".into(),
        })
        .unwrap();
        list.apply(&EntryChange::Replace {
            old_text: "tea".into(),
            content: "milk".into(),
        })
        .unwrap();
        assert_eq!(list, entries(&["likes tea", "milk"]));
        let mut list = entries(&["likes tea", "likes coffee"]);
        assert!(
            list.apply(&EntryChange::Remove {
                old_text: "likes".into()
            })
            .unwrap_err()
            .contains("several")
        );
        assert!(
            list.apply(&EntryChange::Remove {
                old_text: "beer".into()
            })
            .unwrap_err()
            .contains("no entry")
        );
    }

    #[test]
    fn nothing_hidden_or_broken_is_stored() {
        let mut list = MemoryEntries::default();
        for wrong in [
            "",
            "  ",
            "a\n§\nb",
            "a\u{200b}b",
            "a\u{202e}b",
            "a\u{1b}[31m",
        ] {
            assert!(
                list.apply(&EntryChange::Add(wrong.into())).is_err(),
                "{wrong:?}"
            );
        }
        list.apply(&EntryChange::Add(" a ".into())).unwrap();
        list.apply(&EntryChange::Add("a".into())).unwrap();
        assert_eq!(list, entries(&["a"]));
    }
}
