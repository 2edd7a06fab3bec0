//! Random numbers, texts and JSON, reproducible by seed.

use serde_json::{Map, Value, json};

/// Fragments with a meaning in paths, patterns, numbers or headers.
const PIECES: [&str; 56] = [
    "..",
    "/",
    "\\",
    ".",
    "*",
    "?",
    "[",
    "]",
    "[^",
    "a-z",
    "{",
    "}",
    "{1,",
    "1000}",
    "(",
    ")",
    "(?i)",
    "(?P<n>",
    "|",
    "^",
    "$",
    "+",
    "\\d",
    "\\pL",
    "\\Q",
    "\\E",
    "\\x{10ffff}",
    "[[:alpha:]]",
    "**",
    "%2e",
    "%00",
    "\0",
    "\n",
    "\r\n",
    "\u{202e}",
    "\u{feff}",
    "\u{10ffff}",
    "ä",
    "ſ",
    "é",
    "𝄞",
    "0",
    "-1",
    "18446744073709551616",
    "1e400",
    "bytes=0-",
    "\"",
    "W/\"1\"",
    ",",
    ";",
    "=",
    ":",
    "null",
    "true",
    "notes",
    "report.md",
];

#[derive(Debug, Clone)]
pub(super) struct RandomInput(u64);

impl RandomInput {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next random number (splitmix64).
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number below another.
    pub(super) fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % end.max(1) as u64).unwrap()
    }

    pub(super) fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    pub(super) fn one_of<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len())]
    }

    /// A text of pieces, characters and repetitions.
    pub(super) fn text(&mut self) -> String {
        let mut text = String::new();
        for _ in 0..self.below(12) {
            match self.below(8) {
                0 => text.extend(char::from_u32(
                    u32::try_from(self.below(0x0011_0000)).unwrap(),
                )),
                1 => text.push(char::from(u8::try_from(self.below(128)).unwrap())),
                2 => {
                    let piece = *self.one_of(&PIECES);
                    text.push_str(&piece.repeat(self.below(80)));
                }
                _ => text.push_str(self.one_of::<&str>(&PIECES)),
            }
        }
        text
    }

    /// Any JSON, not too deep.
    pub(super) fn json(&mut self, depth: usize) -> Value {
        match self.below(if depth == 0 { 7 } else { 9 }) {
            0 => Value::Null,
            1 => json!(self.once_in(2)),
            2 => json!(self.next()),
            3 => json!(self.next().cast_signed()),
            4 => json!(f64::from_bits(self.next())),
            5 | 6 => json!(self.text()),
            7 => (0..self.below(4)).map(|_| self.json(depth - 1)).collect(),
            _ => Value::Object(self.object(depth - 1)),
        }
    }

    fn object(&mut self, depth: usize) -> Map<String, Value> {
        (0..self.below(4))
            .map(|_| (self.text(), self.json(depth)))
            .collect()
    }

    /// A value that matches a schema, or nearly.
    pub(super) fn matching_schema(&mut self, schema: &Value, depth: usize) -> Value {
        if depth == 0 || self.once_in(8) {
            return self.json(depth.min(2));
        }
        if let Some(words) = schema["enum"].as_array() {
            return self.one_of(words).clone();
        }
        for choice in ["anyOf", "oneOf"] {
            if let Some(schemas) = schema[choice].as_array() {
                let schema = self.one_of(schemas).clone();
                return self.matching_schema(&schema, depth - 1);
            }
        }
        let kind = match &schema["type"] {
            Value::Array(kinds) => self.one_of(kinds).clone(),
            kind => kind.clone(),
        };
        match kind.as_str() {
            Some("object") => self.object_matching_schema(schema, depth),
            Some("array") => (0..self.below(4))
                .map(|_| self.matching_schema(&schema["items"], depth - 1))
                .collect(),
            Some("string") => self.text().into(),
            Some("boolean") => self.once_in(2).into(),
            Some("integer" | "number") if self.once_in(2) => self.below(200).into(),
            Some("integer" | "number") => self.next().into(),
            Some("null") => Value::Null,
            _ => self.json(depth.min(2)),
        }
    }

    fn object_matching_schema(&mut self, schema: &Value, depth: usize) -> Value {
        let mut made = Map::new();
        for (name, schema) in schema["properties"].as_object().into_iter().flatten() {
            if self.once_in(3) {
                made.insert(name.clone(), self.matching_schema(schema, depth - 1));
            }
        }
        if self.once_in(6) {
            made.insert(self.text(), self.json(1));
        }
        Value::Object(made)
    }
}
