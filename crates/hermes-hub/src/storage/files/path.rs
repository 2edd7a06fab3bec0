//! Paths that clients send: relative and normalized. The text of such a path cannot leave its root; links on the disk
//! are checked when it is opened.

use std::{borrow::Cow, fmt, sync::Arc};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::Problem;

/// The limit of file systems.
const MAX_SEGMENT_BYTES: usize = 255;
const MAX_PATH_BYTES: usize = 4096;
pub(crate) const MAX_SEGMENTS: usize = 64;
/// Prefix of temporary files. No path may contain it.
pub(crate) const TEMP_PREFIX: &str = ".hub-tmp-";

/// A path below the root of a share, workspace or sync destination: normal segments, separated by `/`. The root is the
/// empty path.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SharePath(Arc<str>);

impl SharePath {
    pub fn root() -> Self {
        Self(Arc::from(""))
    }

    /// Parses a path. Empty segments and `.` are dropped; anything that could mean another file on some system, or look
    /// like another name to a reader, is refused.
    pub fn parse(text: &str) -> Result<Self, Problem> {
        if text.len() > MAX_PATH_BYTES {
            return Err(invalid_path("a path has at most 4096 bytes"));
        }
        if text.starts_with('/') {
            return Err(invalid_path(
                "a path is relative: leave out the `/` at its start",
            ));
        }
        let segments: Vec<&str> = text
            .split('/')
            .filter(|segment| !segment.is_empty() && *segment != ".")
            .collect();
        if segments.len() > MAX_SEGMENTS {
            return Err(invalid_path("a path has at most 64 segments"));
        }
        for segment in &segments {
            check_segment(segment).map_err(invalid_path)?;
        }
        Ok(Self(Arc::from(segments.join("/"))))
    }

    /// Empty for the root.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub fn is_root(&self) -> bool {
        self.0.is_empty()
    }

    pub fn segments(&self) -> impl DoubleEndedIterator<Item = &str> {
        self.0.split('/').filter(|segment| !segment.is_empty())
    }

    /// The last segment; empty for the root.
    pub fn name(&self) -> &str {
        self.0.rsplit('/').next().unwrap_or_default()
    }

    /// Its parent and its name there; `None` for the root.
    pub fn split(&self) -> Option<(SharePath, &str)> {
        if self.is_root() {
            return None;
        }
        Some(match self.0.rsplit_once('/') {
            Some((parent, name)) => (Self(Arc::from(parent)), name),
            None => (Self::root(), &self.0),
        })
    }

    /// Whether it is that path, or below it.
    pub fn is_within(&self, other: &SharePath) -> bool {
        other.is_root()
            || self
                .0
                .strip_prefix(other.as_str())
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }

    /// The path of an entry whose name is known to be valid.
    pub(crate) fn join(&self, name: &str) -> String {
        if self.is_root() {
            name.to_owned()
        } else {
            format!("{}/{name}", self.0)
        }
    }
}

impl fmt::Display for SharePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_root() { "." } else { &self.0 })
    }
}

impl Serialize for SharePath {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl JsonSchema for SharePath {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        Cow::Borrowed("SharePath")
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "maxLength": MAX_PATH_BYTES})
    }
}

impl<'de> Deserialize<'de> for SharePath {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).map_err(serde::de::Error::custom)
    }
}

/// A name from the disk as a segment of a path, if it is valid.
pub(crate) fn parse_segment(name: &[u8]) -> Option<&str> {
    let name = std::str::from_utf8(name).ok()?;
    check_segment(name).is_ok().then_some(name)
}

fn check_segment(segment: &str) -> Result<(), &'static str> {
    if matches!(segment, "" | "." | "..") {
        return Err("`..` is not allowed in a path: name the target itself");
    }
    if segment.len() > MAX_SEGMENT_BYTES {
        return Err("a segment of a path has at most 255 bytes");
    }
    if segment.starts_with(TEMP_PREFIX) {
        return Err("names that begin with `.hub-tmp-` are the Hub's own");
    }
    for character in segment.chars() {
        match character {
            '\\' => return Err("`\\` is not a separator and not allowed in a name: write `/`"),
            ':' => {
                return Err("`:` is not allowed in a name: drives and streams do not exist here");
            }
            '/' => return Err("`/` separates segments"),
            _ if is_invisible(character) => {
                return Err(
                    "control, direction and zero-width characters are not allowed in a name",
                );
            }
            _ => {}
        }
    }
    Ok(())
}

/// Characters that are invisible, or change how others are displayed.
fn is_invisible(character: char) -> bool {
    if character.is_ascii() {
        return character.is_ascii_control();
    }
    character.is_control()
        || matches!(
            character,
            '\u{ad}'
                | '\u{61c}'
                | '\u{180e}'
                | '\u{200b}'..='\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}'
                | '\u{feff}'
                | '\u{fff9}'..='\u{fffb}'
                | '\u{e0000}'..='\u{e007f}'
        )
}

fn invalid_path(reason: &'static str) -> Problem {
    Problem::invalid(format!("the path is refused: {reason}")).with_detail("path", reason)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_root_has_two_names_and_empty_segments_say_nothing() {
        for text in ["", ".", "./", "././."] {
            assert!(SharePath::parse(text).unwrap().is_root(), "{text:?}");
        }
        assert_eq!(
            SharePath::parse("./notes//a.md").unwrap().as_str(),
            "notes/a.md"
        );
        assert_eq!(SharePath::parse("context/").unwrap().as_str(), "context");
    }

    #[test]
    fn every_way_out_is_refused() {
        for text in [
            "..",
            "../a",
            "a/..",
            "a/../b",
            "a/../../b",
            "/etc/passwd",
            "//host/share",
            "/",
            "a\\b",
            "..\\a",
            "\\\\host\\share",
            "C:",
            "c:/windows",
            "C:\\windows",
            "a.txt:stream",
            "a.txt::$DATA",
            "a\0b",
            "a\nb",
            "a\u{7f}",
            "a\u{85}b",
            "a\u{202e}txt.exe",
            "a\u{2066}b",
            "a\u{200b}b",
            "a\u{200d}b",
            "\u{feff}a",
            "a\u{2028}b",
            "a\u{e0041}b",
            ".hub-tmp-1",
            "a/.hub-tmp-0123",
        ] {
            let problem = SharePath::parse(text).expect_err(text);
            assert_eq!(problem.code.status(), 400, "{text:?}");
        }
    }

    #[test]
    fn what_is_encoded_twice_is_only_a_name() {
        for text in [
            "%2e%2e/a",
            "%2e%2e%2fa",
            "..%2fa",
            "\u{ff0e}\u{ff0e}/a",
            "...",
            ".. /a",
            "~root",
            "$HOME",
        ] {
            assert!(SharePath::parse(text).is_ok(), "{text:?}");
        }
    }

    #[test]
    fn lengths_and_depth_have_limits() {
        assert!(SharePath::parse(&"a".repeat(255)).is_ok());
        assert!(SharePath::parse(&"a".repeat(256)).is_err());
        assert!(SharePath::parse(&"ä".repeat(128)).is_err());
        assert!(SharePath::parse(&["a"; 64].join("/")).is_ok());
        assert!(SharePath::parse(&["a"; 65].join("/")).is_err());
        assert!(SharePath::parse(&vec!["a".repeat(200); 21].join("/")).is_err());
    }

    #[test]
    fn within_means_whole_segments() {
        let path = |text| SharePath::parse(text).unwrap();
        assert!(path("a/b").is_within(&path("a")));
        assert!(path("a").is_within(&path("a")));
        assert!(path("a").is_within(&path("")));
        assert!(!path("ab").is_within(&path("a")));
        assert_eq!(path("a/b/c").split().unwrap(), (path("a/b"), "c"));
    }

    proptest! {
        #[test]
        fn a_path_has_only_plain_segments(text in any::<String>()) {
            if let Ok(path) = SharePath::parse(&text) {
                prop_assert!(!path.as_str().starts_with('/'));
                for segment in path.segments() {
                    prop_assert!(!matches!(segment, "." | ".."));
                    prop_assert!(segment.len() <= MAX_SEGMENT_BYTES);
                    prop_assert!(!segment.contains(['/', '\\', '\0', ':']));
                }
            }
        }

        #[test]
        fn parsing_what_was_parsed_changes_nothing(text in "[a-c./ \u{e4}]{0,40}") {
            if let Ok(path) = SharePath::parse(&text) {
                prop_assert_eq!(&SharePath::parse(path.as_str()).unwrap(), &path);
                let rebuilt: Vec<&str> = path.segments().collect();
                prop_assert_eq!(rebuilt.join("/"), path.as_str());
            }
        }
    }
}
